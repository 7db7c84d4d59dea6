"""The Ray cluster of a run: one that is there, or one that is started in this machine for as long."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from accel_cli.shards.ray_address import Place, RayError, brief, found, named, nowhere
from accel_cli.text.extras import imported

_STORE = 80 << 20  # bytes of Ray's object store in this machine; it wants 75 MiB, shards and counts need less
_PATIENCE = 1.0  # seconds that a signal waits for a cluster of our own to be up
# What a cluster of our own is started with, unless its variables are set already: settings of Ray.
_OWN = {
    # its first look for the object store comes too early, and the next one a second later
    "RAY_raylet_client_connect_timeout_milliseconds": "50",
    "RAY_raylet_client_num_connect_attempts": "200",  # as long as it would try else
    # the monitor of the older autoscaler keeps the end waiting for a second, to tell what is gone of its end
    "RAY_enable_autoscaler_v2": "1",
}


class Cluster:
    """The cluster at `address` (auto, local, or host:port), until `close`.

    It is looked for at once; one of this machine, `local`, is started when it is first asked for. Raises
    RayError if there is none, UsageError if that is no address.
    """

    def __init__(self, address: str) -> None:
        self._place = named(address)
        self._ray: Any = None
        # Ray leaves no room for signals while it connects, and in the main thread sets handlers of its own.
        # Linux ends the processes of a cluster of our own with the thread that started them: it stays.
        self._thread = ThreadPoolExecutor(1)
        if not self._local:
            try:
                self._connect()
            except BaseException:
                self.close()
                raise

    @property
    def ray(self) -> Any:
        """The module `ray`, connected. Raises RayError if a cluster of our own does not start."""
        if self._ray is None:
            self._connect()
        return self._ray

    def close(self) -> None:
        """Leave the cluster, and end it if it is our own. May be called again."""
        if self._ray is not None:
            self._ray.shutdown()
            self._ray = None
        self._thread.shutdown(wait=False)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def _local(self) -> bool:
        return self._place is not None and self._place.address == "local"

    def _connect(self) -> None:
        begun = self._thread.submit(self._start if self._local else self._join)
        try:
            begun.result()
        finally:
            if self._local:  # what is nearly up is ended in order, and leaves no process for a while
                wait([begun], _PATIENCE)
            _take_back_signals()

    def _start(self) -> None:
        """Start a cluster of our own."""
        for name, value in _OWN.items():
            os.environ.setdefault(name, value)
        ray = _ray()
        try:
            _init(ray, address="local", include_dashboard=False, object_store_memory=_STORE)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            logs = "its logs say more: session_latest/logs in /tmp/ray, or in RAY_TMPDIR"
            raise RayError(f"--address local: Ray does not start ({brief(error)}); {logs}") from error
        self._ray = ray

    def _join(self) -> None:
        """Connect to a cluster that is there."""
        here = self._place is None or self._place.reach()  # before Ray is imported, which takes long
        ray = _ray()
        place = self._place or _looked_up(ray)
        try:
            _ask(ray, place, here)
        except getattr(ray.exceptions, "AuthenticationError", ()) as error:  # Ray before 2.52 has none
            raise place.locked(error) from error
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise place.absent(error) from error
        try:
            _init(ray, address=place.address)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise place.unfit(error) from error
        self._ray = ray


def _take_back_signals() -> None:
    """Ray's C++ takes SIGTERM to print where it was; whoever had it before has it again."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = imported("ray", "ray", "--engine ray")
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def _init(ray: Any, **said: Any) -> None:
    ray.init(logging_level=logging.ERROR, log_to_driver=False, **said)


def _looked_up(ray: Any) -> Place:
    """The cluster that this machine belongs to, which answers. Raises RayError if there is none."""
    services = ray._private.services
    try:
        address = services.get_ray_address_from_environment("auto", None)
    except (OSError, RuntimeError, ValueError) as error:
        raise nowhere(error) from error
    place = found(address, services.find_bootstrap_address(None))
    place.reach()
    return place


def _ask(ray: Any, place: Place, here: bool) -> None:
    """Ask a cluster who it is; at once it says what `ray.init` would try again and again for.

    One that is `here` is given Ray's token if it asks for that, and only then: a driver with a token has no
    actors on a cluster without, and another machine should not be told one. Raises what Ray does.
    """
    setup = getattr(getattr(ray._private, "authentication", None), "authentication_token_setup", None)
    if setup is None:  # Ray before 2.52
        return _call(ray, place)
    setup.ensure_token_if_auth_enabled(None, create_token_if_missing=False)  # else the process would abort
    try:
        _call(ray, place)
    except ray.exceptions.AuthenticationError:
        enable = getattr(setup, "maybe_enable_token_auth_if_token_available", None)
        if enable is None or not here:  # Ray before 2.59 has none
            raise
        enable(warn_if_disabled=False)
        _call(ray, place)


def _call(ray: Any, place: Place) -> None:
    with _hushed():
        ray._raylet.GcsClient(address=place.address)


@contextmanager
def _hushed() -> Iterator[None]:
    """Keep what Ray's C++ has to say off stderr."""
    before, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(sink)
