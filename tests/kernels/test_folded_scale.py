import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.folded_scale import folded_scale
from kernels.folded_tables import scaled


def run(backend: Backend, product: np.ndarray, bias: np.ndarray) -> list[np.ndarray]:
    width, _, filters = product.shape
    written = [backend.array(poisoned(shape)) for shape in ((width, filters), filters, filters)]
    folded_scale(backend.run, backend.array(product), backend.array(bias), *written)
    return [backend.numpy(array) for array in written]


# A block has 32 filters and takes 16 words at a time.
@pytest.mark.parametrize(
    ("width", "words", "filters"), [(1, 1, 1), (3, 15, 31), (9, 16, 32), (5, 17, 33), (7, 100, 70)]
)
def test_a_scale_for_all_taps(backend: Backend, width: int, words: int, filters: int) -> None:
    product, bias = random_floats(width, words, filters), random_floats(filters)
    for found, expected in zip(run(backend, product, bias), scaled(product, bias), strict=True):
        check(found, expected, 1e-6)


def test_words_that_are_all_alike_have_no_scale(backend: Backend) -> None:
    lowest, scale, after = run(backend, np.full((3, 8, 2), 0.5, np.float32), np.zeros(2, np.float32))
    check(lowest, np.full((3, 2), 0.5))
    check(scale, np.zeros(2))
    check(after, np.full(2, 1.5))


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
def test_what_is_not_finite_makes_a_nan_of_the_filter(backend: Backend, value: float) -> None:
    product = random_floats(3, 40, 20)
    product[1, 37, 4] = value
    _, scale, _ = run(backend, product, np.zeros(20, np.float32))
    assert np.flatnonzero(np.isnan(scale)).tolist() == [4]
