"""The Ray cluster of a run: one that is there, or one that is started in this machine for as long."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accel_cli.errors import AccelError, UsageError
from accel_cli.text.extras import imported

_STORE = 80 << 20  # bytes of Ray's object store in this machine; it wants 75 MiB, shards and counts need less
# What a cluster of our own is started with, unless its variables are set already: settings of Ray.
_OWN = {
    # its first look for the object store comes too early, and the next one a second later
    "RAY_raylet_client_connect_timeout_milliseconds": "50",
    "RAY_raylet_client_num_connect_attempts": "200",  # as long as it would try else
    # the monitor of the older autoscaler keeps the end waiting for a second, to tell what is gone of its end
    "RAY_enable_autoscaler_v2": "1",
}


class RayError(AccelError):
    """There is no cluster, or it cannot run workers."""


class Cluster:
    """The cluster at `address` (auto, local, or host:port), until `close`.

    It is looked for at once; one of this machine, `local`, is started when it is first asked for. Raises
    RayError if there is none, UsageError if that is no address.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._ray: Any = None
        if address != "local":
            _reach(address)
            self._connect()

    @property
    def ray(self) -> Any:
        """The module `ray`, connected."""
        if self._ray is None:
            self._connect()
        return self._ray

    def _connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        own: dict[str, Any] = {}
        if self._address == "local":
            own = {"include_dashboard": False, "object_store_memory": _STORE}
            for name, value in _OWN.items():
                os.environ.setdefault(name, value)
        with _own_signals():
            ray = imported("ray", "ray", "--engine ray")
            try:
                ray.init(address=self._address, logging_level=logging.ERROR, log_to_driver=False, **own)
            except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
                raise _none_at(self._address, str(error).strip().partition("\n")[0]) from error
        self._ray = ray

    def close(self) -> None:
        """Leave the cluster, and end it if it is our own. May be called again."""
        if self._ray is not None:
            self._ray.shutdown()
            self._ray = None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _reach(address: str) -> None:
    """RayError if nothing listens at an address: Ray would try for minutes. UsageError if it is none."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UsageError(f"--address {address} is neither auto, nor local, nor host:port; say one of them")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _none_at(address, str(error)) from error


def _none_at(address: str, reason: str) -> RayError:
    if address == "auto":
        return RayError(
            f"--address auto: no Ray cluster runs here ({reason}); start one with `ray start --head`, name"
            " one as host:port, or say --address local"
        )
    return RayError(
        f"no Ray cluster at {address} ({reason}); start one with `ray start --head`, or say --address local"
    )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray sets a handler of its own for SIGTERM; ours say how a run ends."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
