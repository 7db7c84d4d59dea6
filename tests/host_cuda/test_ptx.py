"""The instructions of kernels_cu/ptx.cuh that sm_80 has, and the twins of them, against numpy."""

import re

import numpy as np
import pytest

from accel_cli.kernels.base import Array, Kernel, Launch, Scalar, elementwise
from accel_cli.resources import KERNELS
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats
from host_cuda.probes import PROBES, copies, named, tile_product


@pytest.mark.parametrize("missing", [0, 1, 7, 100, 2000])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_asynchronous_copies(backend: Backend, size: int, missing: int) -> None:
    threads = 64
    whole = np.random.default_rng(size).integers(1, 256, 2 * threads * size).astype(np.uint8)
    given = max(len(whole) - missing, 1)
    # Something else lies behind the array: memcheck takes a copy cut short for a whole one.
    behind = np.append(whole[:given], np.full(len(whole) - given + 16, 255, np.uint8))
    x = backend.array(behind)[:given]
    whole[given:] = 0
    y = backend.array(np.full_like(whole, 123))
    copies(backend.runner(PROBES), x, y, size)
    np.testing.assert_array_equal(backend.numpy(y), whole.reshape(2, threads, size)[:, ::-1].ravel())


def test_matrix_fragments(backend: Backend) -> None:
    kernel = Kernel("fragments", (Array("x", "uint16"), Array("out", "uint32", written=True)))
    x = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    out = backend.array(poisoned((6, 4, 32), "uint32"))
    backend.runner(PROBES)(Launch(kernel, (), (1, 1, 1), (32, 1, 1)), backend.array(x.reshape(32, 8)), out)
    expected = np.zeros((6, 4, 32), np.uint32)
    for way, count in enumerate((1, 2, 4, 1, 2, 4)):
        for matrix in range(count):
            values = x[matrix].T if way >= 3 else x[matrix]
            # Two neighbours of a row to a register, four registers to a row: the lanes in order.
            expected[way, matrix] = np.ascontiguousarray(values).view(np.uint32).ravel()
    np.testing.assert_array_equal(backend.numpy(out), expected)


def as_bits(values: np.ndarray, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """Values as the words of a multiplicand (0 half, 1 bfloat16, 2 tf32), and what they then are."""
    if kind == 0:
        half = values.astype(np.float16)
        return half.view(np.uint32), half.astype(np.float64)
    bits = values.astype(np.float32).view(np.uint32)
    bits = bits & np.uint32(0xFFFF0000 if kind == 1 else 0xFFFFE000)
    kept = bits.view(np.float32).astype(np.float64)
    return (bits >> 16).astype(np.uint16).view(np.uint32) if kind == 1 else bits, kept


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("whole", [True, False])
def test_products(backend: Backend, kind: int, whole: bool) -> None:
    kernel = Kernel(
        "products",
        (
            Array("a", "uint32"),
            Array("b", "uint32"),
            Array("c", "float32"),
            Array("d", "float32", written=True),
        ),
    )
    depth = 8 if kind == 2 else 16
    shapes = ((16, depth), (8, depth), (16, 8))
    if whole:  # small whole numbers: every order of summation is exact
        random = np.random.default_rng(kind)
        left, right, c = (random.integers(-8, 9, shape).astype(np.float32) for shape in shapes)
    else:
        left, right, c = (random_floats(*shape) for shape in shapes)
    (a_bits, a), (b_bits, b) = as_bits(left, kind), as_bits(right, kind)
    d = backend.array(poisoned((16, 8)))
    launch = Launch(kernel, (("KIND", kind),), (1, 1, 1), (32, 1, 1))
    backend.runner(PROBES)(launch, *map(backend.array, (a_bits, b_bits, c)), d)
    check(backend.numpy(d), a @ b.T + c, EXACT if whole else 1e-5)


@pytest.mark.parametrize("depth", [32, 64, 160])
def test_a_pipeline_of_copies_fragments_and_products(backend: Backend, depth: int) -> None:
    a, b = (random_floats(64, depth, seed=seed, dtype="float16") for seed in (1, 2))
    c = backend.array(poisoned((64, 64)))
    tile_product(backend.runner(PROBES), backend.array(a), backend.array(b), c)
    check(backend.numpy(c), a.astype(np.float64) @ b.astype(np.float64).T, 1e-5)


def test_tf32(backend: Backend) -> None:
    if backend.capability < (9, 0):
        pytest.skip("cvt.rn.tf32 needs sm_90")
    kernel = Kernel(
        "tf32", (Array("x", "float32"), Array("out", "uint32", written=True), Scalar("count", "int32"))
    )
    bits = np.random.default_rng(0).integers(0, 1 << 32, 3000, np.uint32)
    bits[:1000] = bits[:1000] & 0xFFFFE000 | 0x1000  # ties
    bits[1000:1008] = [0, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x3F801000, 0x3F803000]
    x = bits.view(np.float32)
    x = x[np.isfinite(x) & (np.abs(x) > 1e-30) | (x == 0) | np.isinf(x)]
    out = backend.array(poisoned((2, len(x)), "uint32"))
    backend.runner(PROBES)(elementwise(kernel, len(x)), backend.array(x), out, len(x))
    got = backend.numpy(out).view(np.float32).astype(np.float64)

    # By arithmetic: 11 significant bits, the number seen as steps of its last place.
    _, exponent = np.frexp(x.astype(np.float64))
    step = np.ldexp(1.0, exponent - 11)
    with np.errstate(all="ignore"):
        steps = x / step
        away = np.copysign(np.floor(np.abs(steps) + 0.5), x) * step
        even = np.rint(steps) * step
        expected = [np.where(np.isfinite(x), v, x).astype(np.float32) for v in (away, even)]
    np.testing.assert_array_equal(got, expected)


def test_named_barriers(backend: Backend) -> None:
    x = np.arange(5 * 64, dtype=np.int32).reshape(5, 64)
    y = backend.array(poisoned((5, 64), "int32"))
    named(backend.runner(PROBES), backend.array(x), y)
    np.testing.assert_array_equal(backend.numpy(y), x[:, ::-1] + 1)


def test_every_instruction_is_probed() -> None:
    """A probe compiles for the GPU and for the CPU, so each instruction has a twin that is called alike."""
    header = (KERNELS / "ptx.cuh").read_text(encoding="utf-8")
    names = set(re.findall(r"^__device__ __forceinline__ [\w ]+ (\w+)\(", header, re.MULTILINE))
    names |= set(re.findall(r"^ACCEL_PTX_MMA\((\w+),", header, re.MULTILINE))
    kinds = re.findall(r"^    ACCEL_PTX_WGMMA\(n, .*, (\d+), (\w+), ", header, re.MULTILINE)
    widths = re.findall(r"^ACCEL_PTX_WGMMAS\((\d+),", header, re.MULTILINE)
    names |= {f"wgmma_m64n{n}k{depth}_{kind}" for n in widths for depth, kind in kinds}
    probes = "".join(path.read_text(encoding="utf-8") for path in PROBES.glob("*.cu"))
    assert len(names) > 50
    assert {name for name in names if f"ptx::{name}" not in probes} == {"shared_address"}
