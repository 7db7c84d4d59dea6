"""What accel bench --serve takes for a right answer. What comes back from a server is never trusted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from accel_cli.batches import Predictions
from accel_cli.bench.serve_requests import TEI, V2_BINARY, V2_JSON, Answers, Request, Response, parsed

LOGITS = np.array([[1.0, -2.0], [-0.5, 0.5], [3.0, 3.0]], dtype=np.float32)
ANSWERS = Answers(("negative", "positive"), Predictions.from_logits(LOGITS), 1e-4)


def tei(place: int, row: object) -> bool:
    request = Request(TEI, place, place + 1, True, b"")
    return ANSWERS.right(request, Response(200, b"", json.dumps(row).encode()))


@pytest.mark.parametrize(
    ("label", "first", "other", "right"),
    [
        ("negative", 1.0, -2.0, True),
        ("negative", 1.00005, -2.0, True),
        ("negative", 1.1, -2.0, False),
        ("positive", -2.0, 1.0, False),  # the values fit, the label is the wrong one
        ("negative", float("nan"), -2.0, False),
    ],
)
def test_one_sentence(label: str, first: float, other: float, right: bool) -> None:
    names = ("negative", "positive") if label == "negative" else ("positive", "negative")
    row = [{"label": name, "score": value} for name, value in zip(names, (first, other), strict=True)]
    assert tei(0, row) is right


def test_another_sentence_s_answer_is_wrong() -> None:
    row = [{"label": "negative", "score": 1.0}, {"label": "positive", "score": -2.0}]
    assert tei(0, row)
    assert not tei(1, row)


def test_where_two_labels_are_as_likely_either_is_right() -> None:
    for names in (("negative", "positive"), ("positive", "negative")):
        assert tei(2, [{"label": name, "score": 3.0} for name in names])


@pytest.mark.parametrize(
    "row", [None, [], {}, [1], "x", [{"label": "negative"}], [{"label": [], "score": 1}]]
)
def test_nonsense_is_wrong(row: object) -> None:
    assert not tei(0, row)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"outputs": [1, 2]}', b'{"outputs": []}', b"\xff"])
@pytest.mark.parametrize("protocol", [TEI, V2_JSON, V2_BINARY])
def test_nonsense_in_any_protocol_is_wrong(protocol: str, body: bytes) -> None:
    head = b"\r\ninference-header-content-length: 9\r\n" if protocol == V2_BINARY else b""
    assert not ANSWERS.right(Request(protocol, 0, 2, False, b""), Response(200, head, body))


def test_too_few_answers_are_wrong() -> None:
    outputs = [{"name": "label", "data": ["negative"]}, {"name": "logits", "data": [1.0, -2.0]}]
    response = Response(200, b"", json.dumps({"outputs": outputs}).encode())
    assert ANSWERS.right(Request(V2_JSON, 0, 1, True, b""), response)
    assert not ANSWERS.right(Request(V2_JSON, 0, 2, True, b""), response)


def test_a_response_is_read_once_it_is_whole() -> None:
    whole = b"HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 1\r\nContent-Length: 3\r\n\r\nabc"
    for end in range(len(whole)):
        assert parsed(bytearray(whole[:end])) is None
    found = parsed(bytearray(whole))
    assert found is not None
    assert (found.status, found.body) == (200, b"abc")
