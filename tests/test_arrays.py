"""Arrays as input: token ids and embeddings, .npy and raw, whole or not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Accel
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.classifier import Classification, Classifier
from accel_cli.errors import AccelError, InputError, UsageError
from accel_cli.model.config import Config, load_config
from accel_cli.text.arrays import array_chunks, holds_embeddings

Here = Callable[..., bytes]

IDS = np.arange(5 * 7, dtype=np.int32).reshape(5, 7)


def saved(folder: Path, name: str, values: object) -> Path:
    path = folder / name
    np.save(path, values)  # type: ignore[arg-type]
    return path


def rows(output: bytes) -> list[tuple[str, float]]:
    lines = [line.split("\t") for line in output.decode().splitlines()]
    return [(label, float(score)) for label, score in lines]


def expected(found: Classification) -> list[tuple[str, float]]:
    scores = found.scores.max(axis=1).tolist()
    return [(str(label), score) for label, score in zip(found.labels, scores, strict=True)]


def same(got: list[tuple[str, float]], wanted: list[tuple[str, float]]) -> bool:
    return [label for label, _ in got] == [label for label, _ in wanted] and np.allclose(
        [score for _, score in got], [score for _, score in wanted], atol=6e-5
    )


@pytest.mark.parametrize("dtype", ["i4", "i8", "u1", ">i4", "u8"])
@pytest.mark.parametrize("batch", ["2", "100"])
def test_ids_from_npy(run_here: Here, tiny: Config, tmp_path: Path, dtype: str, batch: str) -> None:
    output = run_here("--input", saved(tmp_path, "ids.npy", IDS.astype(dtype)), "--batch", batch)
    with Classifier(tiny, "cpu") as classifier:
        assert same(rows(output), expected(classifier.predict_ids(IDS)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_embeddings_from_npy(run_here: Here, tiny: Config, tmp_path: Path, dtype: str) -> None:
    values = np.random.default_rng(1).normal(size=(5, 12, 9)).astype("f2")
    path = saved(tmp_path, "embedded.npy", np.asfortranarray(values.astype(dtype)))
    output = run_here("--input", path, "--batch", "2")
    with Classifier(tiny, "cpu", embeddings=True) as classifier:
        assert same(rows(output), expected(classifier.predict_embeddings(values)))


@pytest.fixture
def fixed(tiny_path: Path) -> Path:
    """The tiny network for sentences of 6 tokens."""
    path = tiny_path.parent / "fixed.yaml"
    path.write_text(
        tiny_path.read_text().replace("length: ragged", "length: 6").replace("  max_tokens: 24\n", "")
    )
    return path


def test_raw_ids_and_embeddings(run_here: Here, fixed: Path, tmp_path: Path) -> None:
    ids = IDS[:, :6]
    values = np.random.default_rng(2).normal(size=(5, 12, 6)).astype("<f4")
    (tmp_path / "ids.bin").write_bytes(ids.astype("<i4").tobytes())
    (tmp_path / "values.raw").write_bytes(values.tobytes())
    output = run_here("--config", fixed, "--input", tmp_path / "ids.bin", "--input-format", "ids")
    with Classifier(load_config(fixed), "cpu") as classifier:
        assert same(rows(output), expected(classifier.predict_ids(ids)))
    output = run_here("--config", fixed, "--input", tmp_path / "values.raw", "--input-format", "embeddings")
    with Classifier(load_config(fixed), "cpu", embeddings=True) as classifier:
        assert same(rows(output), expected(classifier.predict_embeddings(values)))


def test_an_empty_array_has_no_rows(run_here: Here, fixed: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.bin").write_bytes(b"")
    saved(tmp_path, "empty.npy", np.zeros((0, 6), np.int32))
    for name, kind in (("empty.bin", "ids"), ("empty.bin", "embeddings"), ("empty.npy", "ids")):
        assert run_here("--config", fixed, "--input", tmp_path / name, "--input-format", kind) == b""


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        (IDS[0], None, "expected integers [sentences, length], got int32 of shape [7]"),
        (IDS[None], None, "expected integers [sentences, length], got int32 of shape [1, 5, 7]"),
        (IDS > 3, None, "expected integers [sentences, length], got bool"),
        (IDS[:, :4], None, "sentences of 4 tokens, the model takes 5 to 24"),
        (np.zeros((2, 30), "i4"), None, "sentences of 30 tokens, the model takes 5 to 24"),
        (np.zeros((2, 0), "i4"), None, "sentences of 0 tokens"),
        (IDS - 1, None, "ids run from -1 to 33, the vocabulary from 0 to 39"),
        (IDS + 30, None, "ids run from 30 to 64, the vocabulary from 0 to 39"),
        (IDS.astype("u8") + (1 << 63), None, "the vocabulary from 0 to 39"),
        (
            IDS,
            "embeddings",
            "expected floats [sentences, 12, length] (channel first), got int32 of shape [5, 7]",
        ),
        (IDS.astype("f4"), None, "expected floats [sentences, 12, length] (channel first), got float32"),
        (IDS.astype("f4"), "ids", "expected integers [sentences, length], got float32 of shape [5, 7]"),
        (np.zeros((2, 11, 9), "f4"), None, "expected floats [sentences, 12, length]"),
        (np.zeros((2, 12, 3), "f4"), None, "sentences of 3 tokens, the model takes 5 to 24"),
        (np.full((2, 12, 9), np.nan), None, "NaN or infinity among the values; repair or drop"),
        (np.full((2, 12, 9), 1e300), None, "NaN or infinity among the values"),
        (np.array(["a"]), None, "expected integers [sentences, length], got <U1"),
        (np.zeros(3, [("a", "i4")]), None, "expected integers [sentences, length]"),
        (np.int32(5), None, "holds no array of sentences"),
        (np.array([{}], dtype=object), None, "not a whole .npy file of plain numbers"),
    ],
)
def test_arrays_that_do_not_fit(
    run_here: Here, tmp_path: Path, values: object, kind: str | None, words: str
) -> None:
    path = saved(tmp_path, "values.npy", values)
    with pytest.raises(InputError) as failure:
        run_here("--input", path, *(["--input-format", kind] if kind else []))
    assert words in str(failure.value)
    assert str(path) in str(failure.value)


def test_the_place_of_a_bad_sentence_is_named(accel_here: Accel, tmp_path: Path) -> None:
    values = np.zeros((9, 12, 5), "f4")
    values[7, 3, 2] = np.inf
    result = accel_here("run", "--input", saved(tmp_path, "values.npy", values), "--batch", "2")
    assert result.returncode == 1
    assert "values.npy, sentences 7 to 8: NaN or infinity" in result.stderr.decode()
    assert len(rows(result.stdout)) == 6  # what stands before is answered


def raw_error(path: Path, kind: str | None, length: int | None = 6) -> str:
    with pytest.raises(AccelError) as failure:
        list(array_chunks(path, kind, 10, (12, length)))
    return str(failure.value)


def test_raw_files_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(100))
    assert "say what it holds with --input-format ids or --input-format embeddings" in raw_error(path, None)
    assert "takes sentences of any length; use a .npy file instead" in raw_error(path, "ids", None)
    assert "100 bytes are no whole number of sentences of 24 bytes each" in raw_error(path, "ids")
    assert "100 bytes are no whole number of sentences of 288 bytes each" in raw_error(path, "embeddings")


def test_kinds_do_not_mix(run_here: Here, tmp_path: Path) -> None:
    ids, values = saved(tmp_path, "a.npy", IDS), saved(tmp_path, "b.npy", np.zeros((1, 12, 9), "f4"))
    text = tmp_path / "c.txt"
    text.write_text("good\n")
    for other in (ids, text):
        with pytest.raises(UsageError, match="embeddings and other inputs do not go together; run them one"):
            run_here("--input", values, "--input", other)
    assert len(rows(run_here("--input", ids, "--input", text))) == 6  # both are tokens
    with pytest.raises(UsageError, match="token ids and embeddings have no text; choose other fields"):
        run_here("--input", ids, "--fields", "text,label")


HEADER = bytes(np.lib.format.magic(1, 0))


@settings(max_examples=120)
@given(st.data())
def test_a_damaged_npy_file_is_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = saved(tmp_path_factory.getbasetemp(), "fuzz.npy", IDS)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, 127))] = data.draw(
            st.sampled_from(b"\x00\x01\xff(),9'\" {}[]<>|iOfV-")
        )
    path.write_bytes(
        bytes(content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))])
    )
    with contextlib.suppress(InputError):
        if not holds_embeddings(path, None):
            assert all(len(chunk) <= 2 for chunk in array_chunks(path, None, 2, (12, None)))


def test_what_is_no_npy_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for content in (b"", b"text\n", HEADER, HEADER + b"\xff\xff" + b"x" * 10):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.npy is not a whole \.npy file of plain numbers"):
            holds_embeddings(path, None)
    with path.open("wb") as file:
        np.savez(file, IDS)
    with pytest.raises(InputError, match="holds no array of sentences"):
        holds_embeddings(path, None)
