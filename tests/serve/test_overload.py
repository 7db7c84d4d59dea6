"""More than the server can do: 429 and 422, clients that leave, and large batches."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from accel_cli.classifier import Classifier
from accel_cli.model.config import Config
from serve.processes import CLIENT, Running, running, until
from serve.test_lifecycle import begun, in_background


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def busy(tiny_path: Path, gate: Path) -> Iterator[Running]:
    """A server that takes four texts, and whose engine is busy with one."""
    with running(tiny_path, "--max-inflight", "4", spoiled="gated", GATE=str(gate)) as server:
        first = in_background(server, "good")
        until(lambda: begun(gate))
        yield server
        gate.touch()
        assert first.result().status_code == 200


def leave(server: Running, texts: int) -> socket.socket:
    """A request whose answer nobody has read yet."""
    body = json.dumps({"inputs": [["bad"]] * texts}).encode()
    head = b"POST /predict HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
    connection = server.connect()
    connection.sendall(head % len(body))
    assert connection.recv(100).startswith(b"HTTP/1.1 100")  # the body comes while the server waits for it
    connection.sendall(body)
    return connection


def test_too_much_is_refused_and_it_recovers_at_once(busy: Running, gate: Path) -> None:
    waiting = in_background(busy, [["bad"]] * 3)
    until(lambda: busy.metric("accel_queue_size") == 3)
    for path, body in (
        ("/predict", {"inputs": "one"}),
        ("/predict", {"inputs": [["a"], ["batch"]]}),
        ("/", {"inputs": ["a", "batch"]}),
        (
            "/v2/models/tiny/infer",
            {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}]},
        ),
    ):
        refused = busy.post(path, body)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json() == {
            "error": "4 texts are being worked on, and 4 are enough; try again",
            "error_type": "overloaded",
        }
    assert busy.metric('accel_rejected_total{reason="overloaded"}') == 4
    gate.touch()
    assert waiting.result().status_code == 200
    assert busy.predict([["a"], ["batch"]]).status_code == 200


def test_a_client_batch_has_a_limit_whatever_the_load(busy: Running) -> None:
    """422 comes before 429; up to the limit a batch waits its turn however many are let in."""
    waiting = in_background(busy, [["bad"]] * 3)
    until(lambda: busy.metric("accel_queue_size") == 3)
    refused = busy.predict([["a"]] * 8193)
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("8193 texts in one request, and at most 8192 are taken")
    assert not waiting.done()


def test_a_large_batch_is_let_in_while_there_is_room(busy: Running, gate: Path) -> None:
    large = in_background(busy, [["bad"]] * 8192)
    until(lambda: busy.metric("accel_queue_size") == 8192)
    assert busy.predict("good").status_code == 429
    gate.touch()
    assert len(large.result().json()) == 8192


def test_a_client_that_left_is_dropped(busy: Running, gate: Path) -> None:
    ahead = in_background(busy, "bad")  # it is with the engine already
    until(lambda: busy.metric("accel_queue_size") == 1)
    gone = leave(busy, 3)
    until(lambda: busy.metric("accel_queue_size") == 4)
    assert busy.predict("good").status_code == 429
    gone.close()
    until(lambda: busy.metric("accel_inflight_size") == 2)  # there is room again at once
    stays = in_background(busy, "film")
    gate.touch()
    assert ahead.result().status_code == stays.result().status_code == 200
    assert begun(gate) == [1, 1, 1]  # its three texts were not computed
    assert busy.metric('accel_rejected_total{reason="disconnected"}') == 1
    assert busy.metric('accel_request_total{code="499",endpoint="/predict"}') == 1


def test_a_client_that_left_is_dropped_also_if_its_body_paused_the_reading(tiny_path: Path) -> None:
    """A large piece of a body does so; here, any."""
    pauses = "from uvicorn.protocols.http import httptools_impl; httptools_impl.HIGH_WATER_LIMIT = 0"
    with running(tiny_path, "--max-queue-delay-us", "10_000_000", prelude=pauses) as server:
        gone = leave(server, 3)
        until(lambda: server.metric("accel_inflight_size") == 3)
        gone.close()
        until(lambda: server.metric("accel_inflight_size") == 0)
        assert server.metric('accel_rejected_total{reason="disconnected"}') == 1  # not answered


def test_a_reset_connection_is_dropped(busy: Running) -> None:
    gone = leave(busy, 3)
    until(lambda: busy.metric("accel_queue_size") == 3)
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    gone.close()
    until(lambda: busy.metric("accel_inflight_size") == 1)


def test_what_waits_becomes_the_next_batch(busy: Running, gate: Path) -> None:
    """One batch is with the engine besides the one that it computes."""
    waiting = [in_background(busy, "bad")]
    until(lambda: busy.metric("accel_queue_size") == 1)
    waiting += [in_background(busy, "bad") for _ in range(2)]
    until(lambda: busy.metric("accel_queue_size") == 3)
    gate.touch()
    assert [future.result().status_code for future in waiting] == [200] * 3
    assert begun(gate) == [1, 1, 2]


def test_batches_keep_within_the_token_budget(tiny_path: Path, gate: Path) -> None:
    with running(tiny_path, "--max-batch-tokens", "30", spoiled="gated", GATE=str(gate)) as server:
        gate.touch()
        assert len(server.predict([["good " * 10]] * 7).json()) == 7
        assert sum(begun(gate)) == 7
        assert max(begun(gate)) == 3
        server.predict([["good " * 24]] * 2)
        assert begun(gate)[-2:] == [1, 1]


def test_a_hundred_clients_each_get_their_own_answer(server: Running, tiny: Config) -> None:
    words = ["good", "bad", "film", "not", "the", "w1", "w2"]
    chance = np.random.default_rng(1)
    asked = [[" ".join(chance.choice(words, 4)) for _ in range(1 + number % 5)] for number in range(400)]
    with Classifier(tiny, "cpu") as classifier:
        expected = [classifier.predict(texts).scores.max(axis=1) for texts in asked]

    def ask(texts: list[str]) -> Any:
        response = client.post("/predict", json={"inputs": [[text] for text in texts]})
        return response.status_code, response.json()

    limits = httpx.Limits(max_connections=100)
    with (
        httpx.Client(base_url=server.url, limits=limits, **CLIENT) as client,
        ThreadPoolExecutor(100) as pool,
    ):
        answers = list(pool.map(ask, asked))
    assert {code for code, _ in answers} <= {200, 429}
    right = [(rows, scores) for (code, rows), scores in zip(answers, expected, strict=True) if code == 200]
    assert len(right) > 100
    for rows, scores in right:
        np.testing.assert_allclose([row[0]["score"] for row in rows], scores, atol=2e-6)


def test_a_client_batch_of_8192(client: httpx.Client, tiny: Config) -> None:
    texts = [f"good film w{number % 30} {'bad ' * (number % 20)}" for number in range(8192)]
    rows = client.post("/", json={"inputs": texts}).json()
    with Classifier(tiny, "cpu") as classifier:
        expected = classifier.predict(texts)
    assert [row[0]["label"] for row in rows] == expected.labels.tolist()
    np.testing.assert_allclose([row[0]["score"] for row in rows], expected.scores.max(axis=1), atol=2e-6)
