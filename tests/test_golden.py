"""Golden outputs: made, read, and refused when they are not what they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest

from accel_cli import resources
from accel_cli.errors import WeightsError
from accel_cli.model.config import Config, load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import kept_layers, load_golden, make_golden
from accel_cli.model.reference import forward
from accel_cli.model.weights import fingerprint, load_tensors, save_tensors
from accel_cli.text.readers import Source
from accel_cli.text.tokenizer import BYTES_PER_TOKEN, Tokenizer, tokens
from accel_cli.text.vocabulary import load_vocabulary
from accel_cli.validation import check_tokens

SPEC = networks.RAGGED
WEIGHTS = networks.weights_of(SPEC)
TEXTS = [b"a good film", b"", b"\xff\x00 bad", b"the end"]
BATCH = networks.sentences(SPEC, [5, 5, 9, 24])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_golden(tmp_path / "g", SPEC, WEIGHTS, TEXTS, BATCH)
    return tmp_path / "g"


def forge(path: Path, **changes: Any) -> Path:
    """The goldens with some tensors replaced, or removed by None, and a right sha256."""
    tensors, metadata = load_tensors(path)
    changed = {name: value for name, value in {**tensors, **changes}.items() if value is not None}
    save_tensors(path, changed, metadata)
    return path


def refusal(path: Path, weights: Any = WEIGHTS) -> str:
    with pytest.raises(WeightsError) as caught:
        load_golden(path, SPEC, weights)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_what_is_made_is_read(path: Path) -> None:
    golden = load_golden(path, SPEC, WEIGHTS)
    assert golden.texts == TEXTS
    np.testing.assert_array_equal(golden.batch.ids, BATCH.ids)
    np.testing.assert_array_equal(golden.batch.offsets, BATCH.offsets)
    assert list(golden.layers) == kept_layers(SPEC) == ["features", "gate", "experts", "fc.0", "logits"]
    expected = forward(SPEC, WEIGHTS, BATCH)
    for name, values in golden.layers.items():
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, expected[name].astype(np.float32))


def test_other_weights(path: Path) -> None:
    message = refusal(path, networks.weights_of(SPEC, 2))
    assert "was made from other weights; make it again with `accel validate --make-golden" in message


def test_no_file(tmp_path: Path) -> None:
    assert "no golden outputs" in refusal(tmp_path / "none")
    assert "--make-golden" in refusal(tmp_path / "none")


@pytest.mark.parametrize("change", [{"gate": None}, {"extra": np.zeros(3)}])
def test_other_tensors(path: Path, change: dict[str, Any]) -> None:
    assert "holds no golden outputs of this network" in refusal(forge(path, **change))


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    save_tensors(tmp_path / "g", {"a": np.zeros(3, np.float32)}, {"format": "accel-weights"})
    assert "holds no golden outputs of this network" in refusal(tmp_path / "g")
    (tmp_path / "g").write_bytes(b"hello")
    assert "damaged or not a safetensors file" in refusal(tmp_path / "g")


@pytest.mark.parametrize(
    "change",
    [
        {"text": np.frombuffer(b"a\nb", np.uint8)},
        {"ids": np.zeros(7, np.int32)},
        {"lengths": np.array([5, 5], np.int32)},
        {"logits": np.zeros((3, 2), np.float32)},
    ],
)
def test_what_contradicts_itself(path: Path, change: dict[str, Any]) -> None:
    assert "contradicts itself" in refusal(forge(path, **change))


def test_a_damaged_file(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert "is damaged: sha256" in refusal(path)


@pytest.mark.parametrize("name", ["school", "sentiment"])
def test_the_shipped_ones_have_the_tokens_of_the_shipped_vocabulary(name: str) -> None:
    """Without the weights: `accel validate` checks the values."""
    spec = load_config(name).model
    if spec.golden is None or not spec.golden.exists():
        pytest.skip(f"{name} ships no golden outputs yet")
    tensors, metadata = load_tensors(spec.golden)
    assert metadata["format"] == "accel-golden"
    texts = tensors["text"].tobytes().split(b"\n")
    assert len(texts) == len(tensors["lengths"]) == len(tensors["logits"])
    tokenizer = Tokenizer(
        load_vocabulary(spec.vocabulary, spec.vocabulary_size), spec.min_tokens, spec.max_tokens
    )
    batch = tokenizer.encode(texts).batch
    np.testing.assert_array_equal(batch.lengths, tensors["lengths"])
    np.testing.assert_array_equal(batch.ids, tensors["ids"])
    for layer in kept_layers(spec):
        assert np.isfinite(tensors[layer]).all()
        assert np.abs(tensors[layer]).max() > 0.1  # tiny values would pass any tolerance
    np.testing.assert_allclose(tensors["gate"].sum(axis=1), 1, rtol=1e-5)


def test_the_shipped_sentences_hold_the_edges_and_are_read_as_records() -> None:
    path = resources.WEIGHTS / "sentences.txt"
    texts = path.read_bytes().removesuffix(b"\n").split(b"\n")  # as goldens are made
    assert [text for chunk in Source(str(path)).chunks(64, (1, None)) for text in chunk.texts] == texts
    assert len(set(texts)) == len(texts) >= 220
    counts = {len(tokens(text)) for text in texts}
    assert {*range(12), 255, 256, 257} <= counts  # around the widest convolution, 9, and max_tokens
    assert max(map(len, texts)) > BYTES_PER_TOKEN * 256
    everything = b"".join(texts)
    for odd in (b"\0", b"\r", b"\t", b"\xef\xbb\xbf", b"\xff", "\u2019".encode(), "\u200d".encode()):
        assert odd in everything


def test_school_has_64_sentences_that_are_not_all_alike() -> None:
    tensors, _ = load_tensors(resources.WEIGHTS / "school" / "golden.safetensors")
    assert len(tensors["lengths"]) == 64
    assert set(tensors["lengths"].tolist()) == {16}
    assert np.unique(tensors["logits"], axis=0).shape[0] > 60
    assert 1.0 < tensors["features"].mean() < 1.8  # half the tokens are <pad>, whose windows repeat
    assert 0.3 < tensors["logits"].std() < 2.0


def test_tokens_that_differ_are_found(tiny: Config, tmp_path: Path) -> None:
    spec, weights = tiny.model, obtain_weights(tiny.model)
    tokenizer = Tokenizer(load_vocabulary(spec.vocabulary, 40), spec.min_tokens, spec.max_tokens)
    batch = tokenizer.encode(TEXTS).batch
    make_golden(tmp_path / "g", spec, weights, TEXTS, batch)
    good = load_golden(tmp_path / "g", spec, weights)
    assert [(row.layer, row.failed) for row in check_tokens(tokenizer, good)] == [
        ("lengths", False),
        ("ids", False),
    ]
    other = load_golden(forge(tmp_path / "g", ids=batch.ids + 1), spec, weights)
    assert [(row.layer, row.failed) for row in check_tokens(tokenizer, other)] == [
        ("lengths", False),
        ("ids", True),
    ]
    longer = Tokenizer(tokenizer.vocabulary, 6, 24)
    assert [(row.layer, row.failed) for row in check_tokens(longer, good)] == [("lengths", True)]


def test_the_fingerprint_is_of_the_values_alone() -> None:
    assert fingerprint(WEIGHTS) == fingerprint(networks.weights_of(SPEC))
    assert fingerprint(WEIGHTS) != fingerprint(networks.weights_of(SPEC, 2))
