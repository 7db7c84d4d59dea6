"""What the three protocols read, and each reason for which they refuse."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.batches import TextBatch
from accel_cli.serve.hugging_face import read_hugging_face
from accel_cli.serve.limits import Limits
from accel_cli.serve.refusals import Refusal
from accel_cli.serve.tei import read_tei
from accel_cli.serve.tensors import joined_bytes
from accel_cli.serve.v2 import OUTPUTS, read_v2
from serve.refused import refused_with

LIMITS = Limits(max_inflight=512, max_batch_tokens=1024, max_text_bytes=2048, max_client_batch=100)
HALF = '"\\ud800"'
SCALARS = st.sampled_from([None, True, False, 0, 1, -1, 2.5, 10**20, "text", "BYTES", "a", "Left", "label"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)


def sent(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def check_refused(read: Any, value: Any, code: int, words: str, **more: Any) -> None:
    with pytest.raises(Refusal) as caught:
        read(sent(value), limits=LIMITS, **more)
    assert words in caught.value.message
    assert caught.value.status == code


# Text Embeddings Inference


@pytest.mark.parametrize(
    ("inputs", "texts", "single"),
    [
        ("a", [b"a"], True),
        (["a"], [b"a"], True),
        ([["a"]], [b"a"], False),
        (
            [
                ["a"],
                [
                    "",
                ][:1],
            ],
            [b"a", b""],
            False,
        ),
        ("é☃", ["é☃".encode()], True),
    ],
)
def test_tei(inputs: Any, texts: list[bytes], single: bool) -> None:
    question = read_tei(sent({"inputs": inputs, "unknown": 1}), LIMITS)
    assert (question.texts.lines(), question.single, question.may_cut, question.raw) == (
        texts,
        single,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("more", "may_cut"),
    [
        ({"truncate": None}, True),
        ({"truncate": True}, True),
        ({"truncate": False}, False),
        ({"truncation_direction": "right"}, True),
        ({"truncation_direction": "Left"}, False),
    ],
)
def test_tei_cutting(more: dict[str, Any], may_cut: bool) -> None:
    assert read_tei(sent({"inputs": "a", **more}), LIMITS).may_cut is may_cut


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({}, 422, 'inputs: expected a text, or a batch as [["a"], ["b"]], got null'),
        ({"inputs": 3}, 422, "got 3"),
        ({"inputs": {}}, 422, "got an object"),
        ({"inputs": []}, 400, "the request holds no text"),
        ({"inputs": ["a", "b"]}, 422, "one input of 2 parts"),
        ({"inputs": [["a", "b"]]}, 422, "one input of 2 parts"),
        ({"inputs": [[]]}, 422, "one input of 0 parts"),
        ({"inputs": ["a", ["b"]]}, 422, "these are mixed with texts"),
        ({"inputs": [3]}, 422, "a text must be a string, got 3"),
        ({"inputs": [["a"], [None]]}, 422, "a text must be a string, got null"),
        ({"inputs": [[["a"]]]}, 422, "a text must be a string, got a list"),
        ({"inputs": [["a"]] * 101}, 422, "101 texts in one request, and at most 100 are taken"),
        (b'{"inputs": %s}' % HALF.encode(), 400, "half a surrogate pair"),
        ({"inputs": "a", "truncate": "no"}, 422, "truncate: expected one of true, false, null, got 'no'"),
        ({"inputs": "a", "truncate": 0}, 422, "got 0"),
        ({"inputs": "a", "truncation_direction": "Up"}, 422, "truncation_direction: expected one of"),
        ({"inputs": "a", "raw_scores": 1}, 422, "raw_scores: expected one of true, false, got 1"),
    ],
)
def test_tei_refuses(body: Any, code: int, words: str) -> None:
    check_refused(read_tei, body, code, words)


# Hugging Face


def test_hugging_face() -> None:
    question = read_hugging_face(sent({"inputs": ["a", "b"], "parameters": {"top_k": 3}}), LIMITS)
    assert (question.texts.lines(), question.top, question.function) == ([b"a", b"b"], 3, "softmax")
    question = read_hugging_face(sent({"inputs": "a", "parameters": {"function_to_apply": None}}), LIMITS)
    assert (question.texts.lines(), question.top, question.function) == ([b"a"], None, "softmax")


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({}, 422, "inputs: expected a text or a list of texts, got null"),
        ({"inputs": []}, 400, "the request holds no text"),
        ({"inputs": [["a"]]}, 422, "a text must be a string, got a list"),
        ({"inputs": ["a"] * 101}, 422, "101 texts in one request"),
        ({"inputs": "a", "parameters": 3}, 422, "parameters: expected an object, got 3"),
        ({"inputs": "a", "parameters": {"top_k": 0}}, 422, "parameters.top_k: expected a whole number"),
        ({"inputs": "a", "parameters": {"top_k": True}}, 422, "parameters.top_k: expected a whole number"),
        (
            {"inputs": "a", "parameters": {"function_to_apply": "tanh"}},
            422,
            "expected one of softmax, sigmoid, none",
        ),
        ({"inputs": "a", "parameters": {"function_to_apply": [1]}}, 422, "got a list"),
        (b'{"inputs": [%s]}' % HALF.encode(), 400, "half a surrogate pair"),
    ],
)
def test_hugging_face_refuses(body: Any, code: int, words: str) -> None:
    check_refused(read_hugging_face, body, code, words)


# Open Inference Protocol


def tensor(**changes: Any) -> dict[str, Any]:
    found = {"name": "text", "datatype": "BYTES", "shape": [2], "data": ["a", "b"], **changes}
    return {key: value for key, value in found.items() if value is not None}


def binary(texts: list[bytes], *, size: int | None = None, **changes: Any) -> tuple[bytes, str]:
    """A body and its header."""
    data = joined_bytes(texts)
    parameters = {"binary_data_size": len(data) if size is None else size}
    asked = tensor(shape=[len(texts)], data=None, parameters=parameters)
    head = json.dumps({"inputs": [{**asked, **changes}]}).encode()
    return head + data, str(len(head))


def as_they_were(texts: TextBatch) -> list[bytes]:
    """Lines without spaces at their ends, some of which stand for lengths."""
    return [line.rstrip(b" ") for line in texts.lines()]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shape": [2, 1]},
        {"shape": [2, 1], "data": [["a"], ["b"]]},
        {"parameters": {"content_type": "str"}},
    ],
)
def test_v2(changes: dict[str, Any]) -> None:
    question = read_v2(sent({"inputs": [tensor(**changes)], "model_name": "m", "id": "x"}), None, "m", LIMITS)
    assert (question.texts.lines(), question.identity) == ([b"a", b"b"], "x")
    assert question.outputs == {"label": False, "score": False}


def test_v2_outputs() -> None:
    asked = {
        "inputs": [tensor()],
        "parameters": {"binary_data_output": True},
        "outputs": [{"name": "scores"}, {"name": "label", "parameters": {"binary_data": False}}],
    }
    assert read_v2(sent(asked), None, "m", LIMITS).outputs == {"scores": True, "label": False}


def test_v2_binary() -> None:
    texts = [b"a", b"", b"\xff"]
    body, header = binary(texts)
    assert as_they_were(read_v2(body, header, "m", LIMITS).texts) == texts
    assert read_v2(b"any \xff", "0", "m", LIMITS).texts.lines() == [b"any \xff"]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({}, 400, "inputs: expected a list of one tensor, named 'text'"),
        ({"inputs": {}}, 400, "expected a list of one tensor"),
        ({"inputs": [1]}, 400, "expected a list of one tensor"),
        ({"inputs": [tensor(), tensor()]}, 400, "expected a list of one tensor"),
        ({"inputs": [tensor(name="words")]}, 400, "unknown tensor 'words'; this model takes 'text'"),
        ({"inputs": [tensor(name=[1])]}, 400, "unknown tensor a list"),
        ({"inputs": [tensor(datatype="FP32")]}, 400, "expected the datatype BYTES, got 'FP32'"),
        ({"inputs": [tensor(shape=None)]}, 400, "expected the shape [n] or [n, 1], got null"),
        ({"inputs": [tensor(shape=[])]}, 400, "expected the shape [n] or [n, 1], got []"),
        ({"inputs": [tensor(shape=[-1])]}, 400, "got [-1]"),
        ({"inputs": [tensor(shape=[True])]}, 400, "got [true]"),
        ({"inputs": [tensor(shape=[1, 2])]}, 400, "got [1, 2]"),
        ({"inputs": [tensor(shape=["2"])]}, 400, 'got ["2"]'),
        ({"inputs": [tensor(shape=[2.0])]}, 400, "got [2.0]"),
        ({"inputs": [tensor(shape=[0], data=[])]}, 400, "the request holds no text"),
        ({"inputs": [tensor(shape=[101])]}, 422, "101 texts in one request"),
        ({"inputs": [tensor(shape=[10**30])]}, 422, "texts in one request"),
        ({"inputs": [tensor(shape=[3])]}, 400, "its shape has 3 elements, its data 2"),
        ({"inputs": [tensor(data="ab")]}, 400, "expected a list as data, or binary_data_size, got 'ab'"),
        ({"inputs": [tensor(data=None)]}, 400, "expected a list as data, or binary_data_size, got null"),
        ({"inputs": [tensor(data=["a", 3])]}, 400, "a text must be a string, got 3"),
        ({"inputs": [tensor(data=[["a"], [["b"]]])]}, 400, "a text must be a string, got a list"),
        (
            b'{"inputs": [{"name":"text","datatype":"BYTES","shape":[1],"data":[%s]}]}' % HALF.encode(),
            400,
            "half a",
        ),
        ({"inputs": [tensor(parameters=3)]}, 400, "text: expected an object as parameters, got 3"),
        ({"inputs": [tensor()], "parameters": []}, 400, "the request: expected an object as parameters"),
        ({"inputs": [tensor()], "id": 3}, 400, "id: expected a string, got 3"),
        ({"inputs": [tensor()], "outputs": 3}, 400, "outputs: expected a list of objects with a name, got 3"),
        ({"inputs": [tensor()], "outputs": ["label"]}, 400, "outputs: expected a list of objects"),
        ({"inputs": [tensor()], "outputs": [{"name": "mood"}]}, 400, "'mood' is not one of label, score"),
        ({"inputs": [tensor()], "outputs": [{"name": "score"}] * 2}, 400, "score is asked for twice"),
        (
            {"inputs": [tensor(parameters={"binary_data_size": 3})]},
            400,
            "binary_data_size 3, but 0 bytes follow the JSON",
        ),
        ({"inputs": [tensor(parameters={"binary_data_size": 0})]}, 400, "both data and binary_data_size"),
    ],
)
def test_v2_refuses(body: Any, code: int, words: str) -> None:
    check_refused(read_v2, body, code, words, header=None, model="m")


@pytest.mark.parametrize("header", ["-1", "x", "", "1e3", "99999", "1" * 5000, " 5", "٣"])
def test_v2_refuses_a_header_that_is_none(header: str) -> None:
    check_refused(
        read_v2, {"inputs": []}, 400, "is not a number of bytes of this body", header=header, model="m"
    )


def test_v2_refuses_wrong_lengths() -> None:
    for body, header in (binary([b"a"], size=4), binary([b"a"], size=6), binary([b"a"], size=-1)):
        check_refused(read_v2, body, 400, "bytes follow the JSON", header=header, model="m")
    body, header = binary([b"a"], parameters={})
    check_refused(read_v2, body, 400, "has no binary_data_size", header=header, model="m")
    body, header = binary([b"a"], shape=[2])
    check_refused(read_v2, body, 400, "ends within element 1 of 2", header=header, model="m")


@given(
    st.dictionaries(
        st.sampled_from(["inputs", "truncate", "truncation_direction", "raw_scores", "parameters"]), VALUES
    )
)
def test_any_value_is_read_or_refused(value: dict[str, Any]) -> None:
    for read in (read_tei, read_hugging_face):
        body = sent(value)
        if refused_with(partial(read, body, LIMITS)) not in (400, 422):
            assert len(read(body, LIMITS).texts) > 0


@given(
    st.fixed_dictionaries(
        {"inputs": st.lists(st.dictionaries(st.sampled_from([*tensor(), "parameters"]), VALUES), max_size=2)},
        optional=dict.fromkeys(("outputs", "parameters", "id"), VALUES),
    ),
    st.none() | st.text(max_size=5) | st.integers(-3, 300).map(str),
    st.binary(max_size=20),
)
def test_any_tensor_is_read_or_refused(value: dict[str, Any], header: str | None, tail: bytes) -> None:
    read = partial(read_v2, sent(value) + tail, header, "m", LIMITS)
    if refused_with(read) not in (400, 422):
        assert len(read().texts) > 0
        assert set(read().outputs) <= set(OUTPUTS)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=5), st.integers(-3, 60))
def test_any_binary_length_is_read_or_refused(texts: list[bytes], size: int) -> None:
    body, header = binary(texts, size=size)
    read = partial(read_v2, body, header, "m", LIMITS)
    if refused_with(read) != 400:
        assert as_they_were(read().texts) == as_they_were(TextBatch.of(texts))
