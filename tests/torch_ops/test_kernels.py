"""What the operators do on CUDA, with the kernels on the CPU: see stand_in.py."""

from __future__ import annotations

from typing import Any

import fake_cupy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from accel_cli.cuda.errors import DeviceLost  # noqa: E402
from accel_cli.errors import UsageError  # noqa: E402
from accel_cli.torch import convolution, fold, linear, relu_add  # noqa: E402
from torch_ops.inputs import linear_inputs, relu_add_inputs, split_columns  # noqa: E402
from torch_ops.stand_in import Streams, stand_in  # noqa: E402
from torch_ops.test_folded import layers, ragged  # noqa: E402

pytestmark = pytest.mark.extras

KERNEL_TYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    return stand_in(monkeypatch)


def launched(streams: Streams) -> list[str]:
    """The stream of each piece of work that waits."""
    return [handle for handle, stream in streams.known.items() for _ in stream.queue]


@pytest.mark.parametrize("dtype", KERNEL_TYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 16), (7,)], ids=str)
def test_fused_relu_add(streams: Streams, shape: tuple[int, ...], dtype: Any) -> None:
    x, y, bias = relu_add_inputs(shape, dtype)
    found = relu_add._on_cuda(x, y, bias)
    streams.wait()
    wide = torch.relu(x.float()) + y.float() + bias.float()
    torch.testing.assert_close(found, wide.to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", KERNEL_TYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 64), (7,)], ids=str)
def test_linear_bias_relu(streams: Streams, shape: tuple[int, ...], dtype: Any) -> None:
    arguments = linear_inputs(shape, dtype)
    found = linear._on_cuda(*arguments)
    streams.wait()
    x, weight, bias = (tensor.double() for tensor in arguments)
    torch.testing.assert_close(found, torch.relu(x @ weight.T + bias).to(dtype))


@pytest.mark.parametrize("dtype", KERNEL_TYPES, ids=str)
def test_rows_of_whole_steps_are_read_where_they_lie(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    read: list[int] = []
    array = linear.array
    monkeypatch.setattr(linear, "array", lambda tensor: read.append(tensor.data_ptr()) or array(tensor))
    x, weight, bias = linear_inputs((4, 64), dtype)
    linear._on_cuda(x, weight, bias)
    streams.wait()
    assert x.data_ptr() in read


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=str)
def test_tensor_cores_of_other_devices(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]
) -> None:
    for key, value in zip(("major", "minor"), capability, strict=True):
        monkeypatch.setitem(fake_cupy.PROPERTIES, key, value)
    arguments = linear_inputs((4, 6), torch.float16)
    found = linear._on_cuda(*arguments)
    streams.wait()
    torch.testing.assert_close(found, linear._anywhere(*arguments))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_folded_convolution(streams: Streams, dtype: Any) -> None:
    table = fold(*layers((3, 5), 10, dtype))
    for kind in (torch.int32, torch.int64):
        ids, offsets = ragged([5, 9, 7], kind)
        arguments = (ids, offsets, table.values, table.taps, table.bias, table.widths)
        found = convolution._on_cuda(*arguments)
        streams.wait()
        torch.testing.assert_close(found, convolution._anywhere(*arguments))


def test_works_on_the_stream_that_is_pytorchs_own(streams: Streams) -> None:
    arguments = relu_add_inputs((3, 5))
    streams.current = 7
    found = relu_add._on_cuda(*arguments)
    assert launched(streams) == [7]
    streams.known[0].synchronize()
    assert launched(streams) == [7]
    streams.known[7].synchronize()
    torch.testing.assert_close(found, relu_add._anywhere(*arguments))


def test_inputs_may_lie_anywhere(streams: Streams) -> None:
    for module, arguments in ((relu_add, relu_add_inputs((3, 6))), (linear, linear_inputs((3, 6)))):
        spread = tuple(split_columns(tensor) for tensor in arguments)
        moved = tuple(
            torch.cat((tensor.flatten()[:1], tensor.flatten()))[1:].view(tensor.shape) for tensor in arguments
        )
        assert all(tensor.data_ptr() % 16 for tensor in moved)
        for others in (spread, moved):
            found = module._on_cuda(*others)
            streams.wait()
            torch.testing.assert_close(found, module._anywhere(*arguments))


def test_gradients_may_be_asked_for(streams: Streams) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        arguments = relu_add_inputs((3, 5), dtype, gradients=True)
        with torch.no_grad():
            found, expected = relu_add._on_cuda(*arguments), relu_add._anywhere(*arguments)
        streams.wait()
        torch.testing.assert_close(found, expected)


def test_what_the_kernels_do_not_take_runs_in_pytorch(streams: Streams) -> None:
    relu_add._on_cuda(*relu_add_inputs((3, 5), torch.float64))
    relu_add._on_cuda(*relu_add_inputs((0, 5)))
    linear._on_cuda(*linear_inputs((3, 5), torch.float64))
    linear._on_cuda(*linear_inputs((3, 0)))
    linear._on_cuda(*linear_inputs((0, 3)))
    for lengths, dtype in (([5, 6], torch.float64), ([], torch.float32)):
        table = fold(*layers((3, 5), 10, dtype))
        convolution._on_cuda(*ragged(lengths), table.values, table.taps, table.bias, table.widths)
    assert launched(streams) == []


def test_a_wrong_call_launches_nothing(streams: Streams) -> None:
    x, y, bias = relu_add_inputs((3, 5))
    with pytest.raises(UsageError, match="bias has shape"):
        relu_add._on_cuda(x, y, bias[:4])
    assert launched(streams) == []


def test_a_failure_of_the_device_says_where(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise fake_cupy.CUDARuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(fake_cupy.Launcher, "__call__", fail)
    with pytest.raises(
        DeviceLost, match="CUDA failed while running fused_relu_add: an illegal memory access"
    ):
        relu_add._on_cuda(*relu_add_inputs((3, 5)))
