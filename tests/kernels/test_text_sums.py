import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.text_common import Count
from accel_cli.kernels.text_sums import EACH, THREADS, text_sums
from kernels.text_marked import before

TURN = THREADS * EACH


@pytest.mark.parametrize("count", [1, 2, EACH + 1, TURN - 1, TURN, TURN + 1, 3 * TURN + 77])
def test_sums_what_comes_before(backend: Backend, count: int) -> None:
    values = np.random.default_rng(count).integers(0, 1 << 16, count).astype(np.int32)
    sums, totals = backend.array(values), backend.array(poisoned(len(Count), "int32"))
    text_sums(backend.run, sums, totals, Count.FOUND)
    check_bits(backend.numpy(sums), before(values))
    wanted = poisoned(len(Count), "int32")
    wanted[Count.FOUND] = values.sum()
    check_bits(backend.numpy(totals), wanted)


def test_refuses_a_place_that_is_not_there(backend: Backend) -> None:
    with pytest.raises(ValueError, match="no place 2 among 1 totals"):
        text_sums(backend.run, *(backend.array(np.zeros(1, np.int32)) for _ in range(2)), Count.TOKENS)
