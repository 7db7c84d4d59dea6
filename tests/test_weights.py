"""Weights files: whole or refused, each damage with its own message."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from accel_cli.errors import OutputError, WeightsError
from accel_cli.model import weights
from accel_cli.model.generate import generate
from accel_cli.model.weights import (
    assemble,
    digest,
    fingerprint,
    load_tensors,
    load_weights,
    save_tensors,
    save_weights,
    shape_text,
    shapes,
)

SPEC = networks.RAGGED
Tensors = dict[str, np.ndarray]


@pytest.fixture
def tensors() -> Tensors:
    return {name: np.array(tensor) for name, tensor in generate(SPEC, 7).items()}


@pytest.fixture
def path(tmp_path: Path, tensors: Tensors) -> Path:
    """A sound weights file."""
    save_weights(tmp_path / "w.safetensors", SPEC, tensors)
    return tmp_path / "w.safetensors"


def refusal(call: Callable[..., Any], *arguments: Any) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(WeightsError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def forge(path: Path, tensors: Tensors) -> None:
    """Write tensors with a right sha256 and the shape of SPEC, whether they fit it or not."""
    save_tensors(path, tensors, {"format": "accel-weights", "shape": shape_text(SPEC)})


@pytest.mark.parametrize("spec", networks.NETWORKS.values(), ids=networks.NETWORKS)
def test_what_is_written_is_read(tmp_path: Path, spec: Any) -> None:
    made = generate(spec, 3)
    save_weights(tmp_path / "w", spec, made)
    read = load_weights(tmp_path / "w", spec)
    assert fingerprint(read) == fingerprint(assemble(spec, made))
    np.testing.assert_array_equal(read.gate.bias, made["gate.bias"])
    tensors, metadata = load_tensors(tmp_path / "w")
    assert metadata["format"] == "accel-weights"
    assert metadata["sha256"] == digest(made) == digest(tensors)
    assert json.loads(metadata["shape"]) == {name: list(shape) for name, shape in shapes(spec).items()}


def test_standard_names_and_shapes() -> None:
    assert shapes(SPEC) == {
        "embedding.weight": (40, 12),
        "convolution.3.weight": (10, 12, 3),
        "convolution.3.bias": (10,),
        "convolution.5.weight": (10, 12, 5),
        "convolution.5.bias": (10,),
        "gate.weight": (3, 20),
        "gate.bias": (3,),
        **{f"experts.{e}.{part}": s for e in range(3) for part, s in (("weight", (6, 20)), ("bias", (6,)))},
        "fc.0.weight": (7, 6),
        "fc.0.bias": (7,),
        "fc.1.weight": (2, 7),
        "fc.1.bias": (2,),
    }


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_other_floats_become_float32(tmp_path: Path, tensors: Tensors, kind: str) -> None:
    forge(tmp_path / "w", {name: tensor.astype(kind) for name, tensor in tensors.items()})
    read = load_weights(tmp_path / "w", SPEC)
    assert read.embedding.dtype == np.float32
    np.testing.assert_array_equal(read.embedding, tensors["embedding.weight"].astype(kind).astype(np.float32))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gate.bias": None}, "missing gate.bias"),
        ({"gate.bias": None, "fc.0.bias": None}, "missing gate.bias, fc.0.bias"),
        ({"extra": np.zeros(3, np.float32)}, "unexpected extra"),
        ({"gate.bias": np.zeros(4, np.float32)}, "gate.bias has shape [4], expected [3]"),
        ({"gate.bias": np.zeros(3, np.int32)}, "gate.bias is int32, expected float16 or float32"),
        ({"gate.bias": np.array([0, np.nan, 0], np.float32)}, "gate.bias holds NaN or infinity"),
        ({"gate.bias": np.array([0, 0, -np.inf], np.float32)}, "gate.bias holds NaN or infinity"),
    ],
)
def test_tensors_that_do_not_fit(
    tmp_path: Path, tensors: Tensors, change: dict[str, Any], words: str
) -> None:
    path = tmp_path / "w"
    changed = {name: value for name, value in {**tensors, **change}.items() if value is not None}
    forge(path, changed)
    message = refusal(load_weights, path, SPEC)
    assert message == f"{path} does not fit the configuration: {words}"
    assert refusal(save_weights, tmp_path / "x", SPEC, changed).endswith(words)
    assert not (tmp_path / "x").exists()


def test_a_shape_in_the_metadata_that_is_not_that_of_the_tensors(tmp_path: Path, tensors: Tensors) -> None:
    save_tensors(tmp_path / "w", tensors, {"shape": "{}"})
    assert "the shape in the metadata is not that of the tensors" in refusal(
        load_weights, tmp_path / "w", SPEC
    )


def test_no_sha256(tmp_path: Path, tensors: Tensors) -> None:
    save_file(tensors, tmp_path / "w")
    assert "carries no sha256; write it with `accel weights convert`" in refusal(load_tensors, tmp_path / "w")


def test_a_flipped_bit_in_the_data(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-17] ^= 1
    path.write_bytes(content)
    message = refusal(load_weights, path, SPEC)
    assert message.startswith(f"{path} is damaged: sha256 is ")
    assert "expected " in message
    assert "fetch it again" in message


@pytest.mark.parametrize("size", [0, 1, 7, 8, 100, -1, -1000])
def test_a_truncated_file(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    message = refusal(load_weights, path, SPEC)
    assert f"{path} is damaged or not a safetensors file" in message
    assert "fetch it again" in message


def test_bytes_after_the_end(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")
    assert "is damaged or not a safetensors file" in refusal(load_weights, path, SPEC)


@pytest.mark.parametrize(
    "content", [b"hello", b"\x93NUMPY" + bytes(200), bytes(64), b"\xff" * 64, b"{}" * 40]
)
def test_what_is_no_safetensors_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w").write_bytes(content)
    assert "damaged or not a safetensors file" in refusal(load_tensors, tmp_path / "w")


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3", "I64", "XYZ"])
def test_a_type_that_numpy_does_not_have(tmp_path: Path, kind: str) -> None:
    size = {"BF16": 2, "F8_E4M3": 1, "I64": 8, "XYZ": 4}[kind]
    header = {
        "__metadata__": {"sha256": "0" * 64},
        "a": {"dtype": kind, "shape": [3], "data_offsets": [0, 3 * size]},
    }
    text = json.dumps(header).encode()
    (tmp_path / "w").write_bytes(struct.pack("<Q", len(text)) + text + bytes(3 * size))
    assert str(tmp_path / "w") in refusal(load_tensors, tmp_path / "w")


def test_no_file(tmp_path: Path) -> None:
    message = refusal(load_weights, tmp_path / "none", SPEC)
    assert f"no weights file {tmp_path / 'none'}; check model.weights" in message


def test_a_folder(tmp_path: Path) -> None:
    assert str(tmp_path) in refusal(load_weights, tmp_path, SPEC)


def test_a_failed_write_leaves_nothing_behind(
    path: Path, tensors: Tensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(arrays: Any, file: Path, metadata: Any) -> None:
        Path(file).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weights, "save_file", full)
    with pytest.raises(OutputError, match=r"cannot write .*: No space left on device; make room"):
        save_weights(path, SPEC, tensors)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("inside", [True, False])
def test_a_place_that_cannot_be_written(tmp_path: Path, tensors: Tensors, inside: bool) -> None:
    blocker = tmp_path / "file"
    blocker.write_bytes(b"")
    (tmp_path / "folder" / "full").mkdir(parents=True)
    target = blocker / "w" if inside else tmp_path / "folder"
    with pytest.raises(OutputError, match=r"cannot write .*file|is a folder; name a file"):
        save_weights(target, SPEC, tensors)
    assert sorted(tmp_path.iterdir()) == [blocker, tmp_path / "folder"]


def test_folders_are_made(tmp_path: Path, tensors: Tensors) -> None:
    save_weights(tmp_path / "a" / "b" / "w", SPEC, tensors)
    load_weights(tmp_path / "a" / "b" / "w", SPEC)


def test_the_digest_sees_names_types_shapes_and_bytes() -> None:
    one = np.arange(6, dtype=np.float32)
    seen = {
        digest({"a": one}),
        digest({"b": one}),
        digest({"a": one.reshape(2, 3)}),
        digest({"a": one.view(np.int32)}),
        digest({"a": one[::-1]}),
        digest({"a": one, "b": one[:0]}),
        digest({}),
    }
    assert len(seen) == 7
    assert digest({"a": one, "b": one}) == digest({"b": one, "a": one})
    assert digest({"a": one.reshape(2, 3).T}) == digest({"a": one.reshape(2, 3).T.copy()})
    assert digest({"a": np.float32(3)}) == digest({"a": np.float32(3)})


SMALL: Tensors = {"a": np.arange(5, dtype=np.float32), "b": np.ones((2, 2), np.float16)}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("small") / "w"
    save_tensors(path, SMALL, {"format": "accel-weights"})
    return path.read_bytes()


@settings(max_examples=200, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(
    small: bytes, tmp_path_factory: pytest.TempPathFactory, place: float, flip: int
) -> None:
    content = bytearray(small)
    content[int(place * len(small))] ^= flip
    path = tmp_path_factory.getbasetemp() / "flipped"
    path.write_bytes(content)
    try:
        read, _ = load_tensors(path)
    except WeightsError:
        return
    assert read.keys() == SMALL.keys()
    for name, tensor in SMALL.items():
        assert read[name].dtype == tensor.dtype
        np.testing.assert_array_equal(read[name], tensor)
