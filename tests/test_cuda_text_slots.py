"""Text on a device, from bytes to rows, without a GPU: the engine's kernels run on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_cupy
import networks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli import text_pipeline
from accel_cli.classifier import Classifier
from accel_cli.engines import cuda, cuda_text_slots
from accel_cli.engines.cuda import CudaEngine
from accel_cli.errors import AccelWarning, DeviceError
from accel_cli.kernels.text_points import MOST_LABELS
from accel_cli.model.config import ModelSpec
from accel_cli.pipeline import Pipeline, Summary
from accel_cli.text.blocks import FileBlocks
from accel_cli.text.chunks import TextChunk
from accel_cli.text.readers import Source
from accel_cli.text.rows import TextFormatter
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import SPECIAL

SPEC = networks.RAGGED
FOLDED = {**networks.FUSED, "convolution": "folded", "experts": "folded", "batch": 40, "streams": 2}
LIMIT, SIZE = 300, 2000
WORDS = b"good bad film not a the . , n't 's".split()
VOCABULARY = {word: place for place, word in enumerate([*SPECIAL, *WORDS])}


@pytest.fixture(scope="module", autouse=True)
def cupy() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        module = fake_cupy.module()
        patch.setitem(sys.modules, "cupy", module)
        patch.setattr(cuda, "Launcher", fake_cupy.Launcher)
        patch.setattr(text_pipeline, "BLOCK_BYTES", SIZE)
        patch.setattr(text_pipeline, "FileBlocks", partial(FileBlocks, limit=LIMIT))
        yield module


def classifier_of(engine: CudaEngine, spec: ModelSpec = SPEC) -> Any:
    found = SimpleNamespace(
        engine=engine,
        tokenizer=Tokenizer(VOCABULARY, spec.min_tokens, spec.max_tokens),
        config=SimpleNamespace(model=spec),
        plan=engine.plan,
        labels=spec.labels,
    )
    found.read, found.submit = partial(Classifier.read, found), partial(Classifier.submit, found)
    return found


def engine_of(spec: ModelSpec = SPEC, **keys: Any) -> CudaEngine:
    return CudaEngine(spec, networks.weights_of(spec), networks.plan("cuda:0", **{**FOLDED, **keys}))


@pytest.fixture(scope="module")
def engine() -> CudaEngine:
    return engine_of()


def run(engine: CudaEngine, path: Path, layout: str = "tsv", **options: Any) -> tuple[bytes, Summary]:
    out: list[bytes] = []
    formatter = TextFormatter(layout, ["label", "score"], SPEC.labels)
    summary = Pipeline(classifier_of(engine), formatter, out.append, **options).run([Source(str(path))])
    summary.seconds = 0
    return b"".join(out), summary


def check_both_ways(engine: CudaEngine, path: Path, layout: str = "tsv") -> None:
    found = run(engine, path, layout)
    assert any(engine._texts._slots.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaEngine, "text_slots", lambda *_: nullcontext([]))
        assert found == run(engine, path, layout)


UNITS = [
    *WORDS,
    b" ",
    b"\n",
    b"\r\n",
    b"\xff",
    b"\xe2\x80\x99",
    b"\xe2\x80\x94 ",
    b"\xf0\x9f\x98\x80",
    b"\n\n",
]
soup = st.lists(st.sampled_from(UNITS), min_size=1, max_size=150).map(b" ".join)


@pytest.mark.extras  # minutes of compiling
@settings(max_examples=2)
@given(soup, st.sampled_from(["tsv", "csv", "jsonl"]))
def test_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, engine: CudaEngine, data: bytes, layout: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "soup.txt"
    path.write_bytes(b"\n".join(line[:LIMIT] for line in data.split(b"\n")))
    check_both_ways(engine, path, layout)


@pytest.mark.extras
@pytest.mark.parametrize(
    "text",
    [
        b"\n" * 70 + b"\xff a film n't\r\n" * 20,  # more lines than a block has room for
        b"a good film , not bad\n" * 80 + b"a" * LIMIT + b"\n" + b"film " * 50 + b"\n" + b"the end",
    ],
    ids=["short lines", "two blocks"],
)
def test_texts(engine: CudaEngine, tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(text)
    check_both_ways(engine, path)


@pytest.mark.extras
def test_a_slot_goes_on_with_other_texts(engine: CudaEngine) -> None:
    """The first run of a batch loads its kernels, the second is captured as a graph, the third replays it."""
    classifier = classifier_of(engine)
    formatter = TextFormatter("tsv", ["score", "label"], SPEC.labels)
    with engine.text_slots(classifier.tokenizer, formatter, SIZE) as slots:
        for words in ([b"good", b"film"], [b"not", b"bad"], [b"a", b"the", b"."]):
            lines = [b" ".join(words * (number % 5 + 1)) for number in range(43)]
            text = b"\n".join(lines)
            slots[0].memory[: len(text)] = text
            found = engine.submit(classifier.tokenizer.encode(lines).batch).result()
            assert slots[0].rows(len(text)).rows == formatter.rows(TextChunk([], 1), found)


@pytest.mark.extras
def test_a_network_in_half_precision(tmp_path: Path) -> None:
    spec = replace(SPEC, filters=16)
    path = tmp_path / "in.txt"
    path.write_bytes(b"a good film.\nnot the film , bad\n\n" * 9)
    check_both_ways(engine_of(spec, precision="fp16", gemm="mma"), path)


@pytest.mark.extras
def test_a_network_for_sentences_of_one_length(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"a good film.\nnot the film , bad\n\n" * 9)
    check_both_ways(engine_of(networks.SCHOOL, launch="graph"), path)


@pytest.mark.extras
def test_nan_is_refused(tmp_path: Path) -> None:
    weights = networks.weights_of(SPEC)
    layer = weights.fully_connected[-1]
    broken = replace(layer, bias=np.full_like(layer.bias, np.inf))
    weights = replace(weights, fully_connected=(*weights.fully_connected[:-1], broken))
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\n")
    with pytest.raises(DeviceError, match="NaN or infinity; check the input embeddings and the weights"):
        run(CudaEngine(SPEC, weights, networks.plan("cuda:0", **FOLDED)), path)


def slots(engine: CudaEngine, fields: tuple[str, ...] = ("label",)) -> Any:
    tokenizer = classifier_of(engine).tokenizer
    with engine.text_slots(tokenizer, TextFormatter("tsv", fields, SPEC.labels), SIZE) as found:
        return found


class NoKernels(fake_cupy.Launcher):
    """Runs none."""

    def __call__(self, launch: Any, *arguments: Any) -> None: ...


@pytest.fixture
def _no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "Launcher", NoKernels)


@pytest.mark.usefixtures("_no_kernels")
def test_slots_are_for_plans_that_need_no_lengths_and_for_rows_of_label_and_score() -> None:
    assert len(slots(engine_of())) == 2
    assert slots(engine_of(convolution="implicit")) == []
    assert slots(engine_of(allocation="per_call")) == []
    assert slots(engine_of(copies="pageable")) == []
    assert slots(engine_of(), ("label", "text")) == []


@pytest.mark.usefixtures("_no_kernels")
def test_more_labels_than_can_be_counted_go_over_the_host() -> None:
    labels = tuple(map(str, range(MOST_LABELS + 1)))
    spec = replace(SPEC, labels=labels, fully_connected=(7, len(labels)))
    assert slots(engine_of(spec)) == []


@pytest.mark.usefixtures("_no_kernels")
def test_memory_that_is_short_is_said_and_the_host_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of()
    monkeypatch.setattr(fake_cupy.DeviceMemory, "limit", fake_cupy.DeviceMemory.held() + 1000)
    with pytest.warns(
        AccelWarning, match="allocating 2 blocks of 2000 bytes of text.*the host finds the words"
    ):
        assert slots(engine) == []
    monkeypatch.setattr(fake_cupy.DeviceMemory, "limit", 1 << 40)
    assert len(slots(engine)) == 2


@pytest.mark.usefixtures("_no_kernels")
def test_after_an_error_what_was_begun_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    [slot, _] = slots(engine_of())
    done: list[bool] = []

    def tokenize(text: Any, size: int) -> None:
        slot._network.stream.enqueue(lambda: done.append(True))
        raise DeviceError("no kernel")

    monkeypatch.setattr(slot._network, "_tokenize", tokenize)
    with pytest.raises(DeviceError, match="no kernel"):
        slot.rows(3)
    assert done == [True]


@pytest.mark.usefixtures("_no_kernels")
def test_many_labels_leave_room_for_fewer_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_text_slots, "_MOST_VALUES", 16)
    [slot, _] = slots(engine_of(batch=1))
    assert slot._work.lines == 8


@pytest.mark.usefixtures("_no_kernels")
def test_slots_are_kept_for_the_next_one_and_never_shared() -> None:
    engine = engine_of()
    tokenizer, formatters = (
        classifier_of(engine).tokenizer,
        [TextFormatter("tsv", ["label"], "ab") for _ in "12"],
    )
    with engine.text_slots(tokenizer, formatters[0], SIZE) as first:
        pass
    assert any(tokenizer in key for key in engine._texts._slots)  # or its id could become another one's
    with engine.text_slots(tokenizer, formatters[1], SIZE) as second:
        assert second is first
        with engine.text_slots(tokenizer, formatters[0], SIZE) as other:
            assert other is not first
    with engine.text_slots(tokenizer, formatters[0], SIZE):
        engine.close()
    assert engine._texts._slots == {}
