import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.kernels.text_common import Count
from accel_cli.kernels.text_points import MOST_LABELS, text_points
from accel_cli.kernels.text_rows import THREADS
from kernels.text_pieces import pieces_of


def check(backend: Backend, logits: np.ndarray, scores: np.ndarray) -> None:
    lines, columns = logits.shape
    labels = np.argmax(logits, axis=1).astype(np.int32)
    broken = ~np.isfinite(logits).all(axis=1)
    wanted = np.rint(scores[np.arange(lines), labels].astype(np.float64) * 1e4)
    wanted = np.where(broken, 0, wanted).astype(np.int32)
    at, sizes = pieces_of(columns)
    need = sizes[labels] + sizes[columns + labels] + sizes[2 * columns + wanted]
    need = np.pad(need, (0, -lines % THREADS)).reshape(-1, THREADS).sum(axis=1).astype(np.int32)

    inputs = [backend.array(values) for values in (logits, scores, labels, at)]
    points, blocks = (backend.array(poisoned(size, "int32")) for size in (lines, len(need)))
    seen = backend.array(np.full(columns, 5, np.int32))
    counts = backend.array(np.ones(len(Count), np.int32))
    text_points(backend.run, *inputs, points, blocks, seen, counts)
    check_bits(backend.numpy(points), wanted)
    check_bits(backend.numpy(blocks), need)
    check_bits(backend.numpy(seen), np.bincount(labels, minlength=columns).astype(np.int32) + np.int32(5))
    counted = np.ones(len(Count), np.int32)
    counted[Count.BROKEN] += np.count_nonzero(broken)
    check_bits(backend.numpy(counts), counted)


@pytest.mark.parametrize("lines", [1, THREADS - 1, THREADS, THREADS + 1, 3 * THREADS + 77])
@pytest.mark.parametrize("columns", [1, 2, 300])
def test_rounds_scores_and_counts_labels(backend: Backend, lines: int, columns: int) -> None:
    rng = np.random.default_rng(lines)
    check(
        backend,
        rng.normal(size=(lines, columns)).astype(np.float32),
        rng.random((lines, columns), np.float32),
    )


@settings(max_examples=5)
@given(st.lists(st.floats(0, 1, width=32) | st.integers(0, 64).map(lambda n: n / 64), min_size=200))
def test_any_score_is_rounded_half_to_even(values: list[float]) -> None:
    from host_cuda.backends import HostBackend

    scores = np.array(values, np.float32)[:, None]
    check(HostBackend(), scores, scores)


def test_sentences_that_are_not_finite_are_counted(backend: Backend) -> None:
    logits = np.zeros((9, 3), np.float32)
    logits[[1, 3, 5], [0, 1, 2]] = np.nan, np.inf, -np.inf
    scores = np.where(np.isfinite(logits), np.float32(0.5), np.float32(np.nan))
    check(backend, logits, scores)


def test_more_labels_than_can_be_counted_are_refused(backend: Backend) -> None:
    columns = MOST_LABELS + 1
    values, labels = np.zeros((1, columns), np.float32), np.zeros(1, np.int32)
    at, _ = pieces_of(columns)
    seen, counts = np.zeros(columns, np.int32), np.zeros(len(Count), np.int32)
    with pytest.raises(ValueError, match="8193 labels; 8192 can be counted"):
        text_points(backend.run, values, values, labels, at, labels, labels, seen, counts)
