"""The operators on a GPU: eager PyTorch's values and gradients, its streams, and whole graphs."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import needs_gpu

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch has no CUDA device", allow_module_level=True)

from accel_cli.torch import (  # noqa: E402
    Classifier,
    fold,
    folded_convolution,
    fused_relu_add,
    linear_bias_relu,
    to_torch,
)
from torch_ops.inputs import linear_inputs, relu_add_inputs  # noqa: E402
from torch_ops.test_folded import layers, ragged  # noqa: E402

pytestmark = [pytest.mark.gpu, needs_gpu]

KERNEL_TYPES = [torch.float32, torch.float16, torch.bfloat16]
TYPES = [*KERNEL_TYPES, torch.float64]


def wide(*tensors: Any) -> list[Any]:
    return [tensor.detach().double() for tensor in tensors]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (7,), (1000, 1024), (333, 777), (0, 4)], ids=str)
def test_fused_relu_add(shape: tuple[int, ...], dtype: Any) -> None:
    arguments = relu_add_inputs(shape, dtype, device="cuda")
    x, y, bias = wide(*arguments)
    torch.testing.assert_close(fused_relu_add(*arguments), (torch.relu(x) + y + bias).to(dtype))


def test_fused_relu_add_in_fp32_is_eager_to_the_bit() -> None:
    x, y, bias = relu_add_inputs((1000, 1023), device="cuda")
    torch.testing.assert_close(fused_relu_add(x, y, bias), torch.relu(x) + y + bias, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (7,), (300, 256), (65, 777), (0, 4), (4, 0)], ids=str)
def test_linear_bias_relu(shape: tuple[int, ...], dtype: Any) -> None:
    arguments = linear_inputs(shape, dtype, device="cuda", outputs=130)
    x, weight, bias = wide(*arguments)
    torch.testing.assert_close(linear_bias_relu(*arguments), torch.relu(x @ weight.T + bias).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
def test_folded_convolution(dtype: Any) -> None:
    embedding, convolutions = layers((3, 5, 7), 70, dtype)
    table = fold(embedding, convolutions)
    ids, offsets = ragged([7, 30, 12, 256])
    there = table._replace(values=table.values.cuda(), taps=table.taps.cuda(), bias=table.bias.cuda())
    found = folded_convolution(ids.cuda(), offsets.cuda(), there)
    torch.testing.assert_close(found.cpu(), folded_convolution(ids, offsets, table))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_are_those_of_autograd(dtype: Any) -> None:
    for operator, inputs in ((fused_relu_add, relu_add_inputs), (linear_bias_relu, linear_inputs)):
        arguments = inputs((33, 20), dtype, gradients=True, device="cuda")
        on_cpu = inputs((33, 20), torch.float64, gradients=True)
        operator(*arguments).square().sum().backward()
        operator(*on_cpu).square().sum().backward()
        for found, expected in zip(arguments, on_cpu, strict=True):
            torch.testing.assert_close(found.grad.cpu(), expected.grad.to(dtype), rtol=1e-4, atol=1e-4)


def test_gradients_are_the_slopes() -> None:
    for operator, inputs in ((fused_relu_add, relu_add_inputs), (linear_bias_relu, linear_inputs)):
        assert torch.autograd.gradcheck(
            operator, inputs((3, 5), torch.float64, gradients=True, device="cuda")
        )


def test_pytorch_finds_nothing_wrong() -> None:
    for operator, inputs in ((fused_relu_add, relu_add_inputs), (linear_bias_relu, linear_inputs)):
        registered = getattr(torch.ops.accel, operator.__name__).default
        torch.library.opcheck(registered, inputs((3, 8), gradients=True, device="cuda"))


def test_works_on_a_side_stream() -> None:
    x, y, bias = relu_add_inputs((4096, 1024), device="cuda")
    expected = torch.relu(x + 1) + y + bias
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for _ in range(20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)  # what the kernel must wait for comes late
            found = fused_relu_add(x + 1, y, bias)
        side.synchronize()
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        found.zero_()


def test_is_captured_in_a_graph() -> None:
    x, y, bias = relu_add_inputs((64, 100), device="cuda")
    fused_relu_add(x, y, bias)  # compiles and loads the kernel
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = fused_relu_add(x, y, bias)
    x.mul_(-1)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(found, torch.relu(x) + y + bias, rtol=0, atol=0)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_works_on_the_device_of_its_tensors() -> None:
    x, y, bias = relu_add_inputs((64, 100), device="cuda:1")
    assert torch.cuda.current_device() == 0
    torch.testing.assert_close(fused_relu_add(x, y, bias), torch.relu(x) + y + bias, rtol=0, atol=0)
    assert torch.cuda.current_device() == 0


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_is_one_graph(backend: str) -> None:
    if backend == "inductor":
        pytest.importorskip("triton", reason="inductor needs triton on a GPU")

    def block(x: Any, weight: Any, bias: Any, after: Any) -> Any:
        return fused_relu_add(linear_bias_relu(x, weight, bias) - 1.0, x, after) * 2.0

    arguments = linear_inputs((33, 6), gradients=True, device="cuda")
    _, _, after = relu_add_inputs((33, 6), gradients=True, device="cuda")
    found = torch.compile(block, backend=backend, fullgraph=True)(*arguments, after)
    expected = block(*arguments, after)
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found.sum(), (*arguments, after))
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.sum(), (*arguments, after)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_classifier(dtype: Any) -> None:
    network = to_torch("sentiment")
    ids = torch.randint(2, 30_000, (8, 20))
    with torch.no_grad():
        expected = network(ids)
        found = Classifier(network.to("cuda", dtype))(ids.cuda()).cpu().float()
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
