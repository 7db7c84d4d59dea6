"""The differentiable operators on the CPU: values, gradients, errors, what PyTorch asks of an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from accel_cli.errors import UsageError  # noqa: E402
from accel_cli.torch import fused_relu_add, linear_bias_relu  # noqa: E402
from torch_ops.inputs import linear_inputs, relu_add_inputs, split_columns  # noqa: E402

pytestmark = pytest.mark.extras

SHAPES = [(3, 5), (5,), (2, 3, 4), (1, 1), (0, 4), (4, 0), (2, 0, 3)]
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
OPERATORS = [
    pytest.param(fused_relu_add, relu_add_inputs, id="fused_relu_add"),
    pytest.param(linear_bias_relu, linear_inputs, id="linear_bias_relu"),
]
Inputs = Callable[..., tuple[Any, Any, Any]]


def eager_relu_add(x: Any, y: Any, bias: Any) -> Any:
    return torch.relu(x) + y + bias


def eager_linear(x: Any, weight: Any, bias: Any) -> Any:
    return torch.relu(x @ weight.T + bias)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_are_those_of_eager(shape: tuple[int, ...], dtype: Any) -> None:
    given_ = relu_add_inputs(shape, dtype)
    torch.testing.assert_close(fused_relu_add(*given_), eager_relu_add(*given_), rtol=0, atol=0)
    given_ = linear_inputs(shape, dtype)
    torch.testing.assert_close(linear_bias_relu(*given_), eager_linear(*given_))


@pytest.mark.parametrize(("operator", "inputs"), OPERATORS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_are_the_slopes(operator: Any, inputs: Inputs, shape: tuple[int, ...]) -> None:
    arguments = inputs(shape, torch.float64, gradients=True)
    assert torch.autograd.gradcheck(operator, arguments)
    assert torch.autograd.gradgradcheck(operator, arguments)


@settings(max_examples=30)
@given(st.data())
def test_gradients_are_those_of_autograd(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    wanted = data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans()).filter(any))
    for operator, eager, inputs in (
        (fused_relu_add, eager_relu_add, relu_add_inputs),
        (linear_bias_relu, eager_linear, linear_inputs),
    ):
        arguments = inputs(shape, torch.float64)
        asked = [tensor.requires_grad_(ask) for tensor, ask in zip(arguments, wanted, strict=True) if ask]
        outer = torch.randn_like(operator(*arguments))
        found = torch.autograd.grad(operator(*arguments), asked, outer)
        expected = torch.autograd.grad(eager(*arguments), asked, outer)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("operator", "inputs"), OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pytorch_finds_nothing_wrong(
    operator: Any, inputs: Inputs, shape: tuple[int, ...], dtype: Any
) -> None:
    registered = getattr(torch.ops.accel, operator.__name__).default
    torch.library.opcheck(registered, inputs(shape, dtype))
    torch.library.opcheck(registered, inputs(shape, torch.float64, gradients=True))


@pytest.mark.parametrize(("operator", "inputs"), OPERATORS)
def test_inputs_need_not_be_contiguous(operator: Any, inputs: Inputs) -> None:
    plain = inputs((6, 4), torch.float64)
    spread = tuple(split_columns(tensor) for tensor in plain)
    assert not any(tensor.is_contiguous() for tensor in spread)
    found = operator(*spread)
    assert found.is_contiguous()
    torch.testing.assert_close(found, operator(*plain))
    torch.library.opcheck(getattr(torch.ops.accel, operator.__name__).default, spread)
    arguments = tuple(tensor.requires_grad_() for tensor in spread)
    assert torch.autograd.gradcheck(operator, arguments)


def test_inference_mode() -> None:
    with torch.inference_mode():
        x, y, bias = relu_add_inputs((3, 5))
        torch.testing.assert_close(fused_relu_add(x, y, bias), eager_relu_add(x, y, bias))


def test_what_is_no_number_stays_so() -> None:
    x = torch.tensor([float("nan"), -1.0, 0.0, 2.0], requires_grad=True)
    y = fused_relu_add(x, torch.zeros(4), torch.zeros(4))
    assert y.isnan().tolist() == [True, False, False, False]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 0, 0, 1]  # as PyTorch's own ReLU


def refused(message: str, operator: Any, *arguments: Any) -> None:
    with pytest.raises(UsageError) as caught:
        operator(*arguments)
    assert str(caught.value) == f"{operator.__name__}: {message}"


def test_what_fused_relu_add_refuses() -> None:
    x, bias = torch.zeros(2, 3), torch.zeros(3)
    refused("y has shape [3, 2], expected [2, 3], because x has that shape", fused_relu_add, x, x.T, bias)
    refused("bias has shape [2], expected [3], because x has so many columns", fused_relu_add, x, x, bias[:2])
    double, whole = x.double(), x.int()
    refused(
        "y is torch.float64, but x is torch.float32; convert one of them", fused_relu_add, x, double, bias
    )
    refused("x is torch.int32; convert it to a floating-point type", fused_relu_add, whole, whole, bias)
    meta = bias.to("meta")
    refused("bias is on meta, but x is on cpu; move one of them", fused_relu_add, x, x, meta)
    scalar = torch.tensor(1.0)
    refused("x has shape [], 0 dimensions, expected 1 or more", fused_relu_add, scalar, scalar, bias)


def test_what_linear_bias_relu_refuses() -> None:
    x, weight, bias = torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(4)
    refused("weight has shape [3], 1 dimensions, expected 2", linear_bias_relu, x, bias[:3], bias)
    refused(
        "weight has shape [3, 4], expected [3, 3], because x has so many columns",
        linear_bias_relu, x, weight.T, bias,
    )  # fmt: skip
    refused(
        "bias has shape [3], expected [4], because weight has so many rows",
        linear_bias_relu, x, weight, bias[:3],
    )  # fmt: skip
    half = bias.half()
    refused(
        "bias is torch.float16, but x is torch.float32; convert one of them",
        linear_bias_relu,
        x,
        weight,
        half,
    )
    refused("bias is NoneType; give a tensor, of zeros for nothing", linear_bias_relu, x, weight, None)
