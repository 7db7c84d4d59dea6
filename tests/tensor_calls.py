"""What the engine calls the kernels of tensor cores with, for each set of constants that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from accel_cli.kernels import mma_gemm, wgmma_gemm
from accel_cli.kernels.base import Runner
from accel_cli.kernels.cast import cast, cast_packed
from accel_cli.kernels.pack_tiles import pack_tiles, packed_shape
from accel_cli.kernels.tensor_gemm import (
    tensor_batched,
    tensor_experts,
    tensor_gemm,
    tensor_ids,
    tensor_packed,
    tensor_residual,
    tensor_windows,
)
from accel_cli.kernels.tensor_operands import Operands, Packed, Type, halves, step
from accel_cli.kernels.tensor_tile import TensorTile
from accel_cli.kernels.transpose import transpose

Call = Callable[[Runner], None]

HALF, BF16, TF32 = map(Operands, Type)
SPLIT = Operands(Type.FP16, split=True, promote=512)
TAPS = 3


def f(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def i(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


def values(of: Operands, *shape: int) -> np.ndarray:
    """Operands, or what is stored as such."""
    return np.zeros((*halves(of.stored), *shape), of.dtype)


def weights(of: Operands, outputs: int, batch: tuple[int, ...] = ()) -> Packed:
    """For TAPS taps of a step each, or for rows of as many steps."""
    shape = packed_shape((*batch, outputs, step(of.type), TAPS), of)
    return Packed(np.zeros(shape, of.dtype), outputs, of)


def written(of: Operands) -> Iterator[tuple[str, Call]]:
    """What makes operands."""
    width, to = step(of.type), of.stored
    yield "cast", lambda run: cast(run, f(5, 9), values(of, 5, width), to)
    yield "cast", lambda run: cast_packed(run, f(5, 9), values(of, 1, 8, width), to)
    yield "transpose", lambda run: transpose(run, f(2, 9, 5), values(of, 2, 5, width), to)
    yield "pack_tiles", lambda run: pack_tiles(run, f(5, 9, TAPS), values(of, TAPS, 8, width), of)


def products(of: Operands, tile: TensorTile) -> Iterator[Call]:
    """All but those of packed rows; some tiles are not for all of them."""
    width = step(of.type)
    a, convolved = values(of, 5, TAPS * width), (i(5), i(5), weights(of, 6), f(6), f(2, 9), 3)
    many, y, to = values(of, 2, 5, TAPS * width), values(of, 5, 7), of.stored
    yield lambda run: tensor_windows(run, values(of, 9, width), *convolved, tile=tile)
    yield lambda run: tensor_ids(run, i(9), values(of, 40, width), *convolved, tile=tile)
    yield lambda run: tensor_gemm(run, a, weights(of, 7), f(7), y, tile=tile, output=to, relu=True)
    yield lambda run: tensor_batched(run, many, weights(of, 6, (2,)), f(2, 5, 6), tile=tile)
    for relu in (False, True):
        arrays = (a, f(5, 4), weights(of, 28), f(28), y)
        yield lambda run, relu=relu, arrays=arrays: tensor_experts(
            run, *arrays, tile=tile, output=to, relu=relu
        )


def shortcut(run: Runner, of: Operands, tile: TensorTile) -> None:
    width = TAPS * step(of.type)
    x, y = values(of, 5, width), values(of, 5, width)
    tensor_residual(run, x, weights(of, width), f(width), y, tile=tile, output=of.stored)


def packed_rows(run: Runner, of: Operands, tile: TensorTile) -> None:
    a, y = values(of, TAPS, 8, step(of.type)), values(of, 5, 7)
    tensor_packed(run, a, weights(of, 7), f(7), y, tile=tile, output=of.stored, relu=True)


def rows(run: Runner, of: Operands, tile: TensorTile) -> None:
    a, y = values(of, 5, TAPS * step(of.type)), values(of, 5, 7)
    tensor_gemm(run, a, weights(of, 7), f(7), y, tile=tile, output=of.stored, relu=True)


TENSOR_CALLS: list[tuple[str, Call]] = [
    *(call for of in (HALF, BF16, TF32, SPLIT) for call in written(of)),
    *(("wgmma_gemm", call) for call in products(HALF, wgmma_gemm.LARGE)),
    *(("wgmma_gemm", call) for call in products(SPLIT, wgmma_gemm.SPLIT)),
    *(("mma_gemm", call) for call in products(HALF, mma_gemm.DEFAULT)),
    *(
        ("wgmma_gemm", partial(packed_rows, of=of, tile=tile))
        for of, tile in ((HALF, wgmma_gemm.LARGE), (TF32, wgmma_gemm.DEFAULT), (SPLIT, wgmma_gemm.SPLIT))
    ),
    *(("mma_gemm", partial(rows, of=of, tile=mma_gemm.SMALL)) for of in (HALF, BF16, TF32, SPLIT)),
    *(("wgmma_gemm", partial(rows, of=of, tile=wgmma_gemm.LARGE)) for of in (BF16, TF32)),
    *(("mma_gemm", partial(shortcut, of=of, tile=mma_gemm.DEFAULT)) for of in (HALF, BF16, TF32, SPLIT)),
    *(("wgmma_gemm", partial(shortcut, of=of, tile=wgmma_gemm.LARGE)) for of in (HALF, BF16, TF32)),
    ("wgmma_gemm", partial(shortcut, of=SPLIT, tile=wgmma_gemm.SPLIT)),
]
