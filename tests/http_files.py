"""A server of files on loopback, whose paths say how well it behaves."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


class Files(ThreadingHTTPServer):
    """Serves `files`: their contents by name, below a folder that says what goes wrong with them.

    /good/, /no-ranges/, /no-length/, /denied/ (403), /short/ (bodies end too early), /broken/ (so do those
    of a server without ranges), /silent/ (no answer to
    a range), /flaky/ (the first answer to each range is 500), /changing/ (a new ETag with every answer).
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.ranges: Counter[str] = Counter()
        self.ended = Event()

    def url(self, manner: str, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{manner}/{name}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Files

    def log_message(self, *_: object) -> None:
        """Silent."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        manner, name = self.path.partition("?")[0].strip("/").split("/", 1)
        data = self.server.files.get(name)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if data is None or manner == "denied":
            self._end(404 if data is None else 403)
            return
        status, whole = 200, data
        if asked and manner not in ("no-ranges", "no-length", "broken"):
            self.server.ranges[asked[0]] += 1
            if manner == "silent":
                self.server.ended.wait()
                self.close_connection = True
                return
            if manner == "flaky" and self.server.ranges[asked[0]] == 1:
                self._end(500)
                return
            status, data = 206, data[int(asked[1]) : int(asked[2]) + 1]
        self.send_response(status)
        if manner != "no-length":
            self.send_header("Content-Length", str(len(data)))
        else:
            self.send_header("Connection", "close")
        if status == 206 and asked:
            self.send_header("Content-Range", f"bytes {asked[1]}-{asked[2]}/{len(whole)}")
        tag = time.monotonic_ns() if manner == "changing" else hashlib.sha256(whole).hexdigest()
        self.send_header("ETag", f'"{tag}"')
        self.end_headers()
        if body:
            self.wfile.write(data[: len(data) // 2] if manner in ("short", "broken") else data)
            self.close_connection = manner in ("short", "broken", "no-length")

    def _end(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def served() -> Iterator[Files]:
    """A running server."""
    with Files() as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
