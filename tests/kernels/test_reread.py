import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.reread import PIECE, READS, THREADS, reread


def sums_of(words: np.ndarray, blocks: int, step: int, rounds: int) -> np.ndarray:
    """What each thread reads, added up modulo 2^32."""
    each = words.reshape(len(words), READS, THREADS, 4).sum(axis=(1, 3), dtype=np.uint32)
    places = [[(block + step * turn) % len(words) for turn in range(rounds)] for block in range(blocks)]
    return np.array([each[of].sum(axis=0, dtype=np.uint32) for of in places])


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize(
    ("pieces", "blocks", "step", "rounds"), [(1, 1, 0, 1), (3, 2, 2, 5), (2, 3, 0, 4), (5, 7, 1, 0)]
)
def test_adds_up_what_it_reads(
    backend: Backend, pieces: int, blocks: int, step: int, rounds: int, near: bool
) -> None:
    words = np.random.default_rng(pieces).integers(0, 1 << 32, (pieces, PIECE), np.uint32)
    sums = backend.array(poisoned((blocks, THREADS), "uint32"))
    reread(backend.run, backend.array(words), sums, step, rounds, near=near)
    check_bits(backend.numpy(sums), sums_of(words, blocks, step, rounds))


@pytest.mark.parametrize("step", [-1, 2])
def test_a_step_out_of_the_buffer(step: int) -> None:
    words, sums = np.zeros((2, PIECE), np.uint32), np.zeros((1, THREADS), np.uint32)
    with pytest.raises(ValueError, match=f"reread: a step of {step}, expected 0 to 1"):
        reread(lambda *_: None, words, sums, step, 1, near=True)
