"""What all routes share."""

from __future__ import annotations

from dataclasses import dataclass

from accel_cli.model.config import Config
from accel_cli.serve.batcher import Batcher
from accel_cli.serve.limits import Limits
from accel_cli.serve.logs import Log
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.status import Status


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
