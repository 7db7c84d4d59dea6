"""The small number formats, bit for bit, against numpy and against plain search."""

from fractions import Fraction

import numpy as np
import pytest

from accel_cli.kernels.base import Array, Kernel, Launch, Scalar
from host_cuda.backends import Backend
from host_cuda.checks import poisoned
from host_cuda.formats import BFLOAT16, E4M3, E5M2, HALF, Format
from host_cuda.probes import PROBES

NUMBERS = Kernel(
    "numbers",
    (
        Array("x", "float32"),
        Array("bits", "uint32"),
        Array("out", "uint32", written=True),
        Scalar("count", "int32"),
        Scalar("operation", "int32"),
    ),
)
ARITHMETIC = ("add", "subtract", "multiply", "divide", "fma", "max", "min", "less", "equal", "max_nan")


def run(backend: Backend, operation: int, x: np.ndarray | None = None, *bits: np.ndarray) -> np.ndarray:
    """The probe's results as bits, from floats or from the bits of up to three operands."""
    count = len(bits[0]) if x is None else len(x)
    x = np.zeros(count, np.float32) if x is None else x
    operands = np.zeros((3, count), np.uint32)
    for row, operand in zip(operands, bits, strict=False):
        row[:] = operand
    out = backend.array(poisoned(count, "uint32"))
    launch = Launch(NUMBERS, (), (4, 1, 1), (64, 1, 1))
    backend.runner(PROBES)(launch, backend.array(x), backend.array(operands), out, count, operation)
    return backend.numpy(out)


def check_codes(got: np.ndarray, expected: np.ndarray, form: Format) -> None:
    """The same codes, where a NaN may be any NaN."""
    nan = (expected & (form.sign - 1)) > form.infinity - (not form.infinities)
    assert np.all((got[nan] & (form.sign - 1)) > form.infinity - (not form.infinities))
    np.testing.assert_array_equal(got[~nan], expected[~nan])


SPECIAL = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-45], np.float32)


def test_float_to_half(backend: Backend) -> None:
    x = np.concatenate([HALF.critical(), SPECIAL])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).view(np.uint16)
    check_codes(run(backend, 0, x), expected, HALF)


def test_half_to_float(backend: Backend) -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    expected = codes.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(run(backend, 1, None, codes).view(np.float32), expected)


def test_float_to_bfloat16(backend: Backend) -> None:
    x = np.concatenate([BFLOAT16.critical(), SPECIAL])
    bits = x.view(np.uint32).astype(np.uint64)
    expected = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(
        np.uint32
    )  # the usual trick, right but for NaN
    expected[np.isnan(x)] = 0x7FFF
    check_codes(run(backend, 2, x), expected, BFLOAT16)


def test_bfloat16_to_float(backend: Backend) -> None:
    codes = np.arange(1 << 16, dtype=np.uint32)
    np.testing.assert_array_equal(
        run(backend, 3, None, codes).view(np.float32), (codes << 16).view(np.float32)
    )


@pytest.mark.parametrize(
    ("operation", "form", "saturate"), [(4, E4M3, True), (5, E5M2, True), (6, E4M3, False), (7, E5M2, False)]
)
def test_float_to_fp8(backend: Backend, operation: int, form: Format, saturate: bool) -> None:
    x = np.concatenate([form.critical(), SPECIAL])
    finite = [form.nearest(Fraction(float(v)), saturate) if np.isfinite(v) else 0 for v in x]
    expected = np.array(finite, np.uint32)
    expected[np.isnan(x)] = form.sign - 1
    expected[np.isinf(x)] = form.infinity - saturate
    expected[np.signbit(x) & ~np.isnan(x)] |= form.sign
    check_codes(run(backend, operation, x), expected, form)


@pytest.mark.parametrize(("operation", "form"), [(8, E4M3), (9, E5M2)])
def test_fp8_to_float(backend: Backend, operation: int, form: Format) -> None:
    codes = np.arange(256, dtype=np.uint32)
    size = np.full(128, np.nan, np.float32)
    size[: form.infinity] = form.floats[:-1]
    if form.infinities:
        size[form.infinity] = np.inf
    expected = np.concatenate([size, -size])
    np.testing.assert_array_equal(run(backend, operation, None, codes).view(np.float32), expected)


def test_four_fp8_in_one_word(backend: Backend) -> None:
    x = np.linspace(0.1, 200, 100).astype(np.float32)
    four = np.stack([x, -x, 2 * x, np.float32(0.5) * x], axis=1)
    codes = [[E4M3.nearest(Fraction(float(value)), True) for value in row] for row in four]
    expected = np.array(codes, np.uint8).view(np.uint32)[:, 0]
    np.testing.assert_array_equal(run(backend, 10, x), expected)


def operands(count: int) -> list[np.ndarray]:
    """Three columns of codes: numbers of like size in the main, and every kind of special value."""
    random = np.random.default_rng(0)
    columns = [random.integers(0, 1 << 16, count, np.uint16) for _ in range(3)]
    near = random.integers(0x3000, 0x4200, (3, count), np.uint16)
    for column, close in zip(columns, near, strict=True):
        column[count // 4 :] = close[count // 4 :] | (column[count // 4 :] & 0x8000)
    special = np.array([0, 0x8000, 1, 0x8001, 0x7BFF, 0x7C00, 0xFC00, 0x7E00], np.uint16)
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1)
    columns[0][: pairs.shape[1]], columns[1][: pairs.shape[1]] = pairs
    return columns


@pytest.mark.parametrize("name", ARITHMETIC)
def test_half_arithmetic(backend: Backend, name: str) -> None:
    a, b, c = (column.view(np.float16) for column in operands(4000))
    got = run(backend, 100 + ARITHMETIC.index(name), None, *(v.view(np.uint16) for v in (a, b, c)))
    with np.errstate(all="ignore"):
        if name == "less":
            np.testing.assert_array_equal(got, a < b)
        elif name == "equal":
            np.testing.assert_array_equal(got, a == b)
        elif name == "fma":
            check_codes(got, exact_fma(HALF, *(v.astype(np.float64) for v in (a, b, c))), HALF)
        elif name in ("max", "min", "max_nan"):
            function = {"max": np.fmax, "min": np.fmin, "max_nan": np.maximum}[name]
            expected = function(a, b)
            np.testing.assert_array_equal(got.astype(np.uint16).view(np.float16), expected)
        else:
            check_codes(got, getattr(np, name)(a, b).view(np.uint16), HALF)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "fma"])
def test_bfloat16_arithmetic(backend: Backend, name: str) -> None:
    random = np.random.default_rng(1)
    codes = [random.integers(0x3E00, 0x4200, 3000) | random.integers(0, 2, 3000) << 15 for _ in range(3)]
    a, b, c = ((code.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for code in codes)
    got = run(backend, 200 + ARITHMETIC.index(name), None, *codes)
    if name == "fma":
        expected = exact_fma(BFLOAT16, a, b, c)
    else:
        exact = {
            "add": lambda p, q: p + q,
            "subtract": lambda p, q: p - q,
            "multiply": lambda p, q: p * q,
            "divide": lambda p, q: p / q,
        }[name]
        pairs = zip(map(Fraction, a), map(Fraction, b), strict=True)
        expected = np.array([BFLOAT16.nearest(exact(p, q)) for p, q in pairs], np.uint32)
    check_codes(got, expected, BFLOAT16)


def exact_fma(form: Format, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The codes of a * b + c, rounded once from the exact fraction; what is not finite as float64 has it."""
    codes = []
    for triple in zip(a, b, c, strict=True):
        plain = triple[0] * triple[1] + triple[2]
        if np.isfinite(triple).all():
            p, q, r = map(Fraction, triple)
            exact = p * q + r
            code = form.nearest(exact)
            negative_zero = exact == 0 and np.signbit(plain)
            codes.append(code | form.sign if negative_zero else code)
        elif np.isnan(plain):
            codes.append(form.sign - 1)
        else:
            codes.append(form.infinity | (form.sign if plain < 0 else 0))
    return np.array(codes, np.uint32)
