"""What the twins of tensor cores' kernels refuse; no kernel runs here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tensor_calls import HALF, SPLIT, f, i, values, weights

from accel_cli.kernels import mma_gemm, wgmma_gemm
from accel_cli.kernels.base import Runner
from accel_cli.kernels.tensor_gemm import (
    tensor_batched,
    tensor_experts,
    tensor_gemm,
    tensor_ids,
    tensor_packed,
    tensor_windows,
)
from accel_cli.kernels.tensor_operands import Output
from accel_cli.kernels.tensor_tile import TensorTile
from accel_cli.kernels.transpose import transpose

A = values(HALF, 5, 192)
W = weights(HALF, 6)


def convolve(run: Runner, tile: TensorTile, *, starts: int = 5, features: int = 9, bias: int = 6) -> None:
    arrays = (values(HALF, 9, 64), i(starts), i(5), W, f(bias), f(2, features), 3)
    tensor_windows(run, *arrays, tile=tile)


@pytest.mark.parametrize("tile", [mma_gemm.DEFAULT, wgmma_gemm.DEFAULT], ids=lambda tile: tile.kernel.name)
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda run, tile: tensor_gemm(run, A[:, :184], W, f(6), f(5, 6), tile=tile),
            r"tensor_gemm a: shape \(5, 184\), expected \(5, 192\)",
        ),
        (
            lambda run, tile: tensor_gemm(run, A, W, f(7), f(5, 6), tile=tile),
            r"tensor_gemm bias: shape \(7,\), expected \(6,\)",
        ),
        (
            lambda run, tile: tensor_gemm(run, A, W, f(6), f(4, 6), tile=tile),
            r"tensor_gemm y: shape \(4, 6\), expected \(5, 6\)",
        ),
        (
            lambda run, tile: tensor_gemm(run, A, W, f(6), f(5, 6), column=1, tile=tile),
            r"tensor_gemm y: shape \(5, 6\), expected \(5, 7\)",
        ),
        (
            lambda run, tile: tensor_gemm(run, A, W, f(6), A, output=Output.SPLIT, tile=tile),
            r"tensor_gemm y: shape \(5, 192\), expected \(2, 5, 192\)",
        ),
        (
            lambda run, tile: tensor_gemm(run, A, weights(SPLIT, 6), f(6), f(5, 6), tile=tile),
            r"tensor_gemm a: shape \(5, 192\), expected \(2, 5, 192\)",
        ),
        (
            lambda run, tile: tensor_batched(run, values(HALF, 2, 5, 192), W, f(2, 5, 6), tile=tile),
            r"tensor_batched a's weights: shape \(3, 8, 64\), expected \(2, 3, 8, 64\)",
        ),
        (
            lambda run, tile: tensor_packed(run, values(HALF, 3, 5, 64), W, f(6), f(5, 6), tile=tile),
            r"tensor_packed a: shape \(3, 5, 64\), expected \(3, 8, 64\)",
        ),
        (
            lambda run, tile: tensor_experts(run, A, f(4, 2), W, f(6), f(5, 3), tile=tile),
            r"tensor_experts h: shape \(5, 192\), expected \(4, 192\)",
        ),
        (
            lambda run, tile: tensor_experts(run, A, f(5, 4), W, f(6), f(5, 3), tile=tile),
            "tensor_experts: 6 columns of 4 experts, expected 1, 2 or 4",
        ),
        (
            lambda run, tile: convolve(run, tile, starts=4),
            r"tensor_windows owners: shape \(5,\), expected \(4,\)",
        ),
        (
            lambda run, tile: convolve(run, tile, features=8),
            r"tensor_windows y: shape \(2, 8\), expected \(2, 9\)",
        ),
        (
            lambda run, tile: convolve(run, tile, bias=5),
            r"tensor_windows bias: shape \(5,\), expected \(6,\)",
        ),
        (
            lambda run, tile: tensor_ids(
                run, i(9), values(HALF, 40, 56), i(5), i(5), W, f(6), f(2, 9), 3, tile=tile
            ),
            "tensor_ids: rows of 56 for weights of 192, expected padded taps",
        ),
    ],
)
def test_shapes_that_do_not_fit_quote_both(
    call: Callable[[Runner, TensorTile], None], words: str, tile: TensorTile
) -> None:
    with pytest.raises(ValueError, match=words):
        call(refused, tile)


def test_no_windows_are_no_launch() -> None:
    arrays = (values(HALF, 9, 64), i(0), i(0), W, f(6), f(2, 9), 3)
    tensor_windows(refused, *arrays, tile=wgmma_gemm.DEFAULT)


def test_transposed_operands_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"transpose y: shape \(2, 5, 8\), expected \(2, 5, 9\)"):
        transpose(refused, f(2, 9, 5), values(HALF, 2, 5, 8), Output.FP16)
    with pytest.raises(ValueError, match=r"transpose y: shape \(2, 5, 9\), expected \(2, 2, 5, 9\)"):
        transpose(refused, f(2, 9, 5), values(HALF, 2, 5, 9), Output.SPLIT)
    with pytest.raises(TypeError, match="transpose y: expected an array of float16, got float32"):
        transpose(refused, f(2, 9, 5), f(2, 5, 9), Output.FP16)


def refused(*_: object) -> None:
    pytest.fail("launched")
