"""accel bench --suite gemm without a GPU: kernels run on the CPU, numpy stands in for cuBLAS."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_cupy
import fake_streams
import numpy as np
import pytest

from accel_cli.bench import device_clock, gemm, gemm_report, tensor_gemm
from accel_cli.bench.ceiling import Ceiling
from accel_cli.bench.device_clock import device_times, times_in_turns
from accel_cli.bench.operands import Matrices, traffic
from accel_cli.commands.bench import command
from accel_cli.cuda import device, driver
from accel_cli.cuda.device import facts
from accel_cli.cuda.errors import DeviceLost
from accel_cli.engines import tiles
from accel_cli.engines.tuned import Product, Tuned, Winner, own_file
from accel_cli.errors import AccelError, DeviceError, UsageError
from accel_cli.kernels.sgemm_tile import DEFAULT, Tile

FLAT = Tile(32, 64, 16, 4, 4, 3)
PRODUCTS = (Product(33, 21, 18), Product(5, 2, 12), Product(9, 20, 8, batch=2))


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    if out is not None:
        fake_cupy.Stream.current().enqueue(lambda: np.matmul(a, b, out=out))
    return out


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    module = fake_cupy.module()
    module.matmul = matmul
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(gemm, "Launcher", fake_cupy.Launcher)
    fake_streams.fake_driver(monkeypatch)
    monkeypatch.setattr(gemm, "measure_ceiling", lambda index: Ceiling("cuBLAS", 64, 1e9, 1e9))
    monkeypatch.setattr(tiles, "USUAL", {DEFAULT: 1.0})
    monkeypatch.setitem(fake_cupy.PROPERTIES, "l2CacheSize", 2000)
    return module


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our kernels in numpy too: what they compute is not the matter here."""

    def plain(a: Any, weight: Any, bias: Any, y: Any, *sizes: int) -> None:
        y[:] = a @ weight.T + bias

    def narrow(a: Any, weight: Any, bias: Any, y: Any, *rest: Any) -> None:
        plain(a.view(np.float32), weight, bias, y)

    def packed(
        a: Any, starts: Any, ids: Any, b: Any, bias: Any, gate: Any, owners: Any, y: Any, *sizes: int
    ) -> None:
        y[:] = (a @ b)[..., : y.shape[-1]]

    for name, kernel in (("_gemm_tiled", plain), ("_skinny", narrow), ("_sgemm", packed)):
        monkeypatch.setattr(fake_cupy, name, kernel, raising=False)


def tune(*winners: Winner) -> None:
    path = own_file(facts(0))
    path.parent.mkdir(parents=True)
    path.write_text(Tuned("Fake H200", winners).text())


@pytest.mark.extras
def test_every_program_is_checked_timed_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tune(Winner(PRODUCTS[0], FLAT, 1.0))
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(gemm_report, "provenance", lambda gpu: {"machine": {"gpu": gpu.name}})
    monkeypatch.setattr(gemm.run, "__defaults__", (PRODUCTS,))
    path = tmp_path / "gemm.json"
    command.main(
        ["--suite", "gemm", "--device", "cuda:0", "--repeats", "2", "--json", str(path)],
        standalone_mode=False,
    )
    document = json.loads(path.read_text())
    assert (document["suite"], document["machine"]["gpu"]) == ("gemm", "Fake H200")
    assert document["precision"] == "fp32"
    rows = document["rows"]
    assert [row["program"] for row in rows if row["product"] == "33x21x18"] == [
        "naive", "tiled", "sgemm", "sgemm, tuned", "cuBLAS"
    ]  # fmt: skip
    assert [row["program"] for row in rows if row["product"] == "5x2x12"] == [
        "naive", "tiled", "sgemm", "skinny", "cuBLAS"
    ]  # fmt: skip
    assert len([row for row in rows if row["product"] == "2 x 9x20x8"]) == 5
    tuned = next(row for row in rows if row["program"] == "sgemm, tuned")
    assert (tuned["tile"], tuned["x_cublas"], len(tuned["repeats"])) == ([*vars(FLAT).values()], 1.0, 2)
    assert tuned["us"] == pytest.approx(1000.0)  # what the clock says
    assert tuned["tflop_per_s"] == pytest.approx(PRODUCTS[0].flop / 1e-3 / 1e12, rel=1e-5)
    assert tuned["gb_per_s"] == pytest.approx(traffic(PRODUCTS[0]) / 1e-3 / 1e9, rel=1e-5)
    assert tuned["percent_of_ceiling"] == pytest.approx(100 * PRODUCTS[0].flop / 1e-3 / 1e9, rel=1e-5)
    assert all(0 <= row["max_error"] < 1e-5 for row in rows)
    lines = capsys.readouterr().out.splitlines()
    assert "cuBLAS at 64^3: TFLOP/s 0.0 in fp32" in lines[0]
    assert len(lines) == 2 + len(rows)


@pytest.mark.usefixtures("quick")
def test_without_cublas_its_column_is_empty(cupy: Any) -> None:
    def missing(*_: Any) -> None:
        raise ImportError("libcublas.so.13: cannot open shared object file\nmore")

    cupy.matmul = missing
    told: list[str] = []
    report = gemm.run("cuda:0", 1, told.append, (PRODUCTS[1],))
    assert [row.program for row in report.rows] == ["naive", "tiled", "sgemm", "skinny"]
    assert {row.x_cublas for row in report.rows} == {None}
    assert "no cuBLAS here" in told[0]
    assert "(libcublas.so.13: cannot open shared object file); install the library" in told[0]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda y: y.__setitem__((..., 0), 3.0),
            r"not timed, because cuBLAS at 5x2x12 is wrong: .* values differ",
        ),
        (lambda y: y.fill(np.nan), r"is wrong: .*; fp32 without TF32 is asked for, so unset CUPY_TF32"),
    ],
)
def test_nothing_is_timed_beside_a_wrong_program(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, spoil: Any, message: str
) -> None:
    def wrong(a: Any, b: Any, out: Any = None) -> None:
        matmul(a, b, out)
        if out is not None:
            fake_cupy.Stream.current().enqueue(lambda: spoil(out))

    monkeypatch.setattr(gemm, "times_in_turns", lambda *_, **__: pytest.fail("timed"))
    cupy.matmul = wrong
    with pytest.raises(AccelError, match=message):
        gemm.run("cuda:0", 1, lambda message: None, (PRODUCTS[1],))


@pytest.mark.usefixtures("quick")
def test_a_call_of_more_than_a_tenth_of_a_second_is_timed_once(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([150.0, *[50.0] * 100])
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda begin, end: next(times))
    report = gemm.run("cuda:0", 3, lambda message: None, (PRODUCTS[1],))
    assert [len(row.timing.seconds) for row in report.rows][:2] == [1, 3]


@pytest.mark.usefixtures("quick")
def test_rows_that_are_not_checked_in_float64_are_compared_with_the_naive_product(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(a: Any, b: Any, out: Any = None) -> None:
        matmul(a, b, out)
        if out is not None:
            fake_cupy.Stream.current().enqueue(lambda: out.__setitem__(unseen, 9.0))

    product = Product(200, 2, 3)
    checked = Matrices(product, 1).rows
    unseen = next(row for row in range(200) if row not in checked)
    cupy.matmul = wrong
    with pytest.raises(AccelError, match=r"cuBLAS at 200x2x3 is wrong: it is .* from the naive product"):
        gemm.run("cuda:0", 1, lambda message: None, (product,))


def test_operands_do_not_fit_the_cache_together() -> None:
    product = Product(100, 30, 20)
    matrices = Matrices(product, 50_000)
    assert len(matrices.copies) == 5
    assert len({copy.a.ctypes.data for copy in matrices.copies}) == 5
    assert traffic(product) * len(matrices.copies) >= 2 * 50_000
    assert len(Matrices(product, 10).copies) == 1
    copy = matrices.copies[0]
    np.testing.assert_array_equal(copy.b[0].T, copy.weight[0])
    np.testing.assert_array_equal(copy.packed[0, :, :30], copy.b[0])
    assert copy.packed.shape == (1, 20, 32)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_without_a_gpu_it_says_why(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    monkeypatch.setattr(device, "missing", lambda: "no driver")
    with pytest.raises(DeviceError, match=r"^--suite gemm needs a GPU, and no driver$"):
        command.main(["--suite", "gemm", "--precision", precision], standalone_mode=False)


@pytest.mark.parametrize("given", ["--ladder", "--profile", "--batch 7", "--picture a.svg", "--tokens 9"])
def test_what_it_would_not_heed_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match=f"{given}.*: with --suite gemm nothing but products is measured"):
        command.main(["--suite", "gemm", *given.split()], standalone_mode=False)


@pytest.mark.parametrize(("precision", "module"), [("fp32", gemm), ("bf16", tensor_gemm)])
def test_a_precision_may_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, precision: str, module: ModuleType
) -> None:
    def asked(*given: Any) -> None:
        raise UsageError(f"asked of {given[0]}")

    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(module, "run", asked)
    line = ["--suite", "gemm", "--device", "cuda:0", "--precision", precision]
    with pytest.raises(UsageError, match="asked of cuda:0"):
        command.main(line, standalone_mode=False)


def test_the_networks_own_products_are_among_them() -> None:
    names = set(map(str, gemm.PRODUCTS))
    assert {
        "28672x1024x12288",
        "16384x1024x36864",
        "18 x 2048x4096x4096",
        "2048x2x512",
        "333x261x77",
    } <= names


def test_the_clock_takes_calls_in_turn_and_gives_the_seconds_of_one(
    cupy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    came: list[int] = []
    stream = fake_cupy.Stream.current()
    calls = [lambda number=number: stream.enqueue(lambda: came.append(number)) for number in range(3)]
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda begin, end: 0.25)
    timing = device_times(calls, 2)
    assert timing.seconds == (0.25e-3 / 5,) * 2  # five calls take a millisecond and more
    assert came == [number % 3 for number in range(1 + 5 + 2 * 5)]


def test_programs_take_turns(cupy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[str] = []
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda begin, end: 4.0 if came[-1] == "a" else 2.0)
    programs = [[lambda name=name: came.append(name)] for name in "ab"]
    found = times_in_turns(programs, 8)
    assert [timing.seconds for timing in found] == [(0.004,) * 8, (0.002,) * 8]
    assert "".join(came[:2]) == "ab"  # a call warms each up, and takes more than a millisecond
    rounds = {"".join(pair) for pair in zip(came[2::2], came[3::2], strict=True)}
    assert (len(came), rounds) == (2 + 2 * 8, {"ab", "ba"})


def test_calls_that_take_the_host_long_get_a_longer_head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[float] = []
    now = [0.0]
    monkeypatch.setattr(driver, "hold", lambda stream, seconds: held.append(seconds))
    monkeypatch.setattr(device_clock.time, "perf_counter", lambda: now[0])
    device_times(
        [lambda: now.__setitem__(0, now[0] + 0.005)], 1
    )  # a millisecond on the device, 5 on the host
    assert held == pytest.approx([0.002, 0.01])


def test_what_is_hopeless_is_not_measured_again(cupy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda begin, end: 4.0)
    assert device_times([lambda: calls.append(1)], 5, hopeless=0.003).seconds == (0.004,)
    assert len(calls) == 1
    assert device_times([lambda: calls.append(1)], 5, hopeless=0.005).seconds == (0.004,) * 5


def test_a_device_that_does_not_come_back_is_lost(cupy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "reached", lambda event: False)
    monkeypatch.setattr(device_clock, "_PATIENCE", 0.05)
    with pytest.raises(DeviceLost, match="the device has been busy with one kernel for"):
        device_times([lambda: None], 1)


def test_signals_are_answered_while_the_device_works(
    cupy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(event: Any) -> bool:
        signal.raise_signal(signal.SIGINT)
        return False

    monkeypatch.setattr(driver, "reached", reached)
    with pytest.raises(KeyboardInterrupt):
        device_times([lambda: None], 1)
