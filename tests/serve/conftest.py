"""Servers as real processes; without the extra `serve` nothing here is collected."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

NEEDED = ("uvicorn", "httptools", "uvloop", "prometheus_client", "httpx")
collect_ignore_glob = ["test_*.py"] if any(find_spec(name) is None for name in NEEDED) else []

if not collect_ignore_glob:
    import httpx
    from conftest import Accel

    from accel_cli.serve import server as served
    from serve.processes import CLIENT, Running, running

    @pytest.fixture(scope="session")
    def server(tiny_path: Path) -> Iterator[Running]:
        """A server with usual limits, which no test may stop or overload."""
        with running(tiny_path) as started:
            yield started

    @pytest.fixture(scope="session")
    def client(server: Running) -> Iterator[httpx.Client]:
        """Talks to it."""
        with httpx.Client(base_url=server.url, **CLIENT) as made:
            yield made

    @pytest.fixture
    def refused_here(accel_here: Accel, monkeypatch: pytest.MonkeyPatch) -> Accel:
        """`accel` within this process, where it must refuse to serve."""
        monkeypatch.setattr(served, "serve", lambda *_: pytest.fail("it serves"))
        return accel_here
