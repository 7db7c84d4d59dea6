"""The CUDA engine's own work (slots, cutting, order, memory, errors) over a fake CuPy without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fake_cupy
import fake_streams
import networks
import numpy as np
import pytest
from conftest import ours
from host_cuda.runner import HostRunner

from accel_cli.batches import Batch, EmbeddingBatch
from accel_cli.cuda.buffers import Mirror
from accel_cli.cuda.errors import DeviceFull, DeviceLost, translated
from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine
from accel_cli.errors import AccelWarning, DeviceError
from accel_cli.kernels.base import Launch
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward, layer_names, softmax
from accel_cli.numeric import compare


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(cuda, "Launcher", fake_cupy.Launcher)
    monkeypatch.setattr(fake_cupy.DeviceMemory, "limit", 1 << 40)
    yield module
    assert fake_cupy.DeviceMemory.held() == 0, "device memory is held by somebody"


@pytest.fixture(params=["ragged", "school", "smallest"])
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    return networks.NETWORKS[request.param]


def engine_of(spec: ModelSpec, *, embeddings: bool = False, **keys: Any) -> CudaEngine:
    return CudaEngine(spec, networks.weights_of(spec), networks.plan("cuda:0", **keys), embeddings=embeddings)


def batch_of(spec: ModelSpec, count: int, seed: int = 0) -> Any:
    return networks.sentences(spec, networks.lengths_of(spec, count, seed), seed)


def check(got: np.ndarray, expected: np.ndarray) -> None:
    difference = compare(got, expected, 1e-4)
    assert difference.passed, str(difference)


def check_predictions(engine: CudaEngine, spec: ModelSpec, batch: Batch) -> None:
    found = engine.submit(batch).result()
    expected = forward(spec, networks.weights_of(spec), batch)["logits"]
    check(found.logits, expected)
    check(found.scores, softmax(expected))
    np.testing.assert_array_equal(found.labels, expected.argmax(axis=1))


def test_every_layer_is_the_reference(spec: ModelSpec) -> None:
    batch = batch_of(spec, 21)
    traced, expected = engine_of(spec).trace(batch), forward(spec, networks.weights_of(spec), batch)
    assert list(traced) == layer_names(spec)
    for name in traced:
        check(traced[name], expected[name])


@pytest.mark.parametrize("count", [1, 7, 8, 9, 50])
@pytest.mark.parametrize("streams", [1, 3])
def test_batches_of_any_size(spec: ModelSpec, count: int, streams: int) -> None:
    check_predictions(engine_of(spec, streams=streams), spec, batch_of(spec, count))


def test_embeddings(spec: ModelSpec) -> None:
    engine = engine_of(spec, embeddings=True, batch=4)
    for length in {spec.min_tokens, spec.max_tokens}:
        batch = networks.sentences(spec, [length] * 11, seed=length)
        values = batch.embedded(networks.weights_of(spec).embedding)
        check_predictions(engine, spec, values)
        check_predictions(engine, spec, batch)
        traced, expected = engine.trace(values), forward(spec, networks.weights_of(spec), values)
        assert list(traced) == layer_names(spec)[1:]
        for name in traced:
            check(traced[name], expected[name])


def test_long_sentences_beyond_the_tokens_of_a_slot() -> None:
    spec = networks.SENTIMENT
    engine = engine_of(spec, batch=4)
    check_predictions(engine, spec, networks.sentences(spec, [256] * 5))
    check_predictions(engine, spec, networks.sentences(spec, [9, 256, 9, 9, 255, 9, 128, 128, 9]))
    alone = networks.sentences(spec, [256] * 3).embedded(networks.weights_of(spec).embedding)
    check_predictions(engine_of(spec, batch=2, embeddings=True), spec, alone)


@pytest.mark.parametrize("lengths", [[256] * 9, [9] * 9, [9, 256] * 5, [64, 65, 64, 63, 64, 256]])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_parts_fit_their_slots_and_leave_nothing_out(lengths: list[int], size: int) -> None:
    engine = engine_of(networks.SENTIMENT, batch=size)
    batch = networks.sentences(networks.SENTIMENT, lengths)
    parts = list(engine._parts(batch))
    assert all(1 <= len(part) <= size for part in parts)
    assert all(part.offsets[0] == 0 and len(part.ids) <= engine._room.tokens for part in parts)
    np.testing.assert_array_equal(np.concatenate([part.ids for part in parts]), batch.ids)
    np.testing.assert_array_equal(np.concatenate([part.lengths for part in parts]), batch.lengths)


def test_tickets_may_be_collected_in_any_order_and_twice() -> None:
    spec = networks.RAGGED
    engine = engine_of(spec)
    batches = [batch_of(spec, count, seed=count) for count in (5, 40, 1, 17, 16, 33)]
    tickets = [engine.submit(batch) for batch in batches]
    for index in (5, 0, 3, 1, 4, 2, 5, 0):
        expected = forward(spec, networks.weights_of(spec), batches[index])["logits"]
        check(tickets[index].result().logits, expected)


def test_several_threads() -> None:
    spec = networks.RAGGED
    engine = engine_of(spec)
    batches = [batch_of(spec, 11, seed=seed) for seed in range(16)]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda batch: engine.submit(batch).result().logits, batches))
    for batch, logits in zip(batches, found, strict=True):
        check(logits, forward(spec, networks.weights_of(spec), batch)["logits"])


def test_nothing_is_allocated_while_batches_run(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = networks.RAGGED
    engine = engine_of(spec)
    for name in ("empty", "asarray"):
        monkeypatch.setattr(cupy, name, lambda *_: pytest.fail("allocated"))
    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", lambda *_: pytest.fail("allocated"))
    check_predictions(engine, spec, batch_of(spec, 50))


def test_what_the_device_holds_is_not_copied_again(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, stream = Mirror(600, "int32"), cupy.cuda.Stream()
    memory, copies = type(mirror.device.data), list[int]()
    copy = memory.copy_from_host_async
    monkeypatch.setattr(
        memory, "copy_from_host_async", lambda *given: (copies.append(given[2]), copy(*given))[1]
    )
    for values in (np.arange(3), np.arange(3), np.arange(9), np.arange(3), np.zeros(600), np.arange(3)):
        sent = mirror.upload(values.astype(np.int32), stream)
        stream.synchronize()
        assert cupy.asnumpy(sent).tolist() == values.tolist()
    assert copies == [12, 36, 12, 2400, 12]


def test_every_stage_has_its_time_over_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_streams.fake_driver(monkeypatch)
    engine = engine_of(networks.SENTIMENT, batch=4)
    batch = networks.sentences(networks.SENTIMENT, [256] * 3)  # three parts
    times = engine.stage_times(batch)
    assert [name for name, _ in times] == layer_names(networks.SENTIMENT)
    assert [seconds for _, seconds in times] == pytest.approx([3e-3] * len(times))


def test_nan_is_refused() -> None:
    spec = networks.RAGGED
    engine = engine_of(spec, embeddings=True)
    values = np.zeros((9, spec.embedding, 7), np.float32)
    values[8, 0, 0] = np.nan
    with pytest.raises(DeviceError, match="NaN or infinity; check the input embeddings and the weights"):
        engine.submit(EmbeddingBatch(values)).result()
    check_predictions(engine, spec, batch_of(spec, 5))


def bytes_of(spec: ModelSpec, batch: int) -> int:
    """What an engine with slots for `batch` sentences takes."""
    before = fake_cupy.DeviceMemory.held()
    engine = engine_of(spec, batch=batch)
    return fake_cupy.DeviceMemory.taken - before + 0 * len(engine._slots)


def test_a_batch_that_does_not_fit_is_halved_once_said_and_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = networks.SCHOOL
    monkeypatch.setattr(fake_cupy.DeviceMemory, "limit", bytes_of(spec, 16) + 100)
    with pytest.warns(AccelWarning) as said:
        engine = engine_of(spec, batch=100)
    assert engine.plan.batch == 12
    check_predictions(engine, spec, batch_of(spec, 40))
    assert ours(said) == [
        "the device has no memory for a batch of 100; going on with 12. Say `--batch 12` to start with that"
    ]


def test_pinned_memory_that_is_full_halves_the_batch_too(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def alloc(size: int) -> bytearray:
        if size > 16 * 16 * 4:
            raise fake_cupy.CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
        return bytearray(size)

    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", alloc)
    with pytest.warns(AccelWarning, match="going on with 16"):
        engine = engine_of(networks.SCHOOL, batch=64)
    assert engine.plan.batch == 16
    check_predictions(engine, networks.SCHOOL, batch_of(networks.SCHOOL, 40))


def test_not_even_one_sentence_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = networks.SENTIMENT
    monkeypatch.setattr(fake_cupy.DeviceMemory, "limit", bytes_of(spec, 1) - 100)
    with pytest.raises(DeviceError) as caught:
        engine_of(spec, batch=8)
    assert "memory is full while allocating 3 slots of 1 sentences" in str(caught.value)
    assert "not even one sentence fits: free memory on the device" in str(caught.value)


def test_weights_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_cupy.DeviceMemory, "limit", 1000)
    with pytest.raises(DeviceError, match="memory is full while loading the weights"):
        engine_of(networks.SCHOOL)


def test_a_lost_device_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> None:
        raise fake_cupy.CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    engine = engine_of(networks.RAGGED)
    monkeypatch.setattr(fake_cupy.Stream, "synchronize", lost)
    monkeypatch.setattr(fake_cupy.Event, "synchronize", lost)
    ticket = engine.submit(batch_of(networks.RAGGED, 5))
    with pytest.raises(DeviceLost) as caught:
        ticket.result()
    for words in (
        "CUDA failed while waiting for a batch",
        "IllegalAddress",
        "Start accel again",
        "--device cpu",
    ):
        assert words in str(caught.value)
    engine.close()  # says nothing more


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (fake_cupy.OutOfMemoryError("Out of memory allocating 5 bytes"), DeviceFull),
        (fake_cupy.CUDARuntimeError("cudaErrorMemoryAllocation: out of memory"), DeviceFull),
        (fake_cupy.CUDADriverError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"), DeviceFull),
        (fake_cupy.CUDADriverError("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"), DeviceLost),
        (ValueError("own"), ValueError),
    ],
)
def test_errors_are_translated(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind), translated("testing"):
        raise error


def test_an_engine_for_tokens_refuses_embeddings() -> None:
    spec = networks.RAGGED
    engine = engine_of(spec)
    with pytest.raises(DeviceError, match="no room for embeddings"):
        engine.submit(EmbeddingBatch(np.zeros((2, spec.embedding, 7), np.float32)))


class HostLauncher(fake_cupy.Launcher):
    """The kernels of kernels_cu/ themselves, compiled for this machine's CPU."""

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        fake_cupy.Stream.current().queue.append(lambda: HostRunner()(launch, *arguments))


@pytest.mark.parametrize("embeddings", [True, False])
def test_the_real_kernels_compute_the_reference(monkeypatch: pytest.MonkeyPatch, embeddings: bool) -> None:
    monkeypatch.setattr(cuda, "Launcher", HostLauncher)
    spec = networks.RAGGED
    engine = engine_of(spec, embeddings=True)
    batch: Any = networks.sentences(spec, [9] * 3 if embeddings else [5, 24, 7])
    if embeddings:
        batch = batch.embedded(networks.weights_of(spec).embedding)
    traced, expected = engine.trace(batch), forward(spec, networks.weights_of(spec), batch)
    assert list(traced) == layer_names(spec)[int(embeddings) :]
    for name in traced:
        check(traced[name], expected[name])
