"""`accel serve` as the process that is measured: started on a free port, watched, stopped."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accel_cli.errors import AccelError

PROGRAM: tuple[str, ...] = (sys.executable, "-m", "accel_cli")
_LOADING = 600.0  # seconds; on a GPU that was never used before, all kernels are compiled
_STOPPING = 60.0
_PAUSE = 0.01
_KEPT = 1 << 16  # bytes of the log's beginning, and of its end


class Server:
    """A running server. It logs as servers do, and what it logs is read, so that it never has to wait."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._begin, self._end = b"", b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = self._until(self._listening, "listen")
        self._until(lambda: self._status("/ready") == 200, "become ready")

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_STOPPING)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def info(self) -> dict[str, Any]:
        """What /info says."""
        found: dict[str, Any] = json.loads(self.get("/info")[1])
        return found

    def memory(self) -> int | None:
        """Bytes of memory that its processes hold now, added up; None where the system does not say."""
        try:
            pages = sum(_pages(process) for process in _family(self._process.pid))
        except (OSError, IndexError):
            return None
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _read(self) -> None:
        """Take the log as it comes, in large pieces: to read it by lines would cost the server's cores."""
        assert self._process.stderr is not None
        while data := os.read(self._process.stderr.fileno(), _KEPT):
            self._begin += data[: _KEPT - len(self._begin)]
            self._end = (self._end + data)[-_KEPT:]

    def _listening(self) -> int | None:
        for line in self._begin.splitlines(keepends=True):
            if line.startswith(b"{") and line.endswith(b"\n"):
                event = json.loads(line)
                if event["event"] == "listening":
                    return int(event["url"].rpartition(":")[2])
        return None

    def _status(self, path: str) -> int:
        try:
            return self.get(path)[0]
        except (OSError, http.client.HTTPException):
            return 0

    def _until(self, look: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + _LOADING
        while time.monotonic() < end:
            if found := look():
                return found
            if (code := self._process.poll()) is not None:
                self._reader.join(_STOPPING)  # for the last of its log
                last = self._end.decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise AccelError(f"the server ended with {code} before it could {what}: {last}")
            time.sleep(_PAUSE)
        raise AccelError(f"the server did not {what} within {_LOADING:.0f} s")


def _family(process: int) -> list[int]:
    """A process and those that it has started."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [
        process,
        *(int(child) for task in tasks for child in (task / "children").read_text("ascii").split()),
    ]


def _pages(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1])


@contextmanager
def serving(arguments: Sequence[str]) -> Iterator[Server]:
    """`accel serve` with these options, on a free port of this machine, until the context is left."""
    line = [*PROGRAM, "serve", "--host", "127.0.0.1", "--port", "0", "--log", "json", *arguments]
    # a token that guards some other server would only shut us out
    environment = {key: value for key, value in os.environ.items() if key != "ACCEL_TOKEN_FILE"}
    process = subprocess.Popen(line, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment)
    try:
        yield Server(process)
        process.terminate()
        process.wait(_STOPPING)
    except subprocess.TimeoutExpired:
        raise AccelError(f"the server did not stop within {_STOPPING:.0f} s after SIGTERM") from None
    finally:
        process.kill()
        process.wait()
