import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats

from accel_cli.kernels.embedding import embedding


# The tile is 256 elements: one less, whole, one more, and the smallest there is.
@pytest.mark.parametrize(("tokens", "dimension"), [(1, 1), (5, 51), (2, 128), (1, 257), (37, 16), (3, 300)])
def test_copies_the_rows_of_the_table(backend: Backend, tokens: int, dimension: int) -> None:
    vocabulary = 11
    table = random_floats(vocabulary, dimension)
    ids = np.random.default_rng(tokens).integers(0, vocabulary, tokens).astype(np.int32)
    ids[0], ids[-1] = 0, vocabulary - 1
    x = backend.array(poisoned((tokens, dimension)))
    embedding(backend.run, backend.array(ids), backend.array(table), x)
    check(backend.numpy(x), table[ids], EXACT)
