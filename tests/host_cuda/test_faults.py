"""Proof that the host runner can fail: each test plants one fault into a copy of a kernel that is right."""

from pathlib import Path

import numpy as np
import pytest

from accel_cli.kernels.base import Array, Kernel, Launch, Runner
from accel_cli.kernels.conv1d import conv1d
from accel_cli.kernels.embedding import embedding
from accel_cli.kernels.linear import linear
from accel_cli.kernels.relu import relu
from accel_cli.kernels.softmax import softmax
from accel_cli.resources import KERNELS
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats
from host_cuda.planting import Plant
from host_cuda.probes import PROBES, block_sum, reverse
from host_cuda.runner import HostRunner, KernelFaultError


def sum_of_rows(run: Runner, columns: int = 300) -> None:
    x, y = random_floats(2, columns), poisoned(2)
    block_sum(run, x, y)
    check(y, x.astype(np.float64).sum(axis=1), 1e-5)


def reversed_tiles(run: Runner, **options: int) -> None:
    x = random_floats(2, 64, 4)
    y = poisoned(x.shape)
    reverse(run, x, y, **options)
    check(y, x[:, ::-1], EXACT)


def test_the_probes_are_right(backend: Backend) -> None:
    x, y = random_floats(3, 300), backend.array(poisoned(3))
    block_sum(backend.runner(PROBES), backend.array(x), y)
    check(backend.numpy(y), x.astype(np.float64).sum(axis=1), 1e-5)
    x = random_floats(2, 64, 4)
    y = backend.array(poisoned(x.shape))
    reverse(backend.runner(PROBES), backend.array(x), y)
    check(backend.numpy(y), x[:, ::-1], EXACT)


BLOCK_SUM, REVERSE = PROBES / "block_sum.cu", PROBES / "reverse.cu"


def test_a_barrier_removed(plant: Plant) -> None:
    run = plant(BLOCK_SUM, "= sum;\n    __syncthreads();", "= sum;")
    with pytest.raises(KernelFaultError, match=r"kernel block_sum.*y differs.*a race") as caught:
        sum_of_rows(run)
    assert "order: backward" in str(caught.value).splitlines()[0]


def test_a_race_between_blocks(plant: Plant) -> None:
    run = plant(BLOCK_SUM, "if (threadIdx.x == 0) y[blockIdx.x] = sum;", "if (threadIdx.x == 0) y[0] = sum;")
    with pytest.raises(KernelFaultError, match=r"y differs from the order forward"):
        sum_of_rows(run)


def test_a_barrier_in_divergent_code(plant: Plant) -> None:
    loop = "partial[threadIdx.x] += partial[threadIdx.x + half];\n        __syncthreads();"
    inside = "{ partial[threadIdx.x] += partial[threadIdx.x + half];\n        __syncthreads(); }"
    with pytest.raises(KernelFaultError) as caught:
        sum_of_rows(plant(BLOCK_SUM, loop, inside))
    text = str(caught.value)
    assert "kernel block_sum, block (0, 0, 0), thread (0, 0, 0)" in text
    assert "only a part of the block reaches __syncthreads()" in text
    assert "64 of 128 threads wait in __syncthreads() at" in text
    assert "block_sum.cu:17" in text


def test_two_barriers_that_meet(plant: Plant) -> None:
    other = "if (threadIdx.x < 64) __syncthreads();\n    else __syncthreads();"
    run = plant(BLOCK_SUM, "= sum;\n    __syncthreads();", "= sum;\n    " + other)
    with pytest.raises(KernelFaultError, match=r"divergent __syncthreads\(\).*block_sum.cu:1[45].*:1[45]"):
        sum_of_rows(run)


def test_threads_that_ended_before_a_barrier(plant: Plant) -> None:
    run = plant(BLOCK_SUM, "float sum = 0.0f;", "float sum = 0.0f;\n    if (threadIdx.x >= columns) return;")
    with pytest.raises(KernelFaultError, match="only a part of the block reaches") as caught:
        sum_of_rows(run, columns=100)
    assert "28 of 128 threads have ended, the first of them thread (100, 0, 0)" in str(caught.value)


def test_a_mask_without_the_caller(plant: Plant) -> None:
    run = plant(BLOCK_SUM, "0xFFFFFFFFu", "0xFFFFFFFEu")
    with pytest.raises(
        KernelFaultError, match="mask 0xfffffffe by lane 0, which the mask leaves out"
    ) as caught:
        sum_of_rows(run)
    assert "thread (0, 0, 0)" in str(caught.value)


def test_a_lane_of_the_mask_that_never_comes(plant: Plant) -> None:
    run = plant(BLOCK_SUM, "if (threadIdx.x < 32) {", "if (threadIdx.x < 24) {")
    with pytest.raises(KernelFaultError, match="__shfl_xor_sync") as caught:
        sum_of_rows(run)
    assert "have ended" in str(caught.value) or "has ended" in str(caught.value)


def test_a_shuffle_from_outside_its_mask(plant: Plant) -> None:
    run = plant(
        BLOCK_SUM, "__shfl_xor_sync(0xFFFFFFFFu,", "__shfl_xor_sync(threadIdx.x < 16 ? 0xFFFFu : ~0xFFFFu,"
    )
    with pytest.raises(KernelFaultError, match=r"reads lane \d+, which mask 0x\w+ leaves out"):
        sum_of_rows(run)


def test_uninitialised_shared_memory(plant: Plant) -> None:
    run = plant(
        BLOCK_SUM, "partial[threadIdx.x] = sum;", "if (threadIdx.x < columns) partial[threadIdx.x] = sum;"
    )
    with pytest.raises(KernelFaultError, match="uninitialised shared memory"):
        sum_of_rows(run, columns=100)


def test_static_shared_memory_overrun(plant: Plant) -> None:
    run = plant(BLOCK_SUM, "half >= 32", "half >= 32 && partial[threadIdx.x + 1] == partial[threadIdx.x + 1]")
    with pytest.raises(KernelFaultError, match="thread \\(127, 0, 0\\)") as caught:
        sum_of_rows(run)
    assert "out of bounds for type 'float [128]'" in str(caught.value)


def test_dynamic_shared_memory_overrun() -> None:
    with pytest.raises(KernelFaultError, match="byte 1008 of dynamic shared memory") as caught:
        reversed_tiles(HostRunner(PROBES), shared_bytes=1008)
    assert "kernel reverse, block (0, 0, 0), thread (63, 0, 0)" in str(caught.value)


def test_a_misaligned_float4(plant: Plant) -> None:
    run = plant(REVERSE, "(x + 4 * i)", "(x + 4 * i + 1)")
    with pytest.raises(KernelFaultError, match="kernel reverse, block") as caught:
        reversed_tiles(run)
    assert "misaligned address" in str(caught.value)
    assert "float4" in str(caught.value)


def test_a_bound_off_by_one(plant: Plant) -> None:
    run = plant(KERNELS / "relu.cu", "i >= count", "i > count")
    with pytest.raises(
        KernelFaultError,
        match=r"thread \(100, 0, 0\).*relu.cu:16: access 0 bytes behind the end of y \(400 bytes\)",
    ):
        relu(run, random_floats(100))


def test_a_window_too_many(plant: Plant) -> None:
    run = plant(KERNELS / "conv1d.cu", "- width + 1;", "- width + 2;")
    x, weight, bias = random_floats(8, 4), random_floats(3, 4, 3), random_floats(3)
    with pytest.raises(KernelFaultError, match="0 bytes behind the end of x"):
        conv1d(run, x, weight, bias, np.array([0, 4, 8], np.int32), poisoned((8, 3)), (4, 1))


def test_an_int_index_that_needs_64_bits(plant: Plant) -> None:
    run = plant(
        KERNELS / "embedding.cu", "static_cast<long long>(ids[token]) * dimension", "ids[token] * dimension"
    )
    with pytest.raises(KernelFaultError, match="kernel embedding, block") as caught:
        # An id as a table of 8 GiB has it; the overflow is found before the table is read.
        embedding(run, np.full(1, 1 << 24, np.int32), random_floats(2, 128), poisoned((1, 128)))
    assert "signed integer overflow: 16777216 * 128" in str(caught.value)


def test_an_unwritten_output(plant: Plant) -> None:
    run = plant(KERNELS / "linear.cu", "y[i] = sum", "if (output + 1 < outputs || row > 0) y[i] = sum")
    x, weight, bias = random_floats(3, 8), random_floats(5, 8), random_floats(5)
    y = poisoned((3, 5))
    linear(run, x, weight, bias, y)
    with pytest.raises(AssertionError, match=r"1 of 15 values differ.*at \(0, 4\): got nan"):
        check(y, x.astype(np.float64) @ weight.T + bias)


def test_a_write_to_what_is_only_read(plant: Plant) -> None:
    run = plant(
        KERNELS / "softmax.cu", "y + row * columns, columns", "const_cast<float*>(x) + row * columns, columns"
    )
    with pytest.raises(KernelFaultError, match=r"x \(24 bytes\), which the kernel may only read"):
        softmax(run, random_floats(2, 3), poisoned((2, 3)))


def test_a_block_larger_than_the_launch_bound(plant: Plant) -> None:
    run = plant(KERNELS / "relu.cu", "__launch_bounds__(THREADS)", "__launch_bounds__(THREADS / 2)")
    with pytest.raises(KernelFaultError, match="a block of 256 threads, but __launch_bounds__ allows 128"):
        relu(run, random_floats(100))


def test_an_empty_grid() -> None:
    with pytest.raises(KernelFaultError, match="kernel relu: the grid is empty"):
        relu(HostRunner(), np.zeros(0, np.float32))


def test_sums_of_floats_in_any_order(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void total(const float* x, float* y) { atomicAdd(y, x[threadIdx.x]); }'
    (tmp_path / "total.cu").write_text(text, encoding="utf-8")
    kernel = Kernel("total", (Array("x", "float32"), Array("y", "float32", written=True)))
    launch = Launch(kernel, (), (1, 1, 1), (64, 1, 1))
    x = random_floats(64)
    with pytest.raises(KernelFaultError, match="y differs from the order forward"):
        HostRunner(tmp_path)(launch, x, np.zeros(1, np.float32))
    y = np.zeros(1, np.float32)
    HostRunner(tmp_path, order_dependent=True)(launch, x, y)
    check(y, x.sum(keepdims=True), 1e-5)


def test_a_stride_gone_wrong(plant: Plant) -> None:
    run = plant(KERNELS / "embedding.cu", "* dimension + column]", "* dimension * 1000 + column]")
    with pytest.raises(KernelFaultError, match=r"access \d{5,} bytes behind the end of table \(1024 bytes\)"):
        embedding(run, np.ones(1, np.int32), random_floats(2, 128), poisoned((1, 128)))
