"""The CUDA engine on a real device: every layer, every way in, and what it does when things go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest
from conftest import needs_gpu, ours

from accel_cli.batches import Batch, EmbeddingBatch, TokenBatch
from accel_cli.classifier import Classifier
from accel_cli.engines.cuda import CudaEngine
from accel_cli.errors import AccelWarning, DeviceError
from accel_cli.model.config import ModelSpec, load_config
from accel_cli.model.reference import forward, layer_names, softmax
from accel_cli.model.weights import Weights
from accel_cli.numeric import compare
from accel_cli.pipeline import Pipeline
from accel_cli.text.readers import Source
from accel_cli.text.rows import TextFormatter

pytestmark = [pytest.mark.gpu, needs_gpu]

TOLERANCE = 1e-4
CUDA = "cuda:0"


class Case:
    """A network with its weights, and engines over it that are closed at the end."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.weights: Weights = networks.weights_of(spec)
        self._open: list[CudaEngine] = []

    def engine(self, *, embeddings: bool = False, **plan: Any) -> CudaEngine:
        engine = CudaEngine(self.spec, self.weights, networks.plan(CUDA, **plan), embeddings=embeddings)
        self._open.append(engine)
        return engine

    def batch(self, count: int, seed: int = 0) -> TokenBatch:
        return networks.sentences(self.spec, networks.lengths_of(self.spec, count, seed), seed)

    def close(self) -> None:
        for engine in self._open:
            engine.close()


@pytest.fixture(params=list(networks.NETWORKS))
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    made = Case(networks.NETWORKS[request.param])
    yield made
    made.close()


@pytest.fixture
def ragged() -> Iterator[Case]:
    made = Case(networks.SENTIMENT)
    yield made
    made.close()


def check(got: np.ndarray, expected: np.ndarray) -> None:
    difference = compare(got, expected, TOLERANCE)
    assert difference.passed, str(difference)


def check_predictions(case: Case, engine: CudaEngine, batch: Batch) -> None:
    found, expected = engine.submit(batch).result(), forward(case.spec, case.weights, batch)["logits"]
    check(found.logits, expected)
    check(found.scores, softmax(expected))
    np.testing.assert_array_equal(found.labels, found.logits.argmax(axis=1))


def test_every_layer_is_the_reference(case: Case) -> None:
    batch = case.batch(13)
    traced, expected = case.engine().trace(batch), forward(case.spec, case.weights, batch)
    assert list(traced) == layer_names(case.spec)
    for name in traced:
        difference = compare(traced[name], expected[name], TOLERANCE)
        assert difference.passed, f"{name}: {difference}"


@pytest.mark.parametrize("way", networks.WAYS.values(), ids=list(networks.WAYS))
def test_every_way_to_compute_it(case: Case, way: dict[str, Any]) -> None:
    engine, batch = case.engine(**way, batch=17, embeddings=True), case.batch(50)
    for _ in range(3):
        check_predictions(case, engine, batch)
    alone = [engine.submit(batch.rows(row, row + 1)).result().logits for row in range(0, 50, 7)]
    whole = engine.submit(batch).result().logits[::7]
    assert np.concatenate(alone).tobytes() == whole.tobytes()
    values = networks.sentences(case.spec, [case.spec.min_tokens] * 40).embedded(case.weights.embedding)
    for _ in range(3):
        check_predictions(case, engine, values)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_batches_of_any_size(case: Case, count: int) -> None:
    check_predictions(case, case.engine(), case.batch(count))


@pytest.mark.parametrize("streams", [1, 2, 5])
def test_any_number_of_slots(case: Case, streams: int) -> None:
    check_predictions(case, case.engine(streams=streams, batch=3), case.batch(50))


def test_long_sentences_beyond_the_tokens_of_a_slot(ragged: Case) -> None:
    engine = ragged.engine(batch=4)
    longest = ragged.spec.max_tokens
    check_predictions(ragged, engine, networks.sentences(ragged.spec, [longest] * 9))
    check_predictions(ragged, engine, networks.sentences(ragged.spec, [9, longest, 9, 9, longest - 1, 9]))


def test_embeddings_are_taken_as_well(case: Case) -> None:
    engine = case.engine(embeddings=True)
    for length in {case.spec.min_tokens, case.spec.max_tokens}:
        batch = networks.sentences(case.spec, [length] * 21, seed=length)
        values = batch.embedded(case.weights.embedding)
        check_predictions(case, engine, values)
        check_predictions(case, engine, batch)
        traced, expected = engine.trace(values), forward(case.spec, case.weights, values)
        assert list(traced) == layer_names(case.spec)[1:]
        for name in traced:
            check(traced[name], expected[name])


def test_a_sentence_does_not_depend_on_its_batch_to_the_bit(case: Case) -> None:
    batch = case.batch(40, seed=3)
    engine = case.engine()
    whole = engine.submit(batch).result().logits
    for index in range(len(batch)):
        alone = engine.submit(batch.rows(index, index + 1)).result().logits
        assert alone.tobytes() == whole[index : index + 1].tobytes(), f"sentence {index}"


def test_a_sentence_does_not_depend_on_its_place_to_the_bit(case: Case) -> None:
    batch = case.batch(40, seed=4)
    order = np.random.default_rng(0).permutation(40)
    expected = case.engine().submit(batch).result().logits
    for size, streams in ((1, 1), (5, 2), (64, 3)):
        found = case.engine(batch=size, streams=streams).submit(batch.take(order)).result().logits
        assert found.tobytes() == expected[order].tobytes(), f"batch {size}, streams {streams}"


def test_a_run_gives_the_same_bits_again(case: Case) -> None:
    batch = case.batch(60)
    engine = case.engine()
    first = engine.submit(batch).result()
    for _ in range(20):
        again = engine.submit(batch).result()
        assert again.logits.tobytes() == first.logits.tobytes()
        assert again.scores.tobytes() == first.scores.tobytes()


def test_tickets_may_be_collected_in_any_order(ragged: Case) -> None:
    engine = ragged.engine(batch=16)
    batches = [ragged.batch(count, seed=count) for count in (5, 40, 1, 17, 16, 33)]
    expected = [engine.submit(batch).result().logits for batch in batches]
    tickets = [engine.submit(batch) for batch in batches]
    for index in (5, 0, 3, 1, 4, 2):
        np.testing.assert_array_equal(tickets[index].result().logits, expected[index])
        np.testing.assert_array_equal(tickets[index].result().logits, expected[index])  # and again


def test_several_threads(ragged: Case) -> None:
    engine = ragged.engine(batch=16)
    batches = [ragged.batch(30, seed=seed) for seed in range(24)]
    expected = [engine.submit(batch).result().logits for batch in batches]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda batch: engine.submit(batch).result().logits, batches * 4))
    for index, logits in enumerate(found):
        np.testing.assert_array_equal(logits, expected[index % len(batches)])


def test_two_engines_beside_each_other(ragged: Case) -> None:
    first, second = ragged.engine(), ragged.engine(embeddings=True, batch=32)
    batches = [ragged.batch(20, seed=seed) for seed in range(6)]
    tickets = [(first.submit(batch), second.submit(batch)) for batch in batches]
    for one, other in tickets:
        np.testing.assert_array_equal(one.result().logits, other.result().logits)


def test_every_stage_has_its_time(case: Case) -> None:
    times = case.engine().stage_times(case.batch(8))
    assert [name for name, _ in times] == layer_names(case.spec)
    assert all(np.isfinite(seconds) and seconds >= 0 for _, seconds in times)


def test_nan_is_refused(case: Case) -> None:
    values = np.zeros((3, case.spec.embedding, case.spec.max_tokens), np.float32)
    values[1, 0, 0] = np.inf
    engine = case.engine(embeddings=True)
    with pytest.raises(DeviceError, match="NaN or infinity"):
        engine.submit(EmbeddingBatch(values)).result()
    check_predictions(case, engine, case.batch(5))  # the engine goes on


def test_the_batch_is_halved_when_memory_is_short() -> None:
    import cupy

    spec = replace(networks.SCHOOL, embedding=1024)  # 64 KiB a sentence and slot
    case = Case(spec)
    case.engine().close()  # what the context and the kernels take is taken
    free, _ = cupy.cuda.runtime.memGetInfo()
    held = cupy.cuda.Memory(free - (1 << 30))
    try:
        with pytest.warns(AccelWarning) as said:
            engine = case.engine(batch=1 << 16, streams=2)
        assert 1 <= engine.plan.batch < 1 << 16
        assert engine.plan.batch & (engine.plan.batch - 1) == 0
        [warning] = ours(said)
        assert "65536" in warning
        assert str(engine.plan.batch) in warning
        check_predictions(case, engine, case.batch(100))
    finally:
        case.close()
        del held


def test_not_even_one_sentence_fits() -> None:
    import cupy

    spec = replace(networks.RAGGED, max_tokens=1 << 20, embedding=64)  # 256 MiB a slot, whatever the batch
    case = Case(spec)
    free, _ = cupy.cuda.runtime.memGetInfo()
    held = cupy.cuda.Memory(free - (128 << 20))
    try:
        with pytest.raises(DeviceError, match="not even one sentence fits: free memory"):
            case.engine(batch=4)
    finally:
        del held
        cupy.get_default_memory_pool().free_all_blocks()
    check_predictions(case, case.engine(batch=4), networks.sentences(spec, [5, 100, 7]))


def test_a_device_that_is_not_there(tiny_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"cuda:99: there (is|are) \d+ device"):
        Classifier.load(tiny_path, device="cuda:99")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_text_becomes_rows_on_the_device_as_over_the_host(
    tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    words = [b"good", b"isn't", b"film.", b"\xff", b"\xe2\x80\x94", b"w7 \r", b"", b"w9" * 40]
    rng = np.random.default_rng(0)
    lines = [b" ".join(words[place] for place in row) for row in rng.integers(0, len(words), (1000, 9))]
    path = tmp_path / "many.txt"  # several blocks; one has more lines than there is room for
    path.write_bytes(b"\r\n".join(lines * 400) + b"\n" * 600_000 + b"the end")
    loaded = load_config(tiny_path)
    plan = loaded.plan.overridden(convolution="folded", precision=precision, batch=4096, streams=3)
    done = []
    with Classifier(replace(loaded, plan=plan), "cuda") as classifier:
        formatter = TextFormatter("jsonl", ["score", "label"], classifier.labels)
        for _ in range(2):
            rows: list[bytes] = []
            summary = Pipeline(classifier, formatter, rows.append).run([Source(str(path))])
            summary.seconds = 0.0
            done.append((b"".join(rows), summary))
            assert any(classifier.engine._texts._slots.values())  # from the first run, on the device
            monkeypatch.setattr(CudaEngine, "text_slots", lambda *_: nullcontext([]))
    assert done[0] == done[1]


def test_classifier(tiny_path: Path) -> None:
    texts = ["a good film", "not a bad film", "", "the film isn't good " * 40, "ünïcödé"] * 20
    with (
        Classifier.load(tiny_path, device="cuda", precision="fp32", batch=7) as cuda,
        Classifier.load(tiny_path, device="cpu") as cpu,
    ):
        found, expected = cuda.predict(texts), cpu.predict(texts)
        assert len(cuda.predict([])) == 0
        assert cuda.plan.device == CUDA
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(cuda.predict, [texts] * 8))
    check(found.logits, expected.logits)
    assert found.labels.tolist() == expected.labels.tolist()
    assert all(other.logits.tobytes() == found.logits.tobytes() for other in together)
