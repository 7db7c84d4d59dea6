"""JSON from strangers: an object, or a Refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.serve.json_body import read_json
from accel_cli.serve.limits import Limits
from accel_cli.serve.refusals import Refusal
from serve.refused import refused_with

LIMITS = Limits(max_inflight=512, max_batch_tokens=1024, max_text_bytes=2048, max_client_batch=100)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def refusal(body: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_json(body, LIMITS)
    assert (caught.value.status, caught.value.kind) == (400, "validation")
    assert len(caught.value.message) < 300
    return caught.value


@settings(max_examples=40)
@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_any_object_is_read(value: dict[str, Any]) -> None:
    assert read_json(json.dumps(value).encode(), LIMITS) == value


@settings(max_examples=60)
@given(st.binary() | st.text().map(str.encode) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    assert refused_with(lambda: read_json(body, LIMITS)) in (None, 400)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the body is no JSON"),
        (b"{", "the body is no JSON"),
        (b'{"a": 1} x', "Extra data"),
        (b"[1]", "must be a JSON object"),
        (b"\xff\xfe{}", "is not UTF-8 at byte 0"),
        ("{}".encode("utf-16"), "is not UTF-8 at byte 0"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": 1, "a": 2}', "a key stands twice"),
        (b'{"a": ' + b"9" * 5000 + b"}", "the body is no JSON: a number has more than 1000 digits"),
        (b'{"a": ' + b"[" * 32 + b"]" * 32 + b"}", "nested deeper than 32 levels"),
        (b"[" * 400, "the body is no JSON"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "nested deeper than 32 levels"),
    ],
)
def test_why_it_is_refused(body: bytes, words: str) -> None:
    assert words in refusal(body).message


def test_depth_without_end() -> None:
    """What closes nothing cannot be measured from its leaves; the parser gives up on it."""
    with pytest.raises(Refusal, match="the body is nested too deeply"):
        read_json(b"[" * 15_000, Limits(max_inflight=512, max_batch_tokens=1024, max_text_bytes=2048))


@pytest.mark.parametrize("value", [b"[]", b"{}", b'""', b"1", b"[{}]", b'"\\\\"', b'"\\""'])
def test_too_many_values_are_too_many_texts(value: bytes) -> None:
    """Refused before they are built, as a batch that is too large."""
    with pytest.raises(Refusal, match="more than 456 lists, objects and values; a request takes at most 100"):
        read_json(b'{"a": [' + (value + b",") * 460 + value + b"]}", LIMITS)


@pytest.mark.parametrize("text", ['\\"[', '"[{,', "[", '""', "\\\\", '\\\\"'])
def test_strings_of_odd_signs_take_no_time(text: str) -> None:
    """Neither whole ones nor those without an end."""
    body = json.dumps({"a": text * 1_000_000}).encode()
    assert read_json(body, LIMITS)["a"] == text * 1_000_000
    refusal(body[:-2])


def test_brackets_in_texts_do_not_count() -> None:
    text = '[{"\\' * 1000
    assert read_json(json.dumps({"inputs": text}).encode(), LIMITS) == {"inputs": text}


def test_nesting_up_to_the_limit_is_read() -> None:
    assert read_json(b'{"a": ' + b"[" * 31 + b"]" * 31 + b"}", LIMITS)
