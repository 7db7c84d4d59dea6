"""Warp operations, atomics, voting barriers and integer functions, against plain Python."""

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from accel_cli.kernels.base import Array, Kernel, Launch, Scalar, elementwise
from host_cuda.backends import Backend
from host_cuda.probes import PROBES

WARP = Kernel(
    "warp",
    (
        Array("value", "int32"),
        Array("out", "int32", written=True),
        Scalar("mask", "uint32"),
        Scalar("parameter", "int32"),
        Scalar("width", "int32"),
        Scalar("operation", "int32"),
    ),
)
ALL = 0xFFFFFFFF


def lanes_of(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


def check_warps(
    backend: Backend,
    operation: int,
    expected: Callable[[list[int], int], int],
    mask: int = ALL,
    parameter: int = 0,
    width: int = 32,
) -> None:
    """Runs an operation in two warps; `expected` gives a lane's result from the values of its warp."""
    values = np.random.default_rng(operation).integers(-9, 10, 64).astype(np.int32)
    out = backend.array(np.full(64, 12345, np.int32))
    launch = Launch(WARP, (), (1, 1, 1), (64, 1, 1))
    backend.runner(PROBES)(launch, backend.array(values), out, mask, parameter, width, operation)
    wanted = np.full(64, 12345)
    for first in (0, 32):
        warp = [int(value) for value in values[first : first + 32]]
        for lane in lanes_of(mask):
            wanted[first + lane] = expected(warp, lane)
    np.testing.assert_array_equal(backend.numpy(out).astype(np.int64) % 2**32, wanted % 2**32)


@pytest.mark.parametrize("width", [32, 8, 2])
@pytest.mark.parametrize("parameter", [0, 1, 5, 31])
@pytest.mark.parametrize("operation", [0, 1, 2, 3, 16, 17])
def test_shuffles(backend: Backend, operation: int, parameter: int, width: int) -> None:
    def source(lane: int) -> int:
        first = lane - lane % width
        if operation in (0, 16):
            return first + parameter % width
        wanted = {1: lane - parameter, 2: lane + parameter, 3: lane ^ parameter, 17: lane ^ parameter}[
            operation
        ]
        reachable = wanted < first + width and (wanted >= first or operation in (3, 17))
        return wanted if reachable else lane

    check_warps(backend, operation, lambda warp, lane: warp[source(lane)], ALL, parameter, width)


def test_shuffles_within_a_part_of_the_warp(backend: Backend) -> None:
    check_warps(backend, 3, lambda warp, lane: warp[lane ^ 4], 0x00FF0FF0 ^ 0x00000FF0, 4)
    check_warps(backend, 0, lambda warp, lane: warp[5], 0x00000F20, 5)


@pytest.mark.parametrize("mask", [ALL, 0x80000001, 0x00FF00F0, 0x00000100])
def test_votes_and_matches(backend: Backend, mask: int) -> None:
    lanes = lanes_of(mask)

    def same(warp: list[int], lane: int) -> int:
        return sum(1 << i for i in lanes if warp[i] == warp[lane])

    check_warps(backend, 4, lambda warp, lane: sum(1 << i for i in lanes if warp[i] > 0), mask)
    check_warps(backend, 5, lambda warp, lane: any(warp[i] > 7 for i in lanes), mask, 7)
    check_warps(backend, 6, lambda warp, lane: all(warp[i] > -9 for i in lanes), mask, -9)
    check_warps(backend, 7, same, mask)
    check_warps(backend, 8, lambda warp, lane: mask + 1, mask, 100)
    one_alone = len(lanes) == 1
    check_warps(backend, 8, lambda warp, lane: mask + 1 if one_alone else match_all(warp, lanes), mask, 1)


def match_all(warp: list[int], lanes: list[int]) -> int:
    return sum(1 << i for i in lanes) + 1 if len({warp[i] for i in lanes}) == 1 else 0


REDUCTIONS: list[tuple[int, Callable[[list[int]], int]]] = [
    (9, sum),
    (10, min),
    (11, max),
    (12, lambda values: reduce(lambda a, b: a & b, values)),
    (13, lambda values: reduce(lambda a, b: a | b, values)),
    (14, lambda values: reduce(lambda a, b: a ^ b, values)),
    (15, lambda values: max(value % 2**32 for value in values)),
]


@pytest.mark.parametrize("mask", [ALL, 0x0F0F0000])
@pytest.mark.parametrize(("operation", "fold"), REDUCTIONS)
def test_reductions(backend: Backend, operation: int, fold: Callable[[list[int]], int], mask: int) -> None:
    check_warps(backend, operation, lambda warp, lane: fold([warp[i] for i in lanes_of(mask)]), mask)


def test_atomics_and_votes_of_a_block(backend: Backend) -> None:
    kernel = Kernel(
        "meeting",
        (
            Array("value", "int32"),
            Array("word", "int32", written=True),
            Array("wide", "uint64", written=True),
            Array("real", "float32", written=True),
            Array("votes", "int32", written=True),
        ),
    )
    blocks, threads = 3, 96
    values = np.random.default_rng(0).integers(-1000, 1000, (blocks, threads))
    values[1], values[2] = abs(values[1]) + 1, -abs(values[2])
    word = np.array([2**31 - 1, 0, -5000, 5000, 0, 0, 2**31 - 1, -1, 0, 0], np.int32)
    start = [word, np.array([7, 0, 2**63], np.uint64), np.array([0, -1e9], np.float32)]
    arrays = [backend.array(a) for a in (values.astype(np.int32), *start, np.zeros((blocks, 3), np.int32))]
    backend.runner(PROBES)(Launch(kernel, (), (blocks, 1, 1), (threads, 1, 1)), *arrays)
    got_word, got_wide, got_real, got_votes = (backend.numpy(array) for array in arrays[1:])

    flat = [int(value) for value in values.ravel()]
    plain = [value % 2**32 for value in flat]
    total = sum(flat)
    expected = [
        *(2**31 - 1 + total, -total, max(flat), min(flat), total, max(plain), min([*plain, 2**31 - 1])),
        *(reduce(fold, plain) for fold in (int.__and__, int.__or__, int.__xor__)),
    ]
    assert [int(w) % 2**32 for w in got_word] == [value % 2**32 for value in expected]
    assert got_wide.tolist() == [7 + sum(plain), max(plain) << 20, min(plain) << 20]
    assert got_real.tolist() == [sum(int(np.fmod(value, 100)) for value in flat), max(flat)]
    positive = values > 0
    expected_votes = np.stack([positive.sum(axis=1), positive.all(axis=1), positive.any(axis=1)], axis=1)
    np.testing.assert_array_equal(got_votes, expected_votes)


def test_integer_functions(backend: Backend) -> None:
    kernel = Kernel(
        "integers",
        (
            Array("a", "uint32"),
            Array("b", "uint32"),
            Array("x", "float32"),
            Array("out", "uint32", written=True),
            Scalar("count", "int32"),
        ),
    )
    count = 400
    random = np.random.default_rng(0)
    a, b = random.integers(0, 1 << 32, (2, count), np.uint32) >> random.integers(0, 32, (2, count), np.uint32)
    a[:2], b[:2] = (0, 0xFFFFFFFF), (0, 0xFFFFFFFF)
    x = random.normal(scale=3, size=count).astype(np.float32)
    x[:8] = [np.nan, np.inf, -np.inf, 3e9, -3e9, 2.5, -0.5, 5e9]
    out = backend.array(np.zeros((18, count), np.uint32))
    backend.runner(PROBES)(elementwise(kernel, count), *map(backend.array, (a, b, x)), out, count)
    expected = [integer_functions(int(p), int(q), float(v)) for p, q, v in zip(a, b, x, strict=True)]
    np.testing.assert_array_equal(backend.numpy(out), np.array(expected, np.uint32).T)


def integer_functions(p: int, q: int, x: float) -> list[int]:
    """One column of the probe `integers`."""
    both = q << 32 | p
    eight = both.to_bytes(8, "little")
    picked = [eight[p >> 7 >> 4 * i & 7] for i in range(4)]
    shift = q % 40 % 32

    def first_set(value: int) -> int:
        return (value & -value).bit_length()

    def whole(value: float, low: int, high: int) -> int:
        if np.isnan(value):
            return 0
        return int(min(max(value, low), high)) % 2**32

    int32, signed = (-(2**31), 2**31 - 1), [value - (value >> 31 << 32) for value in (p, q)]
    return [
        p.bit_count(),
        32 - p.bit_length(),
        first_set(p),
        int(f"{p:032b}"[::-1], 2),
        int.from_bytes(bytes(picked), "little"),
        p * q >> 32,
        (both << shift >> 32) % 2**32,
        (both >> shift) % 2**32,
        both.bit_count(),
        64 - both.bit_length(),
        first_set(both),
        whole(np.rint(x), *int32),
        whole(np.trunc(x), *int32),
        whole(np.floor(x), *int32),
        whole(np.ceil(x), *int32),
        whole(np.rint(x), 0, 2**32 - 1),
        int(np.float32(0 if np.isnan(x) else min(max(x, 0), 1)).view(np.uint32)),
        min(signed) % 2**32,
    ]
