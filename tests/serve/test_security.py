"""Tokens, and strangers who send anything: never a 5xx, never a word of what is inside."""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import Accel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serve.processes import Running, read_answer, running

SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
FUZZ = settings(max_examples=60, suppress_health_check=SUPPRESSED)
PATHS = [
    "/",
    "/predict",
    "/models/tiny",
    "/v2/models/tiny/infer",
    "/v2/models/tiny",
    "/info",
    "/metrics",
    "/v2",
]
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "PROPFIND"]


@pytest.fixture(scope="module")
def guarded(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text("s3cret-Token\n")
    with running(tiny_path, "--token-file", path) as started:
        yield started


@pytest.mark.parametrize(
    "given",
    [None, "", "Bearer", "Bearer s3cret", "Bearer s3cret-tokeN", "Basic s3cret-Token", "s3cret-Token"],
)
def test_a_wrong_token_is_refused(guarded: Running, given: str | None) -> None:
    headers = {"authorization": given} if given is not None else {}
    for path in ("/predict", "/", "/v2/models/tiny/infer"):
        refused = guarded.post(path, {"inputs": "good"}, headers=headers)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.json()["error"] == "this server wants its token: send `Authorization: Bearer TOKEN`"
    for path in ("/info", "/metrics", "/v2", "/v2/models/tiny", "/openapi.json", "/nothing"):
        assert guarded.get(path, headers=headers).status_code == 401


@pytest.mark.parametrize("given", ["Bearer s3cret-Token", "bearer  s3cret-Token"])
def test_the_right_token(guarded: Running, given: str) -> None:
    headers = {"authorization": given}
    assert guarded.predict("good", headers=headers).status_code == 200
    assert guarded.get("/openapi.json", headers=headers).json()["security"] == [{"token": []}]


def test_probes_and_the_page_need_no_token(guarded: Running) -> None:
    for path in ("/health", "/ready", "/v2/health/live", "/v2/health/ready"):
        assert guarded.get(path).status_code == 200
    assert guarded.get("/", headers={"accept": "text/html"}).status_code == 200


def test_without_html_the_root_needs_one(guarded: Running) -> None:
    """There it says what `/info` says."""
    assert guarded.get("/", headers={"accept": "*/*"}).status_code == 401


def test_the_token_is_not_logged(guarded: Running) -> None:
    guarded.predict("good", headers={"authorization": "Bearer s3cret-Token", "x-request-id": "seen"})
    guarded.event("request", id="seen")
    assert not any("s3cret" in line for line in guarded.lines)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory; name a file that holds the token"),
        (b"", "0 words; the file must hold one token"),
        (b"two words", "2 words; the file must hold one token"),
        (b"\xff", "it is not ASCII"),
    ],
)
def test_a_token_file_that_holds_none(
    refused_here: Accel, tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    done = refused_here("serve", "--port", "0", "--token-file", path)
    assert done.returncode == 2
    assert f"Error: --token-file {path}: " in done.stderr.decode()
    assert words in done.stderr.decode()


# Texts in the log


def test_texts_are_not_logged(server: Running) -> None:
    server.predict("a very private film", headers={"x-request-id": "private"})
    logged = server.event("request", id="private")
    assert (logged["inputs"], logged["code"], logged["truncated"]) == (1, 200, 0)
    assert not any("private film" in line for line in server.lines)


def test_texts_are_logged_when_asked(tiny_path: Path) -> None:
    with running(tiny_path, "--log-texts") as server:
        server.predict([["a film"], ["\u2603"]])
        assert server.event("request")["texts"] == ["a film", "\u2603"]


# Fuzzing


def check(server: Running, response: httpx.Response) -> None:
    assert response.status_code < 500, response.text
    if response.status_code >= 400 and response.request.method != "HEAD":
        assert set(response.json()) == {"error", "error_type"}
        assert "Traceback" not in response.text
        assert "/accel_cli" not in response.text
    assert server.process.poll() is None


@FUZZ
@given(
    st.sampled_from(METHODS),
    st.text(string.printable.replace("\\", ""), max_size=30).map(lambda text: "/" + text)
    | st.sampled_from(PATHS),
    st.binary(max_size=200),
)
def test_any_url_method_and_body(
    server: Running, client: httpx.Client, method: str, path: str, body: bytes
) -> None:
    try:
        request = client.build_request(method, path, content=body)
    except (httpx.InvalidURL, ValueError):
        return
    check(server, client.send(request))


@FUZZ
@given(
    st.text("0123456789-+xX ", max_size=6) | st.integers(0, 60).map(str),
    st.binary(max_size=80)
    | st.just(
        b'{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":9}}]}\5\0\0\0hello'
    ),
)
def test_any_binary_length(server: Running, client: httpx.Client, header: str, body: bytes) -> None:
    try:
        response = client.post(
            "/v2/models/tiny/infer", content=body, headers={"Inference-Header-Content-Length": header}
        )
    except httpx.LocalProtocolError:
        return
    check(server, response)


@FUZZ
@given(st.binary(max_size=300))
def test_any_bytes_on_the_wire(server: Running, sent: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\n" + sent + b"\r\n\r\n")
        connection.shutdown(1)
        assert read_answer(connection)[0] < 500
    assert server.process.poll() is None


def test_nothing_went_wrong_meanwhile(server: Running) -> None:
    assert server.predict("good").status_code == 200
    assert not [event for event in server.events() if event["event"] in ("fault", "batch_failed", "failed")]
