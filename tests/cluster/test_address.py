"""accel run on what --address leads to: a cluster with tokens or none, and what only looks like one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from conftest import clean_environment, command, read

from cluster.nodes import finish, kill, until

pytestmark = pytest.mark.extras

SIGNALS = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


@pytest.fixture
def line(tmp_path: Path) -> tuple[str | Path, ...]:
    path = tmp_path / "in.txt"
    path.write_text("a good film\n" * 100)
    return ("--input", path, "--output", f"{tmp_path}/out/", "--device", "cpu")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of a short name, as sockets need."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def start(config: Path, address: str, *line: str | Path, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("run", "--engine", "ray", "--address", address, *line),
        stderr=subprocess.PIPE,
        env=clean_environment(config) | variables,
        start_new_session=True,
    )


@contextmanager
def head(config: Path, home: Path, **variables: str) -> Iterator[str]:
    """A cluster that `ray start` starts for a user with this home: its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    temporary = home / "ray"
    line = ("--num-cpus=1", "--include-dashboard=false", f"--port={port}", f"--temp-dir={temporary}")
    store = f"--object-store-memory={80 << 20}"
    environment = clean_environment(config) | {"RAY_USAGE_STATS_ENABLED": "0", "HOME": str(home)} | variables
    ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
    try:
        done = subprocess.run(
            [*ray, "start", "--head", *line, store], env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield f"127.0.0.1:{port}"
    finally:
        for pid in processes(f"{temporary}/".encode()):
            with suppress(ProcessLookupError):
                kill(pid)


def processes(words: bytes) -> list[int]:
    """Whoever has some words in its command line."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and words in read(pid, "cmdline")]


@pytest.mark.parametrize("asks", [True, False])
def test_a_token_is_used_where_it_is_asked_for(
    asks: bool,
    tiny_path: Path,
    line: tuple[str | Path, ...],
    home: Path,
    tmp_path: Path,
) -> None:
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    with head(tiny_path, home, **({} if asks else {"RAY_AUTH_MODE": "disabled"})) as address:
        code, said = finish(start(tiny_path, address, *line, HOME=str(home)))
        assert code == 0, said
        if asks:
            code, said = finish(start(tiny_path, address, *line, "--overwrite", HOME=str(tmp_path)))
            assert code == 1
            assert said.startswith(f"Error: {address}: this Ray cluster refuses the run (InvalidAuthToken: ")
            assert said.endswith("and set RAY_AUTH_MODE=token\n")
            assert said.count("\n") == 1


def test_a_server_of_http(tiny_path: Path, line: tuple[str | Path, ...]) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        code, said = finish(start(tiny_path, address, *line))
    assert code == 1
    assert said.startswith(f"Error: no Ray cluster at {address} (what listens there does not speak as Ray")
    assert said.count("\n") == 1


@SIGNALS
def test_a_signal_while_it_connects(
    tiny_path: Path, line: tuple[str | Path, ...], number: int, code: int
) -> None:
    """To what greets as Ray does, and then says nothing."""
    with socket.create_server(("", 0)) as listener:  # Ray takes the machine's own address for 127.0.0.1
        listener.settimeout(60)
        process = start(tiny_path, f"127.0.0.1:{listener.getsockname()[1]}", *line)
        ends = [listener.accept()[0]]
        ends[0].sendall(bytes(3) + b"\4" + bytes(5))
        ends.append(listener.accept()[0])  # Ray's own
        time.sleep(0.5)
        process.send_signal(number)
        begin = time.monotonic()
        assert finish(process)[0] == code
        assert time.monotonic() - begin < 10  # Ray would go on for forty
        for end in ends:
            end.close()


@SIGNALS
def test_a_signal_while_a_cluster_of_its_own_starts(
    tiny_path: Path, line: tuple[str | Path, ...], number: int, code: int
) -> None:
    process = start(tiny_path, "local", *line)
    session = f"_{process.pid}/".encode()
    until(lambda: processes(session))
    process.send_signal(number)
    begin = time.monotonic()
    found, said = finish(process)
    assert found == code, said
    assert time.monotonic() - begin < 10
    until(lambda: not processes(session))
