"""Raw sockets: what is no proper request is ended, with a reason, and costs bounded time and memory."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import pytest

from serve.processes import HEALTH, Running, answer_to_health, read_all, read_answer, running, until
from serve.test_lifecycle import code_of

ASKED = b'{"inputs": "good"}'


def post(*headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST /predict HTTP/1.1", b"host: x", *headers, b"", body])


@pytest.fixture(scope="module")
def strict(tiny_path: Path) -> Iterator[Running]:
    """Small bodies."""
    with running(tiny_path, "--max-body-bytes", "20000") as started:
        yield started


def answer(server: Running, *pieces: bytes) -> tuple[int, str]:
    """The status and the error of what is answered to some bytes, until the server closes."""
    with server.connect() as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
        status, body = read_answer(connection)
        return status, json.loads(body)["error"] if body else ""


def codes_of(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


def check_alive(server: Running) -> None:
    assert server.predict("good").status_code == 200


def test_an_answer_is_written_at_once(server: Running) -> None:
    """Head and body apart would wake the client twice."""
    length = b"content-length: %d" % len(ASKED)
    with server.connect() as connection:
        for _ in range(20):
            connection.sendall(post(length, body=ASKED))
            answered = connection.recv(1 << 16)
            assert answered.startswith(b"HTTP/1.1 200 ")
            assert answered.endswith(b"}]")


@pytest.mark.parametrize(
    "head", [b"HEAD /info HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", b"HEAD /info HTTP/1.0\r\n\r\n"]
)
def test_only_the_head_where_no_more_is_asked(server: Running, head: bytes) -> None:
    """Its length is that of the body that GET has; and the connection ends, as the client wants."""
    with server.connect() as connection:
        connection.sendall(head)
        lines, _, body = connection.makefile("rb").read().lower().partition(b"\r\n\r\n")
    assert body == b""
    assert b"\r\nconnection: close" in lines
    assert b"\r\ncontent-length: %d\r\n" % len(server.get("/info").content) in lines


def test_a_client_that_leaves_two_requests_is_no_error(tiny_path: Path) -> None:
    with running(tiny_path, "--max-queue-delay-us", "10_000_000") as server:
        length = b"content-length: %d" % len(ASKED)
        with server.connect() as connection:
            connection.sendall(2 * post(length, body=ASKED))
            until(lambda: server.metric("accel_inflight_size") == 1)
        until(lambda: server.metric("accel_inflight_size") == 0)
        until(lambda: server.metric('accel_rejected_total{reason="disconnected"}') >= 1)
        assert server.stop() == 0
        assert [event for event in server.events() if event["level"] == "error"] == []


# Clients that are too slow


class Slow(NamedTuple):
    """What a client sends, piece by piece, and what it is answered until the server closes."""

    pieces: Sequence[bytes]
    codes: Sequence[int]
    last: str


HEADER, BODY = "the header was not whole in time", "the body was not whole in time"
SLOW = {
    "nothing": Slow([], [408], HEADER),
    "half_a_line": Slow([b"GET /hea"], [408], HEADER),
    "half_a_header": Slow([b"GET /health HTTP/1.1\r\nhost: x\r\nx-slow: 1"], [408], HEADER),
    "half_a_line_in_one_piece_with_a_request": Slow([HEALTH + b"GET /hea"], [200, 408], HEADER),
    # whose header's time has ended when it is whole
    "half_a_body": Slow(
        [b"POST /predict HT", b"TP/1.1\r\nhost: x\r\ncontent-length: 18\r\n\r\n{"], [408], BODY
    ),
    "half_a_body_in_chunks": Slow([post(b"transfer-encoding: chunked", body=b"1\r\n{\r\n")], [408], BODY),
    "drops_of_newlines": Slow([HEALTH, b"\r\n"], [200, 408], HEADER),  # no sign of life
    "idle": Slow([HEALTH], [200], '{"live": true}'),
}


def ended(server: Running, pieces: Sequence[bytes]) -> bytes:
    """All that is answered; what a whole request is answered comes before the next piece is sent."""
    with server.connect() as connection:
        found = b""
        for piece in pieces:
            if piece == HEALTH:
                found += answer_to_health(connection)
            else:
                connection.sendall(piece)
        return found + read_all(connection)


@pytest.fixture(scope="module")
def slow(tiny_path: Path) -> Iterator[tuple[Running, dict[str, Future[bytes]]]]:
    """All of them at once, at a server with little patience, but more than any machine needs for them."""
    limits = ("--header-seconds", "5", "--body-seconds", "5", "--idle-seconds", "5")
    with running(tiny_path, *limits) as server, ThreadPoolExecutor(len(SLOW)) as pool:
        yield server, {name: pool.submit(ended, server, one.pieces) for name, one in SLOW.items()}


@pytest.mark.parametrize("name", SLOW)
def test_who_is_slow_is_ended(slow: tuple[Running, dict[str, Future[bytes]]], name: str) -> None:
    found = slow[1][name].result()
    assert codes_of(found) == SLOW[name].codes
    assert SLOW[name].last in found.rpartition(b"\r\n\r\n")[2].decode()


def test_the_slow_are_counted(slow: tuple[Running, dict[str, Future[bytes]]]) -> None:
    server, talks = slow
    wait(talks.values())
    assert server.metric('accel_rejected_total{reason="timeout"}') == len(SLOW) - 1  # all but the idle one


# What is too large, or no HTTP


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"x: a\r\n" * 20_000,
        b"GET / HTTP/1.1\r\n" + b"x: a\r\n" * 5_000 + b"\r\n",
        post(b"transfer-encoding: chunked", body=b"0\r\n" + b"x: a\r\n" * 20_000),
    ],
)
def test_a_giant_header_is_refused(server: Running, sent: bytes) -> None:
    assert answer(server, sent) == (431, "the header is too large")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
        post(b"content-length: 5", b"content-length: 6", body=b"aaaaaa"),
        post(b"content-length: -1"),
        post(b"transfer-encoding: chunked", body=b"zz\r\n"),
    ],
)
def test_what_is_no_http_is_refused(server: Running, sent: bytes) -> None:
    status, error = answer(server, sent)
    assert (status, error) == (400, "this is no HTTP request that can be read")


def test_a_body_beyond_the_limit_by_its_header(strict: Running) -> None:
    status, error = answer(strict, post(b"content-length: 20001"))
    assert (status, error) == (413, "the body has more than 20000 bytes; send its texts in several requests")


def test_a_body_beyond_the_limit_while_it_streams(strict: Running) -> None:
    chunk = b"3e8\r\n" + b"a" * 1000 + b"\r\n"
    head = post(
        b"transfer-encoding: chunked", b"connection: close"
    )  # also if all of it came before it was read
    status, error = answer(strict, head, *[chunk] * 40, b"0\r\n\r\n")
    assert (status, error) == (413, "the body has more than 20000 bytes; send its texts in several requests")
    assert strict.metric('accel_rejected_total{reason="too_large"}') >= 1


def test_a_body_without_end_is_cut_off(strict: Running) -> None:
    chunk = b"2710\r\n" + b"a" * 10_000 + b"\r\n"
    status, _ = answer(strict, post(b"transfer-encoding: chunked"), *[chunk] * 1000)
    assert status in (413, 0)  # 0: closed before all was sent, so that the answer may be lost on the way
    check_alive(strict)


def test_the_client_is_told_not_to_send_what_is_too_large(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(post(b"content-length: 999999999", b"expect: 100-continue"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413 ")


def test_expect_continue(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(
            post(b"content-length: %d" % len(ASKED), b"expect: 100-continue", b"connection: close")
        )
        assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(ASKED)
        assert read_answer(connection)[0] == 200


def test_a_compressed_body_is_refused(server: Running) -> None:
    status, error = answer(
        server, post(b"content-encoding: gzip", b"content-length: 1", b"connection: close", body=b"x")
    )
    assert (status, error) == (415, "Content-Encoding: 'gzip' is not taken; send the body as it is")


def test_small_chunks(server: Running) -> None:
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in ASKED) + b"0\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(post(b"transfer-encoding: chunked", b"connection: close", body=body))
        status, found = read_answer(connection)
    assert (status, len(json.loads(found))) == (200, 2)


def test_pipelined_requests_are_answered_in_order(server: Running) -> None:
    bodies = [b'{"inputs": %s}' % (b'"good"' if number % 2 else b"[]") for number in range(20)]
    requests = [post(b"content-length: %d" % len(body), body=body) for body in bodies]
    with server.connect() as connection:
        connection.sendall(b"".join(requests))
        found = b""
        while found.count(b"HTTP/1.1 ") < 20 or not found.endswith(b"}]"):
            more = connection.recv(1 << 16)
            assert more, found
            found += more
    assert codes_of(found) == [400, 200] * 10


def test_too_many_pipelined_requests_are_refused(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(post(b"content-length: %d" % len(ASKED), body=ASKED) * 500)
        read_answer(connection)
    check_alive(server)


def test_a_refusal_is_not_taken_for_the_answer_to_the_request_before(tiny_path: Path) -> None:
    with running(tiny_path, "--max-queue-delay-us", "10_000_000") as server, server.connect() as connection:
        connection.sendall(post(b"content-length: %d" % len(ASKED), body=ASKED) + b"this is no HTTP\r\n\r\n")
        assert read_answer(connection) == (0, b"")


def test_a_body_of_a_request_that_wants_none(server: Running) -> None:
    """It is not taken for the next request."""
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello")
        assert read_answer(connection)[0] == 200


def test_an_upgrade_is_ignored(server: Running) -> None:
    upgrade = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(upgrade)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_half_closed_is_closed(server: Running) -> None:
    """A client that ends its side counts as one that left."""
    with server.connect() as connection:
        connection.sendall(b"GET /he")
        connection.shutdown(socket.SHUT_WR)
        assert read_answer(connection) == (0, b"")
    check_alive(server)


def test_one_connection_too_many(tiny_path: Path) -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (70, 70))"
    with running(tiny_path, prelude=limited) as server:
        held = [server.connect() for _ in range(6)]
        for connection in held:
            assert answer_to_health(connection).startswith(b"HTTP/1.1 200")
        status, error = answer(server, b"")
        assert (status, error) == (429, "too many connections; close some, or try again")
        for connection in held:
            connection.close()
        until(lambda: code_of(server, "good") == 200)
