"""docs/examples/ray_serve.py: `accel serve` on each node behind Ray Serve, and what is lost is replaced."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, clean_environment, read

from accel_cli.classifier import Classifier
from cluster.nodes import PATIENCE, Nodes, ancestors, kill, until

pytest.importorskip("ray.serve", reason="needs ray[serve]")
httpx = pytest.importorskip("httpx")

pytestmark = pytest.mark.extras

SERVER = b"from accel_cli.commands import main"  # in the command line of a server behind a replica


@pytest.fixture(scope="module")
def client(nodes: Nodes, tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Talks to Ray Serve, which was started as the example says."""
    port = _free_port()
    line = [sys.executable, ROOT / "docs" / "examples" / "ray_serve.py", "--port", port, "--replicas", "2"]
    log = (tmp_path_factory.mktemp("serve") / "log.txt").open("wb")
    process = subprocess.Popen(
        [*line, "--cpus", "0.5", "--", "--device", "cpu", "--config", tiny_path],
        stdout=log,
        stderr=log,
        env={**clean_environment(tiny_path), "RAY_ADDRESS": nodes.address},
        start_new_session=True,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as made:
            until(lambda: _ready(made))
            yield made
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        log.close()


def _free_port() -> str:
    """Above the ports of Ray's workers and below those that the system gives out: none of them takes it."""
    for port in random.sample(range(20_000, 32_000), 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return str(port)
    raise AssertionError("no port is free")


def _ready(client: httpx.Client) -> bool:
    try:
        return bool(client.get("/ready").status_code == 200)
    except httpx.TransportError:
        return False


def _label(client: httpx.Client, text: str) -> str:
    """The answer to a text, asked again while a replica is being replaced."""

    def look() -> str | None:
        try:
            answer = client.post("/predict", json={"inputs": text})
        except httpx.TransportError:
            return None
        return str(answer.json()[0]["label"]) if answer.status_code == 200 else None

    return str(until(look))


def test_answers_are_those_of_the_model(client: httpx.Client, tiny_path: Path) -> None:
    texts = ["a good film", "not bad .", "w1 w2 w3"]
    with Classifier.load(tiny_path, device="cpu") as classifier:
        expected = classifier.predict(texts)
    for text, label, scores in zip(texts, expected.labels, expected.scores, strict=True):
        answer = client.post("/predict", json={"inputs": text}).json()
        assert answer[0]["label"] == label
        assert answer[0]["score"] == pytest.approx(float(max(scores)), abs=1e-6)


def test_protocols_errors_and_headers_pass_through(client: httpx.Client) -> None:
    assert client.get("/v2/models/tiny").json()["platform"] == "accel_cpu"
    assert client.post("/predict", content=b"{").status_code == 400
    assert client.get("/nowhere?x=1").status_code == 404
    answer = client.post("/predict", json={"inputs": "good"})
    assert len(answer.headers.get_list("x-request-id")) == 1
    assert "x-inference-time" in answer.headers


def test_a_server_that_dies_is_replaced(client: httpx.Client, nodes: Nodes) -> None:
    until(lambda: len(nodes.processes(SERVER)) == 2)  # /ready may have been answered by the first one alone
    before = set(nodes.processes(SERVER))
    kill(min(before))
    until(lambda: set(nodes.processes(SERVER)) - before)
    assert _label(client, "good")


def test_no_server_outlives_its_replica(client: httpx.Client, nodes: Nodes) -> None:
    lost = until(lambda: nodes.processes(SERVER))[0]
    kill(next(ancestors(lost)))
    until(lambda: not read(lost, "cmdline"))
    assert _label(client, "good")
