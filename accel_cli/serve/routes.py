"""The routes: which address leads where."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from accel_cli.serve.about import About
from accel_cli.serve.classify import Classify
from accel_cli.serve.page import page_reply
from accel_cli.serve.replies import Reply
from accel_cli.serve.shared import Shared


class Endpoint:
    """A handler as an application of its own: starlette then adds nothing of its own around it."""

    def __init__(self, handler: Callable[[Request], Awaitable[Reply]]) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        reply = await self._handler(Request(scope, receive))
        await reply(scope, receive, send)


def routes_for(shared: Shared) -> list[Route]:
    """Every address."""
    classify, about = Classify(shared), About(shared)

    async def root(request: Request) -> Reply:
        """The page for people, or Hugging Face's pipelines."""
        if request.method == "POST":
            return await classify.hugging_face(request)
        if "text/html" in request.headers.get("accept", ""):
            return page_reply()
        return await about.info(request)

    model = "/v2/models/{name}"
    get: list[tuple[str, Any]] = [
        ("/health", about.health),
        ("/ready", about.ready),
        ("/info", about.info),
        ("/metrics", about.metrics),
        ("/openapi.json", about.openapi),
        ("/v2", about.server_metadata),
        ("/v2/", about.server_metadata),
        ("/v2/health/live", about.health),
        ("/v2/health/ready", about.ready),
    ]
    post: list[tuple[str, Any]] = [("/predict", classify.predict), ("/models/{name}", classify.hugging_face)]
    for place in (model, model + "/versions/{version}"):
        get += [(place, about.model_metadata), (place + "/ready", about.model_ready)]
        post.append((place + "/infer", classify.infer))
    return [
        Route("/", Endpoint(root), methods=["GET", "POST"]),
        *(Route(path, Endpoint(call), methods=["POST"]) for path, call in post),
        *(Route(path, Endpoint(call), methods=["GET"]) for path, call in get),
    ]
