"""accel bench --stages of text on a device: a block from bytes to rows. No GPU: kernels run on the CPU."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import fake_cupy
import fake_streams
import networks
import pytest

from accel_cli import text_pipeline
from accel_cli.bench import bounds_text
from accel_cli.bench.bounds_text import text_bounds
from accel_cli.bench.demand import Need
from accel_cli.bench.limits import Limits
from accel_cli.bench.text_demand import Text, text_needs
from accel_cli.bench.text_files import filled
from accel_cli.cuda import stopwatch
from accel_cli.engines import cuda
from accel_cli.engines.cpu import CpuEngine
from accel_cli.engines.cuda import CudaEngine
from accel_cli.text.blocks import FileBlocks
from accel_cli.text.rows import TextFormatter
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import SPECIAL

SPEC = networks.RAGGED
FOLDED = {**networks.FUSED, "convolution": "folded", "experts": "folded", "batch": 4, "streams": 2}
WORDS = [*SPECIAL, *b"good bad film not a the . , n't 's".split()]
LINES = [b"a good film " * 4, b"not bad , not bad , not bad , not bad", b"the film . " * 5]
MOST = Limits({"PCIe in": 1e6, "L2": 1e6, "launches": 1e3}, {})
READS = ["text_invalid", "text_lines", "text_sums", "text_marks", "text_ends"]
READS += ["text_lengths", "text_offsets", "text_lookup"]


def classifier_of(engine: Any) -> Any:
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    return SimpleNamespace(
        engine=engine,
        tokenizer=Tokenizer(vocabulary, SPEC.min_tokens, SPEC.max_tokens),
        config=SimpleNamespace(model=SPEC),
        plan=engine.plan,
        labels=SPEC.labels,
    )


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> CudaEngine:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(cuda, "Launcher", fake_cupy.Launcher)
    monkeypatch.setattr(stopwatch, "_HEAD_START", 0.0)
    monkeypatch.setattr(text_pipeline, "BLOCK_BYTES", 400)
    monkeypatch.setattr(bounds_text, "_REPEATS", 1)
    monkeypatch.setattr(bounds_text, "_EACH", 1)
    fake_streams.fake_driver(monkeypatch)
    return CudaEngine(SPEC, networks.weights_of(SPEC), networks.plan("cuda:0", **FOLDED))


def test_what_a_block_needs_by_hand() -> None:
    needs = text_needs(Text(bytes=800, lines=10, tokens=60, labels=2, rows=150, longest=17))
    moved = {name: need.demand["memory"] for name, need in needs.items() if "memory" in need.demand}
    assert moved == {
        "text_invalid": 800,
        "text_lines": 800 + 100,
        "text_marks": 800 + 300,
        "text_ends": 200 + 80,
        "text_lengths": 120 + 20,
        "text_offsets": 120,
        "text_lookup": 800 + 300 + 80 + 240 + 960,
        "text_points": 160 + 80,
        "text_rows": 80 + 150,
    }
    assert needs["text_rows"].demand["L2"] == 230
    assert needs["copies in"] == Need(0, {"PCIe in": 800})
    assert needs["copies out"] == Need(0, {"PCIe out": 170})


@pytest.mark.extras  # minutes of compiling
def test_a_block_in_turn(engine: CudaEngine) -> None:
    classifier = classifier_of(engine)
    formatter = TextFormatter("tsv", ["label", "score"], SPEC.labels)
    text = filled(LINES, 400)
    spans = engine.text_times(classifier.tokenizer, formatter, 400, text)
    rest = ["counts out", "network", "text_points", "text_sums", "text_rows", "copies out"]
    once = ["copies in", *READS, *rest[:3], *rest[4:]]
    assert list(dict.fromkeys(span.name for span in spans)) == once
    assert [span.name for span in spans][-len(rest) :] == rest
    # and the slots go on as before
    with engine.text_slots(classifier.tokenizer, formatter, 400) as slots:
        slots[0].memory[: len(text)] = text
        assert slots[0].rows(len(text)).lines == text.count(b"\n")


@pytest.mark.extras
def test_the_figures_of_a_block(engine: CudaEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_pipeline, "FileBlocks", partial(FileBlocks, limit=300))
    found = text_bounds(classifier_of(engine), LINES, 3.0, MOST)
    assert found is not None
    size = len(filled(LINES, 400))
    assert (found.unit, found.sentences) == (f"block of {size} bytes", filled(LINES, 400).count(b"\n"))
    stages = {stage.name: stage for stage in found.stages}
    assert stages["copies in"].shares == {"PCIe in": pytest.approx(size / 1e6 / 1e-3)}
    assert (stages["network"].launches, stages["network"].bound) == (0, None)
    assert stages["text_sums"].bound is not None
    assert stages["text_sums"].bound.resource == "launches"
    assert (found.streams, found.threads) == (2, 2)
    assert found.wall > 0
    assert found.host_share is not None
    assert found.host_share > 0


def test_text_is_the_host_s_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_pipeline, "BLOCK_BYTES", 400)
    cpu = CpuEngine(SPEC, networks.weights_of(SPEC), networks.plan("cpu", **networks.CPU))
    classifier = classifier_of(cpu)
    formatter = TextFormatter("tsv", ["label", "score"], SPEC.labels)
    assert cpu.text_times(classifier.tokenizer, formatter, 400, b"a good film\n") == []
    assert text_bounds(classifier, LINES, 3.0, MOST) is None
    cpu.close()


@pytest.mark.extras
def test_text_is_the_host_s_where_the_plan_asks_it_for_lengths(engine: CudaEngine) -> None:
    plan = networks.plan("cuda:0", **{**FOLDED, "convolution": "implicit"})
    implicit = CudaEngine(SPEC, networks.weights_of(SPEC), plan)
    formatter = TextFormatter("tsv", ["label", "score"], SPEC.labels)
    classifier = classifier_of(implicit)
    assert implicit.text_times(classifier.tokenizer, formatter, 400, b"a good film\n") == []
    assert text_bounds(classifier, LINES, 3.0, MOST) is None
