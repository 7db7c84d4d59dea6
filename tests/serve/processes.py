"""Starting `accel serve` as a process of its own, on a free port, and talking to it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from conftest import ROOT, clean_environment, command

PATIENCE = 60.0  # seconds for what takes none on an idle machine
HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
# Else each client reads all certificates of this machine, which takes longer than most requests.
CLIENT: dict[str, Any] = {"timeout": PATIENCE, "verify": False}


class Running:
    """A server and what it has logged."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.event("listening")["url"]
        self.port = int(self.url.rpartition(":")[2])

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.decode())

    def events(self) -> list[dict[str, Any]]:
        """All lines of JSON."""
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def event(self, name: str, **values: Any) -> dict[str, Any]:
        """The first event of this name and these values, waited for."""

        def look() -> dict[str, Any] | None:
            over = not self._reader.is_alive()  # asked first: then all of the log is looked at
            for found in self.events():
                if found["event"] == name and values.items() <= found.items():
                    return found
            assert not over, self.lines
            return None

        return until(look, lambda: f"no event {name} {values} in {self.lines}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return self.code()

    def code(self) -> int:
        """Its exit code."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def get(self, path: str, **settings: Any) -> httpx.Response:
        """One request on a connection of its own."""
        return httpx.get(self.url + path, **CLIENT, **settings)

    def predict(self, inputs: Any, **settings: Any) -> httpx.Response:
        """One request on a connection of its own."""
        return self.post("/predict", {"inputs": inputs}, **settings)

    def post(self, path: str, body: Any, **settings: Any) -> httpx.Response:
        """One request on a connection of its own."""
        return httpx.post(self.url + path, json=body, **CLIENT, **settings)

    def connect(self) -> socket.socket:
        """A connection as it is."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def metric(self, name: str) -> float:
        """A value on /metrics, 0 if it is not there."""
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        return 0.0


def until(look: Callable[[], Any], complaint: Callable[[], str] = lambda: "it never happened") -> Any:
    """What `look` finds in the end."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.01)
    raise AssertionError(complaint())


@contextmanager
def running(
    config: Path,
    *arguments: str | Path,
    spoiled: str = "",
    prelude: str = "",
    ready: bool = True,
    **environment: str,
) -> Iterator[Running]:
    """A server with its log as JSON.

    `spoiled` names a kind of serve.spoiled_engine, `prelude` is Python that runs before all else.
    """
    line = list(command("serve", "--device", "cpu", "--port", "0", "--log", "json", *arguments))
    if spoiled:
        line[1:3] = [str(Path(__file__).with_name("spoiled_engine.py"))]
        environment["SPOILED"] = spoiled
    if prelude:
        line[1:3] = ["-c", f"{prelude}\nfrom accel_cli import commands; commands.main()"]
    process = subprocess.Popen(
        line, stderr=subprocess.PIPE, cwd=ROOT, env={**clean_environment(config), **environment}
    )
    try:
        started = Running(process)
        if ready:
            started.event("ready")
        yield started
    finally:
        process.kill()
        process.wait()


def answer_to_health(connection: socket.socket) -> bytes:
    """The whole answer on a connection that stays open."""
    connection.sendall(HEALTH)
    found = b""
    while not found.endswith(b"}"):
        more = connection.recv(1 << 16)
        assert more, found
        found += more
    return found


def read_all(connection: socket.socket) -> bytes:
    """Until the server closes."""
    found = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(1 << 16):
            found += more
    return found


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """The status and all the rest, until the server closes; 0 without an answer."""
    head, _, body = read_all(connection).partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body
