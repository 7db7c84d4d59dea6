from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.toomcook_weights import toomcook_weights
from accel_cli.model.toomcook import toom_cook
from accel_cli.model.weights import Layer
from kernels.packed import transform_weights


def run(backend: Backend, weight: np.ndarray, matrix: np.ndarray, pitch: int, column: int) -> np.ndarray:
    u = backend.array(poisoned((len(matrix), weight.shape[1], pitch)))
    toomcook_weights(backend.run, backend.array(weight), backend.array(matrix), u, column)
    return backend.numpy(u)


# The tile is 32 filters x 16 channels, and eight rows of threads walk over the channels.
@pytest.mark.parametrize(
    ("filters", "dimension", "taps", "products", "pitch", "column"),
    [
        (1, 1, 1, 1, 1, 0),
        (31, 15, 3, 18, 40, 0),
        (32, 16, 5, 18, 64, 32),
        (33, 17, 9, 18, 36, 3),
        (70, 7, 2, 4, 72, 1),
        (3, 100, 7, 13, 12, 9),
        (2, 9, 16, 16, 4, 2),
    ],
)
def test_transforms_and_rounds_once(
    backend: Backend, filters: int, dimension: int, taps: int, products: int, pitch: int, column: int
) -> None:
    weight = random_floats(filters, dimension, taps)
    matrix = random_floats(products, taps, seed=1, dtype="float64")
    u = run(backend, weight, matrix, pitch, column)
    got = u[:, :, column : column + filters]
    expected = np.einsum("pj,cdj->pdc", matrix, weight.astype(np.float64))
    # Half a unit in the last place, and next to nothing for the sum in double.
    assert (np.abs(got - expected) <= 0.5 * np.spacing(np.abs(got)) + 1e-13).all()
    assert np.isnan(np.delete(u, np.s_[column : column + filters], axis=2)).all()


@pytest.mark.parametrize(("widths", "filters"), [((3, 5, 7, 9), 10), ((2,), 33)])
def test_all_widths_as_on_the_host(backend: Backend, widths: Sequence[int], filters: int) -> None:
    transform, bias = toom_cook(16, widths), np.zeros(filters, np.float32)
    layers = [Layer(random_floats(filters, 20, width), bias) for width in widths]
    expected = transform_weights(layers, transform)
    u = backend.array(np.zeros_like(expected))
    for kind, (layer, matrix) in enumerate(zip(layers, transform.weights, strict=True)):
        arrays = (backend.array(layer.weight), backend.array(matrix), u)
        toomcook_weights(backend.run, *arrays, kind * filters)
    check(backend.numpy(u), expected, 1.2e-7)  # of two sums in double, one may round to the neighbour


def test_a_nan_stays_in_its_channel_and_filter(backend: Backend) -> None:
    weight, matrix = random_floats(5, 20, 3), random_floats(18, 3, dtype="float64")
    weight[2, 17, 1] = np.nan
    nan = np.isnan(run(backend, weight, matrix, 5, 0))
    assert nan[:, 17, 2].all()
    assert nan.sum() == 18


@pytest.mark.parametrize("column", [-1, 4])
def test_refuses_what_does_not_fit(column: int) -> None:
    weight, matrix, u = random_floats(5, 3, 2), random_floats(4, 2, dtype="float64"), poisoned((4, 3, 8))
    with pytest.raises(ValueError, match=f"5 filters at {column} do not fit into 8"):
        toomcook_weights(lambda *_: None, weight, matrix, u, column)
    with pytest.raises(ValueError, match=r"toomcook_weights u: shape \(4, 3, 8\), expected \(4, 4, 8\)"):
        toomcook_weights(lambda *_: None, random_floats(5, 4, 2), matrix, u, 0)
