"""The routes: which address leads where. There is one model, so every address is known from the start."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from accel_cli.serve.about import About
from accel_cli.serve.classify import Classify
from accel_cli.serve.page import page_reply
from accel_cli.serve.refusals import Refusal
from accel_cli.serve.replies import Reply
from accel_cli.serve.shared import Shared
from accel_cli.serve.v2 import VERSION
from accel_cli.serve.visit import Visit

Handler: TypeAlias = Callable[[Visit], Awaitable[Reply]]

_OF_A_MODEL = re.compile(r"/models/([^/]+)|/v2/models/([^/]+)(?:/versions/([^/]+))?(?:/ready|/infer)?")


@dataclass(frozen=True)
class Place:
    """What is at an address: a handler for each method. `template` is the address for any model."""

    template: str
    handlers: dict[str, Handler]


class Routes:
    """Every address of a server."""

    def __init__(self, shared: Shared) -> None:
        self._model = shared.config.name
        self._places = {
            template.format(name=self._model, version=VERSION): Place(template, handlers)
            for template, handlers in _handlers(Classify(shared), About(shared)).items()
        }

    def find(self, method: str, path: str) -> tuple[str, Handler]:
        """The template of a path and what answers there. Raises Refusal."""
        place = self._places.get(path)
        if place is None:
            raise self._unknown(method, path)
        handler = place.handlers.get(method)
        if handler is None:
            raise _not_served(405, method, path, {"allow": ", ".join(place.handlers)})
        return place.template, handler

    def _unknown(self, method: str, path: str) -> Refusal:
        """404, and why."""
        asked = _OF_A_MODEL.fullmatch(path)
        if asked is None:
            return _not_served(404, method, path)
        name, version = asked[1] or asked[2], asked[3]
        if name != self._model:
            return _not_found(f"unknown model {name[:80]!r}; this server has {self._model!r}")
        if version is not None and version != VERSION:
            return _not_found(f"unknown version {version[:80]!r}; there is {VERSION!r}")
        return _not_served(404, method, path)


def _handlers(classify: Classify, about: About) -> dict[str, dict[str, Handler]]:
    """The handlers of each address, by its template."""

    async def root(visit: Visit) -> Reply:
        """The page for people, or what `/info` says."""
        if b"text/html" in visit.headers.get(b"accept", b""):
            return page_reply()
        return await about.info(visit)

    model = "/v2/models/{name}"
    found: dict[str, dict[str, Handler]] = {
        "/": {**_get(root), "POST": classify.hugging_face},
        "/predict": {"POST": classify.predict},
        "/models/{name}": {"POST": classify.hugging_face},
        "/health": _get(about.health),
        "/ready": _get(about.ready),
        "/info": _get(about.info),
        "/metrics": _get(about.metrics),
        "/openapi.json": _get(about.openapi),
        "/v2": _get(about.server_metadata),
        "/v2/": _get(about.server_metadata),
        "/v2/health/live": _get(about.health),
        "/v2/health/ready": _get(about.ready),
    }
    for place in (model, model + "/versions/{version}"):
        found[place] = _get(about.model_metadata)
        found[place + "/ready"] = _get(about.model_ready)
        found[place + "/infer"] = {"POST": classify.infer}
    return found


def _get(handler: Handler) -> dict[str, Handler]:
    return {"GET": handler, "HEAD": handler}


def _not_found(message: str) -> Refusal:
    return Refusal(404, "not_found", message)


def _not_served(status: int, method: str, path: str, headers: dict[str, str] | None = None) -> Refusal:
    message = f"{method} {path[:80]!r} is not served; GET /openapi.json lists what is"
    return Refusal(status, "not_found", message, headers)
