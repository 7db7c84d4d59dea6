"""From start to exit: loading, ready, draining, failing; signals and exit codes."""

from __future__ import annotations

import json
import signal
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest
from conftest import Accel, read

from serve.processes import Running, answer_to_health, read_answer, running, until

STOPPING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The engine waits for this file."""
    return tmp_path / "gate"


def begun(gate: Path) -> list[int]:
    """The sizes of the batches that the engine has begun."""
    path = gate.with_name("gate.begun")
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def in_background(server: Running, inputs: object) -> Future[httpx.Response]:
    """A request that waits for the engine."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(server.predict, inputs)
    pool.shutdown(wait=False)
    return future


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_ends_an_idle_server(tiny_path: Path, number: signal.Signals) -> None:
    with running(tiny_path) as server, server.connect() as idle:
        answer_to_health(idle)
        assert server.stop(number) == 0
        assert server.events()[-1]["event"] == "stopped"
        assert server.event("draining")["signal"] == number.name
        assert read_answer(idle) == (0, b"")


def test_loading(tiny_path: Path, gate: Path) -> None:
    with running(tiny_path, spoiled="closed", ready=False, GATE=str(gate)) as server:
        assert server.get("/health").status_code == 200
        for path in ("/ready", "/v2/health/ready", "/v2/models/tiny/ready"):
            refused = server.get(path)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert refused.json()["error"] == "the model is being loaded; try again soon"
        assert server.predict("good").status_code == 503
        assert server.get("/info").json()["status"] == "loading"
        gate.touch()
        server.event("ready")
        assert server.get("/ready").status_code == 200
        assert server.predict("good").status_code == 200


def test_a_signal_while_loading(tiny_path: Path, gate: Path) -> None:
    with running(tiny_path, spoiled="closed", ready=False, GATE=str(gate)) as server:
        assert server.stop() == 0


def test_draining(tiny_path: Path, gate: Path) -> None:
    """What is in flight is answered, what is new is refused, and the exit code is 0."""
    with running(tiny_path, spoiled="gated", GATE=str(gate)) as server, server.connect() as half:
        first = in_background(server, "good")
        until(lambda: begun(gate))
        queued = in_background(server, [["bad"], ["film"]])
        until(lambda: server.metric("accel_queue_size") == 2)
        half.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 18\r\n\r\n{")
        until(lambda: server.metric("accel_inflight_size") == 3)
        server.process.send_signal(signal.SIGTERM)
        server.event("draining")
        until(lambda: refused(server.port))
        half.sendall(b'"inputs": "good"}')
        status, body = read_answer(half)
        assert (status, json.loads(body)["error"]) == (503, "the server is stopping; use another one")
        gate.touch()
        assert first.result().status_code == 200
        assert len(queued.result().json()) == 2
        assert server.code() == 0


def refused(port: int) -> bool:
    """Whether nobody listens there any more."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_draining_has_an_end(tiny_path: Path, gate: Path) -> None:
    with running(tiny_path, "--drain-seconds", "0.3", spoiled="gated", GATE=str(gate)) as server:
        waiting = in_background(server, "good")
        until(lambda: begun(gate))
        server.process.send_signal(signal.SIGTERM)
        assert waiting.result().status_code == 503
        assert server.code() == 0


@pytest.mark.parametrize("number", STOPPING)
def test_a_second_signal_ends_it_at_once(tiny_path: Path, gate: Path, number: signal.Signals) -> None:
    with running(tiny_path, spoiled="gated", GATE=str(gate)) as server:
        waiting = in_background(server, "good")
        until(lambda: begun(gate))
        server.process.send_signal(signal.SIGTERM)
        server.event("draining")
        assert server.stop(number) == 128 + number
        with pytest.raises(httpx.RemoteProtocolError):
            waiting.result()


def test_a_lost_device(tiny_path: Path) -> None:
    """5xx, /health 503, and an exit that makes a supervisor start it again."""
    with running(tiny_path, spoiled="lost", GRACE="60") as server:
        assert server.predict("good").status_code == 200
        failed = server.predict([["good"], ["w5"]])
        assert (failed.status_code, failed.json()["error_type"]) == (500, "backend")
        assert failed.json()["error"] == "the device failed; the server stops"
        unhealthy = server.get("/health")
        assert (unhealthy.status_code, unhealthy.json()["error_type"]) == (503, "unhealthy")
        assert server.get("/v2/health/live").status_code == server.get("/ready").status_code == 503
        assert server.predict("good").status_code == 503
        assert server.metric("accel_backend_healthy") == 0
        assert server.stop() == 1
        assert "an illegal address" in server.event("failed")["error"]
        assert server.lines[-1].startswith("Error: CUDA failed while running a batch")


def test_an_engine_that_is_killed(tiny_path: Path) -> None:
    """As by a system without memory."""
    with running(tiny_path, spoiled="killed", GRACE="60") as server:
        failed = server.predict([["good"], ["w5"]])
        assert (failed.status_code, failed.json()["error_type"]) == (500, "backend")
        assert server.get("/health").status_code == 503
        assert server.stop() == 1
        assert "the engine's process was ended by signal 9 (Killed); start accel again" in server.lines[-1]


def test_the_engine_ends_with_the_server(tiny_path: Path) -> None:
    with running(tiny_path) as server:
        [engine] = engines(server.process.pid)
        assert server.metric("accel_engine_process_resident_memory_bytes") > 1 << 20
        server.process.kill()
        server.code()
        until(lambda: not read(engine, "cmdline"))


def engines(process: int) -> list[int]:
    """The processes that a server has started, the one that counts shared resources left out."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        found += map(int, (task / "children").read_text("ascii").split())
    return [child for child in found if b"spawn_main" in read(child, "cmdline")]


def code_of(server: Running, text: str) -> int:
    """The status of one request; 0 if the server has left already."""
    try:
        return server.predict(text).status_code
    except httpx.TransportError:
        return 0


def test_a_lost_device_fails_what_waits(tiny_path: Path) -> None:
    """Requests all at once: each is answered, and none is left hanging."""
    with running(tiny_path, spoiled="lost") as server, ThreadPoolExecutor(12) as pool:
        barrier = threading.Barrier(12)

        def ask(number: int) -> int:
            barrier.wait()
            return code_of(server, "w5" if number % 3 == 0 else "good")

        codes = set(pool.map(ask, range(12)))
        assert codes <= {0, 200, 500, 503}
        assert codes & {500}
        assert server.code() == 1


def test_a_faulty_batch_fails_only_its_culprit(tiny_path: Path) -> None:
    with running(tiny_path, "--max-queue-delay-us", "300000", spoiled="faulty") as server:
        with ThreadPoolExecutor(8) as pool:
            texts = ["good", "w5", "bad", "film"] * 2
            codes = [response.status_code for response in pool.map(server.predict, texts)]
        assert codes == [200, 500, 200, 200] * 2
        assert server.get("/health").status_code == 200
        assert "NaN" in server.event("batch_failed")["error"]
        assert server.stop() == 0


def test_a_device_that_is_lost_while_a_culprit_is_sought(tiny_path: Path) -> None:
    """Those of the batch that were not tried again are answered, too."""
    with running(tiny_path, "--max-queue-delay-us", "300000", spoiled="worse") as server:
        with ThreadPoolExecutor(8) as pool:
            texts = ["w6", "w5", "good", "good"] * 2
            codes = list(pool.map(partial(code_of, server), texts))
        assert set(codes) <= {0, 200, 500, 503}
        assert 500 in codes
        assert server.code() == 1
        assert not [event for event in server.events() if event.get("ms", 0) > 25_000]  # nobody was left


def test_a_full_device(tiny_path: Path) -> None:
    """A batch that does not fit is computed in parts; a request that does not fit by itself fails."""
    with running(tiny_path, "--max-queue-delay-us", "300000", spoiled="full") as server:
        with ThreadPoolExecutor(4) as pool:
            assert {response.status_code for response in pool.map(server.predict, ["good"] * 4)} == {200}
        assert server.predict([["good"], ["bad"]]).status_code == 500
        assert server.metric("accel_oom_retries_total") >= 1


def test_a_model_that_cannot_be_loaded(tiny_path: Path) -> None:
    with running(tiny_path, spoiled="broken", ready=False) as server:
        assert server.code() == 1
        assert server.lines[-1] == "Error: weights.safetensors is damaged; fetch it again\n"
        assert server.event("engine")["message"] == "these weights look old"


def test_a_fault_of_ours(tiny_path: Path) -> None:
    with running(tiny_path, spoiled="bug", ready=False) as server:
        assert server.code() == 1
        assert server.lines[-1] == "Error: the engine failed: KeyError: 'x'; --debug shows where\n"


def test_a_port_in_use(accel: Accel, server: Running) -> None:
    done = accel("serve", "--port", str(server.port))
    assert done.returncode == 2
    assert done.stderr.startswith(
        b"Error: cannot listen on 127.0.0.1 port %d: Address already in use" % server.port
    )


def test_a_host_that_is_none(refused_here: Accel) -> None:
    done = refused_here("serve", "--host", "256.1.1.1", "--port", "0")
    assert (done.returncode, done.stderr[:41]) == (2, b"Error: cannot listen on 256.1.1.1 port 0:")


def test_ipv6(tiny_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with running(tiny_path, "--host", "::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert server.predict("good").status_code == 200
