"""Lists of lines through the CUDA engine, as text and as tokens: the same, to the bit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fake_cupy
import numpy as np
import pytest
from conftest import needs_gpu, ours
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tokenizer import pieces
from text_engine import SumOfIds, classifier_of, fake_texts

from accel_cli import classifier as classifiers
from accel_cli.batches import TextBatch, TextPredictions
from accel_cli.classifier import Classifier
from accel_cli.cuda.errors import DeviceFull
from accel_cli.engines import cuda, cuda_text_reader
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.cuda_text_reader import text_size
from accel_cli.errors import AccelWarning, DeviceError, UsageError
from accel_cli.text.tokenizer import Encoded, Tokenizer

LINES = [b"good film", b"", b"not\nbad\r", b"it 's \x00\xff w5", b"a", b"the film " * 40, b"\r\n", b"w9,w8"]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device finds the words of any text, however short."""
    monkeypatch.setattr(classifiers, "SHORT", 0)


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with fake_texts() as patched:
        yield patched


def both_ways(made: Classifier, lines: Sequence[bytes]) -> tuple[TextPredictions, TextPredictions]:
    """What is found of lines as text, and as tokens."""
    read = made.read(lines)
    assert isinstance(read, TextBatch)
    return made.submit(read).result(), made.submit(made.tokenizer.encode(lines)).result()


def check_same(found: TextPredictions, wanted: TextPredictions) -> None:
    for name in ("logits", "scores", "labels", "lengths", "truncated", "blank"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert one.dtype == other.dtype, name
        assert one.shape == other.shape, name
        assert one.tobytes() == other.tobytes(), name


@given(st.lists(st.one_of(st.sampled_from(LINES), pieces, st.binary(max_size=40)), min_size=1, max_size=40))
@settings(max_examples=50)
def test_any_lines(tiny_path: Path, lines: list[bytes]) -> None:
    with fake_texts() as patch:
        patch.setattr(cuda_text_reader, "_BYTES_EACH", 1)  # a slot has room for one long line
        check_same(*both_ways(classifier_of(tiny_path), lines))


def test_a_sentence_longer_than_a_slot(tiny_path: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cuda_text_reader, "_BYTES_EACH", 1)
    made = classifier_of(tiny_path)
    limit = made.tokenizer.max_bytes
    lines = [b" " * (limit + more) + b"\r" * 3 + b"good " * 2 * limit for more in range(-4, 2)]
    lines += [b"w5" + b"\r" * (limit + more) for more in range(-3, 2)]
    check_same(*both_ways(made, lines))


def test_batches_are_under_way_side_by_side(tiny_path: Path, patch: pytest.MonkeyPatch) -> None:
    """As many as there are slots; tickets may be collected in any order, and a slot may be needed again."""
    made = classifier_of(tiny_path)
    parts = [LINES[:3], LINES[3:], LINES, LINES[::-1], LINES * 3]
    tickets = [made.submit(made.read(part)) for part in parts]
    for part, ticket in list(zip(parts, tickets, strict=True))[::-1]:
        check_same(ticket.result(), made.submit(made.tokenizer.encode(part)).result())
        assert ticket.result().labels.tolist() == ticket.result().labels.tolist()


def test_starting_a_batch_waits_for_nothing(tiny_path: Path, patch: pytest.MonkeyPatch) -> None:
    made = classifier_of(tiny_path)
    computed: list[int] = []
    patch.setattr(SumOfIds, "__call__", lambda self, part, *_: computed.append(len(part)))
    for lines in (LINES[:2], LINES[:3]):
        made.submit(made.read(lines))
    assert computed == [2, 3]  # enqueued
    reader = made.engine.text_reader(made.tokenizer)
    assert isinstance(reader, cuda_text_reader.CudaTextReader)
    assert all(slot._network.stream.queue for slot in reader._slots)  # and nothing was waited for


@pytest.mark.parametrize("read", [Classifier.read, lambda made, lines: made.tokenizer.encode(lines)])
def test_a_thread_that_waits_holds_up_no_other(
    tiny_path: Path, patch: pytest.MonkeyPatch, read: Callable[[Classifier, list[bytes]], TextBatch | Encoded]
) -> None:
    made, wait = classifier_of(tiny_path), fake_cupy.Event.synchronize
    batch = read(made, LINES)
    ticket, started = made.submit(batch), []

    def start_another(event: Any) -> None:
        if not started:
            started.append(threads.submit(made.submit, batch).result(timeout=60))
        wait(event)

    with ThreadPoolExecutor(1) as threads:
        patch.setattr(fake_cupy.Event, "synchronize", start_another)
        check_same(ticket.result(), started[0].result())


def test_threads_that_predict_at_once(tiny_path: Path, patch: pytest.MonkeyPatch) -> None:
    made = classifier_of(tiny_path)
    lists = [LINES * times for times in (1, 2, 3, 5)]
    wanted = [made.predict(lines).logits.tobytes() for lines in lists]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            assert [found.logits.tobytes() for found in threads.map(made.predict, lists)] == wanted


def test_predict_goes_this_way(tiny_path: Path, patch: pytest.MonkeyPatch) -> None:
    texts = [line.decode("utf-8", "replace") for line in LINES * 3]
    made = classifier_of(tiny_path)
    wanted = made.submit(made.tokenizer.encode([text.encode() for text in texts])).result()
    patch.setattr(CudaEngine, "submit", lambda *_: pytest.fail("the host found the words"))
    for same in (texts, [text.encode() for text in texts]):
        found = made.predict(same)
        assert found.logits.tobytes() == wanted.logits.tobytes()
        assert found.labels.tolist() == [made.labels[place] for place in wanted.labels]
    assert len(made.predict([])) == 0


@pytest.mark.parametrize(
    "keys", [{"convolution": "implicit"}, {"allocation": "per_call"}, {"copies": "pageable"}]
)
def test_other_plans_get_tokens(tiny_path: Path, patch: pytest.MonkeyPatch, keys: dict[str, str]) -> None:
    made = classifier_of(tiny_path, **keys)
    assert made.engine.text_reader(made.tokenizer) is None
    assert len(made.predict(LINES)) == len(LINES)


def test_the_host_reads_little(
    tiny_path: Path, patch: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = classifier_of(tiny_path)
    monkeypatch.setattr(classifiers, "SHORT", 10)
    with pytest.MonkeyPatch.context() as unused:  # slots take memory, and time to make
        unused.setattr(CudaEngine, "text_reader", lambda *_: pytest.fail("it was asked for"))
        for lines in ([b"123456789"], [b""] * 10, []):
            assert isinstance(made.read(lines), Encoded)
    for lines in ([b"1234567890"], [b""] * 11):
        assert isinstance(made.read(lines), TextBatch)


def test_a_reader_is_made_once_for_a_tokenizer(tiny_path: Path, patch: pytest.MonkeyPatch) -> None:
    made, other = classifier_of(tiny_path), Tokenizer({}, 5, 24)
    reader = made.engine.text_reader(made.tokenizer)
    assert reader is not None
    assert made.engine.text_reader(made.tokenizer) is reader
    assert made.engine.text_reader(other) is not reader


def test_memory_that_is_short_is_said_once_and_the_host_goes_on(
    tiny_path: Path, patch: pytest.MonkeyPatch
) -> None:
    made = classifier_of(tiny_path)
    patch.setattr(fake_cupy.DeviceMemory, "limit", fake_cupy.DeviceMemory.held() + 1000)
    with pytest.warns(
        AccelWarning, match="allocating 2 batches of 2048 bytes of text.*the host finds"
    ) as said:
        found = [made.predict(LINES) for _ in range(2)]
    assert len(ours(said)) == 1
    assert found[0].logits.tolist() == found[1].logits.tolist()


def test_sizes_that_cannot_be_counted_are_the_host_s() -> None:
    assert text_size(Tokenizer({}, 5, 24), 8) == 2048
    assert text_size(Tokenizer({}, 5, 64), 8) == 64 * 64 + 2
    assert text_size(Tokenizer({}, 5, 64), 1 << 20) == 64 << 20
    assert text_size(Tokenizer({}, 5, 1 << 25), 8) is None
    assert text_size(Tokenizer({}, 1 << 10, 1 << 10), 1 << 21) is None


def test_after_an_error_nothing_reads_the_memory_of_the_next_batch(
    tiny_path: Path, patch: pytest.MonkeyPatch
) -> None:
    made = classifier_of(tiny_path, streams=1)
    lines = [b"good"] * 8

    def full(*_: Any) -> None:
        raise fake_cupy.OutOfMemoryError("Out of memory")

    for encode in (made.tokenizer.encode, made.read):
        wanted = made.submit(encode(lines)).result().logits.tobytes()
        with pytest.MonkeyPatch.context() as failing:
            failing.setattr(SumOfIds, "__call__", full)
            with pytest.raises(DeviceFull):
                made.submit(encode([b"film " * 20]))  # one line, where there will be many
        assert not made.engine._slots[0]._stream.queue  # type: ignore[attr-defined]
        assert made.submit(encode(lines)).result().logits.tobytes() == wanted


def test_nan_is_refused(tiny_path: Path, patch: pytest.MonkeyPatch) -> None:
    made = classifier_of(tiny_path)
    patch.setattr(SumOfIds, "__call__", lambda *_: None)  # what nobody has written is NaN
    with pytest.raises(DeviceError, match="NaN or infinity"):
        made.predict(LINES)


def test_a_closed_classifier_says_so(tiny_path: Path, patch: pytest.MonkeyPatch) -> None:
    made = classifier_of(tiny_path)
    read = made.read(LINES)
    made.close()
    with pytest.raises(UsageError, match="the classifier is closed"):
        made.predict(LINES)
    with pytest.raises(IndexError):  # as with tokens; predict translates what another thread's close causes
        made.submit(read)


@pytest.mark.extras  # minutes of compiling
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_with_the_kernels_themselves(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(cuda, "Launcher", fake_cupy.Launcher)
    gemm = "mma" if precision == "fp16" else "sgemm"
    made = classifier_of(tiny_path, precision=precision, gemm=gemm, batch=40)
    for _ in range(3):  # as it is, captured, replayed
        check_same(*both_ways(made, LINES * 5 + [b"n't"]))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_on_a_gpu(tiny_path: Path, precision: str) -> None:
    rng = np.random.default_rng(0)
    lines = [b" ".join(rng.choice(np.array(LINES, object), 3)) for _ in range(30_000)]
    lines[77] = b"good film " * 200_000  # longer than a slot
    with Classifier.load(tiny_path, device="cuda", precision=precision, batch=4096) as made:
        for count in (1, 100, 4096, len(lines)):
            for _ in range(3):  # as it is, captured, replayed
                check_same(*both_ways(made, lines[:count]))
        wanted = made.submit(made.tokenizer.encode(lines)).result().logits.tobytes()
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(made.predict, [lines] * 8))
    assert all(one.logits.tobytes() == wanted for one in found)
