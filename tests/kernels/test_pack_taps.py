import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.pack_taps import pack_taps
from kernels.packed import pack


def packed_by(backend: Backend, weight: np.ndarray) -> np.ndarray:
    filters, dimension, taps = weight.shape
    packed = backend.array(poisoned((taps * dimension, -(-filters // 4) * 4)))
    pack_taps(backend.run, backend.array(weight), packed)
    return backend.numpy(packed)


# The tile is 32 filters x 32 of dimension * taps.
@pytest.mark.parametrize(
    ("filters", "dimension", "taps"),
    [(1, 1, 1), (31, 31, 1), (32, 32, 1), (33, 33, 1), (5, 1, 9), (32, 31, 3), (70, 16, 5), (2, 100, 7)],
)
def test_gathers_each_tap_and_pads_with_zeros(
    backend: Backend, filters: int, dimension: int, taps: int
) -> None:
    weight = random_floats(filters, dimension, taps)
    got = packed_by(backend, weight)
    rows = weight.transpose(2, 1, 0).reshape(taps * dimension, filters)
    check_bits(got[:, :filters], np.ascontiguousarray(rows))
    check_bits(got[:, filters:], np.zeros_like(got[:, filters:]))


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (34, 50)])
def test_one_tap_packs_a_matrix_as_the_host_does(backend: Backend, outputs: int, inputs: int) -> None:
    weight = random_floats(outputs, inputs)
    check_bits(packed_by(backend, weight[:, :, None]), pack(weight))


def test_refuses_what_does_not_fit() -> None:
    weight, packed = random_floats(5, 3, 2), poisoned((6, 5))
    with pytest.raises(ValueError, match=r"pack_taps packed: shape \(6, 5\), expected \(6, 8\)"):
        pack_taps(lambda *_: None, weight, packed)
