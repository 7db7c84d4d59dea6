"""The CPU engine: every plan against the reference, and a sentence's independence of its batch."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import networks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.batches import Batch, EmbeddingBatch, TokenBatch
from accel_cli.engines import cpu_convolution
from accel_cli.engines.cpu import CpuEngine
from accel_cli.engines.cpu_convolution import FoldedConvolution, product
from accel_cli.errors import DeviceError
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward, layer_names, softmax
from accel_cli.numeric import compare

TOLERANCE = 1e-4
PLANS = [(c, e) for c in ("folded", "im2col") for e in ("folded", "separate")]


@pytest.fixture(params=list(networks.NETWORKS))
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    return networks.NETWORKS[request.param]


@pytest.fixture(params=PLANS, ids=lambda plan: "-".join(plan))
def engine(request: pytest.FixtureRequest, spec: ModelSpec) -> Iterator[CpuEngine]:
    made = engine_of(spec, convolution=request.param[0], experts=request.param[1])
    yield made
    made.close()


def engine_of(spec: ModelSpec, **keys: Any) -> CpuEngine:
    return CpuEngine(spec, networks.weights_of(spec), networks.plan("cpu", **keys))


def ragged(spec: ModelSpec, count: int, seed: int = 0) -> TokenBatch:
    return networks.sentences(spec, networks.lengths_of(spec, count, seed), seed)


def check(got: np.ndarray, expected: np.ndarray, what: str = "", tolerance: float = TOLERANCE) -> None:
    difference = compare(got, expected, tolerance)
    assert difference.passed, f"{what} {difference}"


def check_predictions(engine: CpuEngine, spec: ModelSpec, batch: Batch) -> None:
    found = engine.submit(batch).result()
    expected = forward(spec, networks.weights_of(spec), batch)["logits"]
    check(found.logits, expected)
    check(found.scores, softmax(expected))
    assert (found.logits.dtype, found.scores.dtype, found.labels.dtype) == (np.float32, np.float32, np.int32)
    np.testing.assert_array_equal(found.labels, expected.argmax(axis=1))


def test_every_layer_is_the_reference(engine: CpuEngine, spec: ModelSpec) -> None:
    batch = ragged(spec, 13)
    traced, expected = engine.trace(batch), forward(spec, networks.weights_of(spec), batch)
    fused = {"embedding", *(f"convolution.{k}" for k in spec.widths)}
    if engine.plan.experts == "folded":
        fused.add("experts")
    assert list(traced) == [name for name in layer_names(spec) if name not in fused]
    for name in traced:
        check(traced[name], expected[name], name)


@pytest.mark.parametrize("count", [1, 64, 65, 130])
def test_batches_of_any_size(spec: ModelSpec, count: int) -> None:
    engine = engine_of(spec)
    check_predictions(engine, spec, ragged(spec, count))
    engine.close()


@pytest.mark.parametrize("experts", ["folded", "separate"])
def test_embeddings_are_taken_as_well(spec: ModelSpec, experts: str) -> None:
    engine = engine_of(spec, convolution="im2col", experts=experts)
    for length in {spec.min_tokens, spec.max_tokens}:
        batch = networks.sentences(spec, [length] * 4, seed=length)
        values = batch.embedded(networks.weights_of(spec).embedding)
        check_predictions(engine, spec, values)
        check(engine.submit(values).result().logits, engine.submit(batch).result().logits, tolerance=1e-6)
    engine.close()


def test_a_sentence_does_not_depend_on_its_batch(engine: CpuEngine, spec: ModelSpec) -> None:
    batch = ragged(spec, 40, seed=3)
    whole = engine.submit(batch).result()
    order = np.random.default_rng(0).permutation(40)
    moved = engine.submit(batch.take(order)).result()
    check(moved.scores, whole.scores[order], tolerance=1e-6)
    np.testing.assert_array_equal(moved.labels, whole.labels[order])
    for index in range(0, 40, 3):
        alone = engine.submit(batch.rows(index, index + 1)).result()
        check(alone.scores, whole.scores[index : index + 1], tolerance=1e-6)
        assert alone.labels[0] == whole.labels[index]


@settings(max_examples=10, deadline=None)
@given(
    lengths=st.lists(st.integers(9, 256), min_size=1, max_size=150),
    streams=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_any_lengths_in_any_order(lengths: list[int], streams: int, seed: int) -> None:
    batch = networks.sentences(networks.SENTIMENT, lengths, seed)
    found = SHARED.submit(batch).result().scores
    own = engine_of(networks.SENTIMENT, streams=streams)
    check(own.submit(batch).result().scores, found, tolerance=1e-6)
    own.close()
    for index in {0, len(lengths) // 2, len(lengths) - 1}:
        alone = SHARED.submit(batch.rows(index, index + 1)).result().scores[0]
        check(alone, found[index], tolerance=1e-6)


SHARED = engine_of(networks.SENTIMENT)


def test_sentences_of_very_different_lengths() -> None:
    spec = replace(networks.SENTIMENT, max_tokens=3000)
    engine = engine_of(spec)
    check_predictions(engine, spec, networks.sentences(spec, [9, 3000, 9, 10, 9, 2999, 500, 9] + [9] * 90))
    engine.close()


def test_many_filters_make_chunks_of_one() -> None:
    spec = replace(networks.RAGGED, filters=cpu_convolution._CACHED // 8, embedding=1, experts=1)
    engine = engine_of(spec)
    check_predictions(engine, spec, ragged(spec, 5))
    engine.close()


@given(st.lists(st.integers(9, 60), min_size=1, max_size=200), st.integers(1, 2000))
def test_chunks_are_full_and_hold_no_more_than_they_may(lengths: list[int], tokens: int) -> None:
    offsets = np.cumsum([0, *lengths], dtype=np.int32)
    chunks = list(cpu_convolution._chunks(offsets, tokens))
    assert [place for start, stop in chunks for place in range(start, stop)] == list(range(len(lengths)))
    for start, stop in chunks:
        assert sum(lengths[start:stop]) <= tokens or stop - start == 1
        assert stop == len(lengths) or sum(lengths[start : stop + 1]) > tokens


def test_a_few_sentences_of_many_lengths_are_summed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few calls of numpy: each costs as much as a sentence, and a turn at the interpreter's lock."""
    pooled: list[int] = []
    pool = FoldedConvolution._pool

    def counted(*arguments: Any) -> None:
        pooled.append(len(arguments[3]))
        pool(*arguments)

    monkeypatch.setattr(FoldedConvolution, "_pool", counted)
    spec = networks.SENTIMENT
    engine = engine_of(spec)
    check_predictions(engine, spec, networks.sentences(spec, list(range(9, 41))))
    engine.close()
    assert pooled == [32]


def test_tickets_may_be_collected_in_any_order_and_twice() -> None:
    batches = [ragged(networks.SENTIMENT, count, seed=count) for count in (5, 200, 1, 90)]
    expected = [SHARED.submit(batch).result().logits for batch in batches]
    tickets = [SHARED.submit(batch) for batch in batches]
    for index in (3, 0, 2, 1, 1):
        np.testing.assert_array_equal(tickets[index].result().logits, expected[index])


def test_several_threads_at_once() -> None:
    engine = engine_of(networks.SENTIMENT, streams=2)
    batches = [ragged(networks.SENTIMENT, 30, seed=seed) for seed in range(8)]
    with ThreadPoolExecutor(6) as threads:  # on empty tables, so that they meet in making rows
        found = list(threads.map(lambda batch: engine.submit(batch).result().scores, batches * 4))
    for index, scores in enumerate(found):
        check(scores, SHARED.submit(batches[index % 8]).result().scores, tolerance=1e-6)
    engine.close()


def test_table_rows_are_made_when_a_word_turns_up_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = networks.RAGGED
    weights = networks.weights_of(spec)
    made: list[int] = []

    def counted(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        made.append(len(rows))
        return product(rows, matrix)

    monkeypatch.setattr(cpu_convolution, "product", counted)
    convolution = FoldedConvolution(spec, weights)
    assert made == []
    words = np.array([7, 7, 9, 11, 7], np.int32)
    offsets = np.array([0, 5], np.int32)
    convolution.features(TokenBatch(words, offsets))
    assert made == [3]
    convolution.features(TokenBatch(words[::-1].copy(), offsets))
    assert made == [3]
    convolution.features(TokenBatch(np.array([7, 12, 9, 13, 12], np.int32), offsets))
    assert made == [3, 2]


def test_threads_make_each_table_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = networks.SENTIMENT
    made: list[int] = []
    monkeypatch.setattr(
        cpu_convolution, "product", lambda rows, matrix: made.append(len(rows)) or product(rows, matrix)
    )
    convolution = FoldedConvolution(spec, networks.weights_of(spec))
    every = networks.sentences(spec, [250, 250])
    every = TokenBatch(np.arange(500, dtype=np.int32), every.offsets)
    barrier = threading.Barrier(4)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: barrier.wait() is None or convolution.features(every), range(4)))
    assert sum(made) == 500


def test_no_memory_for_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = networks.weights_of(networks.RAGGED)

    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "empty", full)
    with pytest.raises(DeviceError, match=r"no memory for the folded tables \(.* GiB\).*convolution: im2col"):
        FoldedConvolution(networks.RAGGED, weights)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_nan_and_infinity_are_refused_without_noise(bad: float) -> None:
    spec = networks.RAGGED
    values = np.ones((200, spec.embedding, 9), np.float32)
    values[150] = bad
    engine = engine_of(spec, convolution="im2col")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeviceError, match="NaN or infinity; check the input embeddings and the weights"):
            engine.submit(EmbeddingBatch(values)).result()
    check_predictions(engine, spec, ragged(spec, 3))
    engine.close()


def test_an_engine_for_tokens_refuses_embeddings() -> None:
    values = np.zeros((2, networks.SENTIMENT.embedding, 9), np.float32)
    with pytest.raises(DeviceError, match="folded tables take no embeddings"):
        SHARED.submit(EmbeddingBatch(values)).result()


def test_every_stage_has_its_time(engine: CpuEngine, spec: ModelSpec) -> None:
    batch = ragged(spec, 5)
    times = engine.stage_times(batch)
    assert [name for name, _ in times] == list(engine.trace(batch))
    assert all(seconds >= 0 for _, seconds in times)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 100), inner=st.integers(1, 40), columns=st.integers(1, 40), first=st.integers(0, 99)
)
def test_a_row_of_a_product_hardly_depends_on_the_others(
    rows: int, inner: int, columns: int, first: int
) -> None:
    random = np.random.default_rng(rows * 41 + inner)
    left = random.normal(size=(rows, inner)).astype(np.float32)
    right = random.normal(size=(inner, columns)).astype(np.float32)
    whole = product(left, right)
    assert whole.shape == (rows, columns)
    np.testing.assert_allclose(whole, left.astype(np.float64) @ right, rtol=1e-4, atol=1e-5)
    first %= rows
    check(product(left[first:], right), whole[first:], tolerance=1e-5)
