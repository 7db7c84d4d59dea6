import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats

from accel_cli.kernels.gemm_tiled import gemm_tiled
from accel_cli.kernels.lab_gemm import ONE_D, TWO_D, RegisterTile, lab_gemm

# (rows, inputs, outputs); tiles are 64 x 64 and 128 x 128, in steps of 16.
SHAPES = [(1, 1, 1), (63, 16, 65), (65, 33, 63)]
WIDE = [pytest.param(*shape, marks=pytest.mark.extras) for shape in [(129, 33, 127), (70, 5, 200)]]
tiles = pytest.mark.parametrize(
    "tile", [pytest.param(ONE_D, id="1-D"), pytest.param(TWO_D, id="2-D", marks=pytest.mark.extras)]
)


@tiles
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [*SHAPES, *WIDE])
def test_multiplies_and_adds_the_bias(
    backend: Backend, tile: RegisterTile, rows: int, inputs: int, outputs: int
) -> None:
    a, weight, bias = (
        random_floats(rows, inputs),
        random_floats(outputs, inputs, seed=1),
        random_floats(outputs),
    )
    y, tiled = backend.array(poisoned((rows, outputs))), backend.array(poisoned((rows, outputs)))
    operands = [backend.array(values) for values in (a, weight, bias)]
    lab_gemm(backend.run, *operands, y, tile)
    check(backend.numpy(y), a.astype(np.float64) @ weight.astype(np.float64).T + bias)
    gemm_tiled(backend.run, *operands, tiled)
    check(backend.numpy(y), backend.numpy(tiled), EXACT)  # one chain of fma whatever the tile


def test_refuses_what_does_not_fit() -> None:
    a, weight, bias = (np.zeros(shape, np.float32) for shape in ((4, 3), (2, 3), 2))
    for name, operands in {
        "weight": (a, weight[:, :2].copy(), bias, np.zeros((4, 2), np.float32)),
        "bias": (a, weight, bias[:1], np.zeros((4, 2), np.float32)),
        "y": (a, weight, bias, np.zeros((2, 4), np.float32)),
    }.items():
        with pytest.raises(ValueError, match=f"lab_gemm {name}: shape"):
            lab_gemm(lambda *_: None, *operands, ONE_D)
