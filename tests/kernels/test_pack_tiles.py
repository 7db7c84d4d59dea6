import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.pack_tiles import pack_tiles, packed_shape, split_scale
from accel_cli.kernels.tensor_operands import Operands, Type
from kernels.tensors import pack, unpacked

FP16, BF16, TF32 = map(Operands, Type)
SPLIT = Operands(Type.FP16, split=True)
ALL = pytest.mark.parametrize("operands", [FP16, BF16, TF32, SPLIT], ids=lambda o: o.stored.name)


def packed(backend: Backend, weight: np.ndarray, operands: Operands, scale: float = 1.0) -> np.ndarray:
    y = backend.array(poisoned(packed_shape(weight.shape, operands), operands.dtype))
    pack_tiles(backend.run, backend.array(weight), y, operands, scale)
    return backend.numpy(y)


@ALL
@pytest.mark.parametrize(
    ("outputs", "inputs", "taps"), [(1, 1, 1), (8, 64, 1), (9, 65, 1), (7, 33, 3), (16, 32, 5), (33, 100, 2)]
)
def test_packs_and_rounds(backend: Backend, operands: Operands, outputs: int, inputs: int, taps: int) -> None:
    weight = random_floats(outputs, inputs, taps)
    check_bits(packed(backend, weight, operands), pack(weight, operands))


@ALL
def test_a_batch(backend: Backend, operands: Operands) -> None:
    weight = random_floats(3, 9, 20, 1)
    check_bits(packed(backend, weight, operands), pack(weight, operands))


def test_where_a_value_lies(backend: Backend) -> None:
    weight = np.zeros((16, 40, 3), np.float32)
    weight[11, 10, 2] = 1  # piece 1 of tap 2, row 11 % 8 = 3
    got = packed(backend, weight, FP16)
    assert got.shape == (3, 16, 64)
    assert np.argwhere(got).tolist() == [[2, 11, (1 ^ 3) * 8 + 2]]
    assert np.argwhere(unpacked(got)).tolist() == [[11, 2 * 64 + 10]]


def test_scaled_halves_keep_22_bits(backend: Backend) -> None:
    weight = random_floats(8, 64, 1) * np.float32(1e-3)
    scale = split_scale(float(np.abs(weight).max()))
    got = unpacked(packed(backend, weight, SPLIT, scale)).astype(np.float64)
    assert 2**13 <= got[0].max(initial=-got[0].min()) < 2**14
    lost = np.abs(got.sum(0) / scale - weight[:, :, 0])
    assert (lost <= np.maximum(np.abs(weight[:, :, 0]) * 2.0**-22, 2.0**-25 / scale)).all()


def test_the_scale_of_split_weights() -> None:
    assert [split_scale(x) for x in (0.0, 1.0, 0.75, 2.0**13, 2.0**14, 3e4)] == [1, 8192, 16384, 1, 0.5, 0.5]


def test_rounds_to_even_and_keeps_what_is_no_number(backend: Backend) -> None:
    values = [1 + 2.0**-11, 1 + 3 * 2.0**-11, -1 - 2.0**-11, np.inf, -np.inf, -0.0, 1e-6, 3e38]
    weight = np.array(values, np.float32).reshape(1, 8, 1)
    check_bits(packed(backend, weight, TF32), pack(weight, TF32))
    with np.errstate(over="ignore"):
        check_bits(packed(backend, weight, FP16), pack(weight, FP16))
    weight[0, 1, 0] = np.nan
    for operands in (FP16, TF32):
        assert np.isnan(unpacked(packed(backend, weight, operands))[0, 1])


def test_refuses_what_does_not_fit() -> None:
    weight = np.zeros((4, 5, 3), np.float32)
    with pytest.raises(ValueError, match="pack_tiles packed"):
        pack_tiles(lambda *_: None, weight, np.zeros((1, 8, 64), np.float16), FP16)
    with pytest.raises(TypeError, match="expected an array of uint16, got float16"):
        pack_tiles(lambda *_: None, weight, np.zeros((3, 8, 64), np.float16), BF16)
    with pytest.raises(ValueError, match="TF32 operands are not split"):
        Operands(Type.TF32, split=True)
    with pytest.raises(ValueError, match="every 100 of k: no multiple of 64"):
        Operands(Type.FP16, promote=100)
