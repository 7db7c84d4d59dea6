import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats

from accel_cli.kernels.skinny import DEEP, skinny, skinny_scores, skinny_softmax
from accel_cli.kernels.tensor_operands import Output
from kernels.tensors import pack_rows, rounded, values

SLOW = pytest.mark.extras  # each compiles a kernel of its own

# (rows, depth, outputs): a warp goes 128 floats along depth, four of them 512 from DEEP on; a block takes 16
# rows of up to four columns, 4 of the deep ones.
SHAPES = [
    *((1, 1, 4), (15, 127, 4), (16, 128, 4), (17, 129, 4), (5, DEEP + 512, 4)),
    *(pytest.param(*shape, marks=SLOW) for shape in ((9, 516, 3), (5, 50, 16), (7, 12, 5), (3, DEEP + 1, 4))),
]
# What a value is stored as, and (rows, depth, pitch).
KINDS = [
    *((stored, 5, DEEP, DEEP + 64) for stored in (Output.FP16, Output.SPLIT)),
    *(
        pytest.param(stored, *shape, marks=SLOW)
        for stored in Output
        for shape in ((1, DEEP, DEEP), (3, 40, 64), (2, 43, 64))
    ),
]
SCORED = [(17, 13, 3), *(pytest.param(*shape, marks=SLOW) for shape in ((1, 8, 2), (6, 8, 16), (3, 5, 1)))]
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def operands(rows: int, depth: int, outputs: int) -> Arrays:
    """a [rows, depth], weight and bias, so that sums are about as large as the values."""
    weight = random_floats(outputs, depth, seed=1) / np.float32(depth**0.5)
    return random_floats(rows, depth), weight, random_floats(outputs)


def product(a: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """In float64."""
    return a.astype(np.float64) @ weight.astype(np.float64).T + bias


def softmax(y: np.ndarray) -> np.ndarray:
    exponents = np.exp(y - y.max(1, keepdims=True))
    return exponents / exponents.sum(1, keepdims=True)


def run(backend: Backend, a: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    y = backend.array(poisoned((len(a), len(weight))))
    skinny(backend.run, backend.array(a), backend.array(weight), backend.array(bias), y)
    return backend.numpy(y)


@pytest.mark.parametrize(("rows", "depth", "outputs"), SHAPES)
def test_multiplies_and_adds_the_bias(backend: Backend, rows: int, depth: int, outputs: int) -> None:
    arrays = operands(rows, depth, outputs)
    check(run(backend, *arrays), product(*arrays))


@pytest.mark.parametrize(("stored", "rows", "depth", "pitch"), KINDS)
def test_reads_values_of_every_kind(
    backend: Backend, stored: Output, rows: int, depth: int, pitch: int
) -> None:
    a, weight, bias = operands(rows, depth, 4)
    behind = poisoned((rows, pitch))  # none of it is read
    behind[:, :depth] = a
    kept = rounded(behind, stored)
    y = backend.array(poisoned((rows, 4)))
    skinny_softmax(backend.run, backend.array(kept), backend.array(weight), backend.array(bias), y, stored)
    exact = values(kept, stored)[:, :depth]
    check(backend.numpy(y), softmax(product(exact, weight, bias)))


@pytest.mark.parametrize(
    ("stored", "rows", "depth"),
    [
        (Output.FP16, 5, DEEP),
        *(pytest.param(o, 9, 128, marks=SLOW) for o in (Output.FP16, Output.BF16, Output.SPLIT)),
    ],
)
def test_reads_a_packed_operand(backend: Backend, stored: Output, rows: int, depth: int) -> None:
    a, weight, bias = operands(rows, depth, 4)
    arrays = backend.array(weight), backend.array(bias)
    y, plain = (backend.array(poisoned((rows, 4))) for _ in range(2))
    skinny_softmax(backend.run, backend.array(pack_rows(a, stored)), *arrays, y, stored, packed=True)
    skinny_softmax(backend.run, backend.array(rounded(a, stored)), *arrays, plain, stored)
    assert np.array_equal(backend.numpy(y), backend.numpy(plain))
    check(backend.numpy(y), softmax(product(values(rounded(a, stored), stored), weight, bias)))


@pytest.mark.parametrize(("rows", "depth", "outputs"), SCORED)
def test_scores_and_labels(backend: Backend, rows: int, depth: int, outputs: int) -> None:
    arrays = operands(rows, depth, outputs)
    y, scores = (backend.array(poisoned((rows, outputs))) for _ in range(2))
    label = backend.array(poisoned(rows, "int32"))
    skinny_scores(backend.run, *map(backend.array, arrays), y, scores, label)
    logits = backend.numpy(y)
    check(logits, product(*arrays))
    check(backend.numpy(scores), softmax(logits.astype(np.float64)))
    check(backend.numpy(label), logits.argmax(1), EXACT)


def test_an_expert_that_is_none_has_no_weight(backend: Backend) -> None:
    a, weight, bias = operands(3, 8, 4)
    weight[3], bias[3] = 0, -np.inf
    y = backend.array(poisoned((3, 4)))
    skinny_softmax(backend.run, *map(backend.array, (a, weight, bias)), y)
    check(backend.numpy(y)[:, 3], np.zeros(3), EXACT)


@pytest.mark.parametrize("depth", [132, DEEP])
def test_a_row_does_not_depend_on_its_batch(backend: Backend, depth: int) -> None:
    a, weight, bias = operands(17, depth, 4)
    whole = run(backend, a, weight, bias)
    for row in (3, 16):
        check(run(backend, a[row : row + 1].copy(), weight, bias), whole[row : row + 1], EXACT)


def test_a_nan_stays_in_its_row(backend: Backend) -> None:
    a, weight, bias = operands(3, 40, 4)
    a[1, 39] = np.nan
    assert np.isnan(run(backend, a, weight, bias)).tolist() == [[False] * 4, [True] * 4, [False] * 4]


@pytest.mark.parametrize("outputs", [0, 17])
def test_refuses_more_columns_than_it_has_sums_for(outputs: int) -> None:
    a, weight = np.zeros((1, 4), np.float32), np.zeros((outputs, 4), np.float32)
    with pytest.raises(ValueError, match=f"{outputs} columns, expected 1 to 16"):
        skinny(lambda *_: None, a, weight, weight[:, 0].copy(), a)


def test_refuses_what_does_not_fit() -> None:
    a, weight, bias = np.zeros((3, 8), np.float16), np.zeros((2, 9), np.float32), np.zeros(2, np.float32)
    y, label = np.zeros((3, 2), np.float32), np.zeros(3, np.int32)
    with pytest.raises(ValueError, match=r"skinny a: shape \(3, 8\), expected \(3, 9\)"):
        skinny(lambda *_: None, a, weight, bias, y, Output.FP16)
    with pytest.raises(ValueError, match=r"skinny a: shape \(3, 8\), expected \(2, 3, 8\)"):
        skinny(lambda *_: None, a, weight[:, :8], bias, y, Output.SPLIT)
    with pytest.raises(TypeError, match="skinny a: expected an array of uint16, got float16"):
        skinny(lambda *_: None, a, weight[:, :8], bias, y, Output.BF16)
    with pytest.raises(ValueError, match=r"skinny label: shape \(2,\), expected \(3,\)"):
        skinny_scores(lambda *_: None, a, weight[:, :8], bias, y, y, label[:2], Output.FP16)
