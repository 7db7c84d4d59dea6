"""What all routes share."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from accel_cli.model.config import Config
from accel_cli.serve.batcher import Batcher
from accel_cli.serve.limits import Limits
from accel_cli.serve.logs import Log
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.refusals import Refusal
from accel_cli.serve.status import Status
from accel_cli.serve.v2 import VERSION


@dataclass(frozen=True)
class Shared:
    """One model, served. `device` is cpu or cuda; with a `token` clients must send it."""

    config: Config
    device: str
    limits: Limits
    status: Status
    batcher: Batcher
    metrics: Metrics
    log: Log
    token: str | None

    def named(self, request: Request) -> str:
        """The model that a path names; 404 if it is another one."""
        name, version = request.path_params["name"], request.path_params.get("version", VERSION)
        if name != self.config.name:
            raise Refusal(
                404, "not_found", f"unknown model {name[:80]!r}; this server has {self.config.name!r}"
            )
        if version != VERSION:
            raise Refusal(404, "not_found", f"unknown version {version[:80]!r}; there is {VERSION!r}")
        return self.config.name
