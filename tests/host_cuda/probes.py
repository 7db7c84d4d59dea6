"""Small kernels that exercise what the real ones do not have yet, or offer a place for a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div

PROBES = Path(__file__).resolve().parent / "probes"

ONE = (1, 1, 1)


def block_sum(run: Runner, x: Any, y: Any, threads: int = 128) -> None:
    """y [rows] = the sums of the rows of x."""
    kernel = Kernel(
        "block_sum", (Array("x", "float32"), Array("y", "float32", written=True), Scalar("columns", "int32"))
    )
    rows, columns = x.shape
    run(Launch(kernel, (("THREADS", threads),), (rows, 1, 1), (threads, 1, 1)), x, y, columns)


def reverse(run: Runner, x: Any, y: Any, shared_bytes: int | None = None) -> None:
    """y [tiles, threads, 4] = x with the threads of each tile backwards."""
    kernel = Kernel("reverse", (Array("x", "float32"), Array("y", "float32", written=True)))
    tiles, threads, _ = x.shape
    shared = 16 * threads if shared_bytes is None else shared_bytes
    run(Launch(kernel, (("THREADS", threads),), (tiles, 1, 1), (threads, 1, 1), shared), x, y)


def copies(run: Runner, x: Any, y: Any, size: int) -> None:
    """y [2, threads, size] = the bytes x, and zeros behind them, with the threads of each half backwards."""
    kernel = Kernel(
        "copies", (Array("x", "uint8"), Array("y", "uint8", written=True), Scalar("bytes", "int32"))
    )
    threads = y.size // (2 * size)
    run(Launch(kernel, (("THREADS", threads), ("SIZE", size)), ONE, (threads, 1, 1)), x, y, x.size)


def tile_product(run: Runner, a: Any, b: Any, c: Any) -> None:
    """c [64, 64] = a [64, depth] times b [64, depth] transposed, in half."""
    kernel = Kernel(
        "tile_product",
        (
            Array("a", "float16"),
            Array("b", "float16"),
            Array("c", "float32", written=True),
            Scalar("depth", "int32"),
        ),
    )
    run(Launch(kernel, (), ONE, (128, 1, 1)), a, b, c, a.shape[1])


def named(run: Runner, x: Any, y: Any) -> None:
    """y [rounds, 64] = x backwards, plus one."""
    kernel = Kernel(
        "named", (Array("x", "int32"), Array("y", "int32", written=True), Scalar("rounds", "int32"))
    )
    run(Launch(kernel, (), ONE, (128, 1, 1)), x, y, len(x))


def early(run: Runner, x: Any, y: Any) -> None:
    """y [count] = x backwards, plus one."""
    parameters = (Array("x", "int32"), Array("y", "int32", written=True), Scalar("count", "int32"))
    blocks = (ceil_div(x.size, 64), 1, 1)
    run(Launch(Kernel("early", parameters, overlaps=True), (), blocks, (64, 1, 1)), x, y, x.size)


def bulk(run: Runner, x: Any, y: Any) -> None:
    """y [256] = the sum of the tiles of x [tiles, 256]."""
    kernel = Kernel(
        "bulk", (Array("x", "float32"), Array("y", "float32", written=True), Scalar("tiles", "int32"))
    )
    run(Launch(kernel, (), ONE, (256, 1, 1)), x, y, len(x))


def announced(run: Runner, x: Any, y: Any) -> None:
    """The same."""
    kernel = Kernel(
        "announced", (Array("x", "float32"), Array("y", "float32", written=True), Scalar("tiles", "int32"))
    )
    run(Launch(kernel, (), ONE, (128, 1, 1)), x, y, len(x))


def multicast(run: Runner, x: Any, y: Any, cluster: int) -> None:
    """y [blocks, 256] = the sum of the tiles of x [blocks / cluster, tiles, 256], times rank + 1."""
    kernel = Kernel(
        "multicast", (Array("x", "float32"), Array("y", "float32", written=True), Scalar("tiles", "int32"))
    )
    run(Launch(kernel, (("CLUSTER", cluster),), (len(y), 1, 1), (160, 1, 1)), x, y, x.shape[1])


def warpgroup(
    run: Runner, a: Any, b: Any, c: Any, d: Any, add: bool = True, swizzle: int = 1, kind: int = 0
) -> None:
    """d [64, n] = a [64, depth] times b [n, depth] transposed, plus c if `add`; of a and b the bits.

    Kinds are 0 half, 1 bfloat16, 2 tf32.
    """
    word = "uint32" if kind == 2 else "uint16"
    kernel = Kernel(
        "warpgroup",
        (
            Array("a", word),
            Array("b", word),
            Array("c", "float32"),
            Array("d", "float32", written=True),
            Scalar("add", "int32"),
        ),
    )
    n = len(b)
    defines = (("N", n), ("SWIZZLE", swizzle), ("KIND", kind))
    run(Launch(kernel, defines, ONE, (128, 1, 1), (64 + n) * 128 + 1024), a, b, c, d, int(add))
