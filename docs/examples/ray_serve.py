"""`accel serve` behind Ray Serve: each replica owns one server process and hands it what it is asked.

    pip install ".[serve,cuda13]" "ray[serve]"
    ray start --head
    python docs/examples/ray_serve.py --replicas 2 --gpus 1 -- --config sentiment
    curl localhost:8000/predict -d '{"inputs": "What a lovely film."}'

What follows `--` are options of `accel serve`. All its protocols, limits and answers stay as they are; Ray
Serve spreads the requests over the replicas and starts those anew whose node or process is lost. With one
machine, `accel serve` by itself is faster: there is one hop less.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

# The server ends by SIGTERM, draining, when its standard input does: also if its replica was killed.
_SERVER = """
import os, signal, sys, threading
def watch():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, daemon=True).start()
from accel_cli.commands import main
main()
"""
# headers of one hop, and those that Ray Serve sets itself
_HOPS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "date", "server"}
_TWICE = {*_HOPS, "x-request-id"}


class Replica:
    """One `accel serve` on a free port of loopback, and the way to it."""

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        line = [sys.executable, "-c", _SERVER, "serve", "--host", "127.0.0.1", "--port", "0", "--log", "json"]
        self._process = subprocess.Popen([*line, *arguments], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self._said: list[str] = []
        self._url = self._event("listening")["url"]
        self._event("ready")
        threading.Thread(target=self._drain, daemon=True).start()
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, request: Request) -> Response:
        """Hand a request on, and its answer back."""
        if self._session is None:  # it belongs to the loop that uses it
            self._session = aiohttp.ClientSession(self._url, auto_decompress=False)
        headers = [(name, value) for name, value in request.headers.items() if name not in _HOPS]
        place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        body = await request.body()
        async with self._session.request(request.method, place, data=body, headers=headers) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _TWICE}
            return Response(await answer.read(), answer.status, kept)

    def check_health(self) -> None:
        """Ray Serve asks this again and again, and replaces a replica that raises."""
        code = self._process.poll()
        if code is not None:
            raise RuntimeError(f"accel serve ended with {code}")

    def __del__(self) -> None:
        """The end of its standard input ends the server."""
        self._process.stdin.close()  # type: ignore[union-attr]

    def _event(self, name: str) -> dict[str, Any]:
        """The next event of this name in the server's log; RuntimeError with what it said if it ends."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line.decode("utf-8", "replace"))
            if line.startswith(b"{") and (found := json.loads(line))["event"] == name:
                return dict(found)
        raise RuntimeError(f"accel serve did not start: {''.join(self._said[-5:])}")

    def _drain(self) -> None:
        """Pass the log on to that of the replica."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            sys.stderr.write(line.decode("utf-8", "replace"))


def application(arguments: Sequence[str] = (), replicas: int = 1, cpus: float = 1, gpus: float = 0) -> Any:
    """What `ray.serve.run` takes: so many servers, each with its share of a node."""
    deployment = serve.deployment(
        name="accel",
        num_replicas=replicas,
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus},
        max_ongoing_requests=512,
        health_check_period_s=2,
        graceful_shutdown_timeout_s=40,
    )
    return deployment(Replica).bind(list(arguments))


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="accel serve behind Ray Serve, on a cluster that runs")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--cpus", type=float, default=1, help="of each replica")
    parser.add_argument("--gpus", type=float, default=0, help="of each replica")
    parser.add_argument("arguments", nargs="*", help="of accel serve, after --")
    given = parser.parse_args()
    app = application(given.arguments, given.replicas, given.cpus, given.gpus)
    serve.start(http_options={"host": given.host, "port": given.port})
    serve.run(app, route_prefix="/", blocking=True)


if __name__ == "__main__":
    main()
