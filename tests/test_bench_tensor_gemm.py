"""accel bench --suite gemm --precision ... without a GPU: kernels run on the CPU, or numpy stands in."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_cupy
import fake_streams
import numpy as np
import pytest

from accel_cli.bench import gemm_report, tensor_gemm
from accel_cli.bench.ceiling import CUBLAS, Ceiling
from accel_cli.bench.gemm_report import GemmReport, show
from accel_cli.bench.operands import Matrices, traffic
from accel_cli.commands.bench import command
from accel_cli.cuda import device
from accel_cli.engines import tensor_tiles
from accel_cli.engines.tensor_products import TensorProducts
from accel_cli.engines.tuned import Product
from accel_cli.errors import AccelError, UsageError
from accel_cli.kernels.mma_gemm import MmaTile
from accel_cli.kernels.wgmma_gemm import WgmmaTile
from accel_cli.validation import TOLERANCE

pytestmark = pytest.mark.extras  # minutes of compiling

WGMMA, MMA = WgmmaTile(1, 1, 64, 2), MmaTile(32, 32, 16, 16, 2)
PRODUCT = Product(9, 8, 70)
OURS = ["wgmma", "wgmma, ReLU", "wgmma, experts", "mma", "mma, ReLU", "mma, experts"]
PACKED = ["wgmma, packed", "wgmma, cast and packed"]


def later(work: Any) -> None:
    fake_cupy.Stream.current().enqueue(work)


def matmul(a: Any, b: Any, out: Any = None) -> None:
    """With sums in fp32, as cuBLAS."""
    if out is not None:
        later(lambda: out.__setitem__(..., a.astype(np.float32) @ b.astype(np.float32)))


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = fake_cupy.module()
    module.matmul = matmul
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(tensor_gemm, "Launcher", fake_cupy.Launcher)
    fake_streams.fake_driver(monkeypatch)
    ceiling = Ceiling("cuBLAS", 64, 1e9, 1e9, {"fp16": 4e9})
    monkeypatch.setattr(tensor_gemm, "measure_ceiling", lambda index: ceiling)
    monkeypatch.setattr(tensor_tiles, "_USUAL", {"wgmma": {WGMMA: 1.0}, "mma": {MMA: 1.0}})
    monkeypatch.setitem(fake_cupy.PROPERTIES, "l2CacheSize", 1)
    return module


def load(x: Any, columns: int) -> Any:
    values = (x.astype(np.uint32) << 16).view(np.float32) if x.dtype == np.uint16 else x
    return values[..., :columns]


def store(values: Any, y: Any) -> None:
    values = np.ascontiguousarray(values, np.float32)
    y[..., : values.shape[-1]] = values.view(np.uint32) + 0x8000 >> 16 if y.dtype == np.uint16 else values


def plain(run: Any, x: Any, w: Any, bias: Any, y: Any, *, tile: Any, output: Any, relu: bool = False) -> None:
    floor = 0.0 if relu else -np.inf
    later(lambda: store(np.maximum(load(x, len(w)) @ w + bias, floor), y))


def experts(run: Any, h: Any, gate: Any, w: Any, bias: Any, y: Any, *, relu: bool, **_: Any) -> None:
    def weigh() -> None:
        each = (load(h, len(w)) @ w + bias).reshape(len(gate), -1, gate.shape[1])
        store(np.einsum("rhe,re->rh", each, gate), y)

    later(weigh)


def packed(run: Any, rows: Any, w: Any, bias: Any, y: Any, *, tile: Any, output: Any) -> None:
    size = y.shape[0] * len(w)
    plain(run, rows.reshape(-1)[:size].reshape(-1, len(w)), w, bias, y, tile=tile, output=output)


def cast_packed(run: Any, x: Any, y: Any, output: Any) -> None:
    later(lambda: store(x, y.reshape(-1)[: x.size].reshape(x.shape)))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Our kernels in numpy, for tf32 and bf16: what they compute is not the matter here.

    Gives how cuBLAS was switched to tf32 and back.
    """
    switched: list[str] = []

    @contextmanager
    def tf32() -> Iterator[None]:
        switched.append("on")
        yield
        switched.append("off")

    monkeypatch.setattr(TensorProducts, "cast", lambda self, x, y: later(lambda: store(x, y.array)))
    monkeypatch.setattr(TensorProducts, "packed", lambda self, weight: weight[..., 0].T)
    stand_ins = {"tensor_gemm": plain, "tensor_experts": experts, "tensor_packed": packed}
    for name, stand_in in {**stand_ins, "cast_packed": cast_packed, "tf32": tf32}.items():
        monkeypatch.setattr(tensor_gemm, name, stand_in)
    return switched


def measure(precision: str, *products: Product, tell: Any = lambda message: None) -> GemmReport:
    return tensor_gemm.run("cuda:0", precision, 1, tell, products)


def test_every_program_is_checked_timed_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(gemm_report, "provenance", lambda gpu: {"machine": {"gpu": gpu.name}})
    monkeypatch.setattr(tensor_gemm.run, "__defaults__", ((PRODUCT,),))
    monkeypatch.setitem(fake_cupy.PROPERTIES, "l2CacheSize", 2000)
    path = tmp_path / "gemm.json"
    line = ["--suite", "gemm", "--precision", "fp16", "--device", "cuda:0", "--repeats", "2"]
    command.main([*line, "--json", str(path)], standalone_mode=False)
    document = json.loads(path.read_text())
    assert (document["suite"], document["precision"]) == ("gemm", "fp16")
    rows = {row["program"]: row for row in document["rows"]}
    assert list(rows) == [*OURS, *PACKED, CUBLAS]
    staying = replace(WGMMA, blocks=132)  # one a processor
    for name, row in rows.items():
        tile = {"wgmma": [*vars(staying).values()], "mma": [*vars(MMA).values()], CUBLAS: None}
        assert row["tile"] == tile[name.split(",")[0]]
        assert (row["product"], row["copies"], row["x_cublas"]) == ("9x8x70", 2, 1.0)
        assert (row["us"], len(row["repeats"])) == (pytest.approx(1000.0), 2)  # what the clock says
        assert row["gb_per_s"] == pytest.approx(traffic(PRODUCT, 2) / 1e-3 / 1e9, rel=1e-5)
        assert row["percent_of_ceiling"] == pytest.approx(100 * PRODUCT.flop / 1e-3 / 4e9, rel=1e-5)
        assert 1e-5 < row["max_error"] < TOLERANCE["fp16"]
    lines = capsys.readouterr().out.splitlines()
    assert "gemm in fp16 on Fake H200" in lines[0]
    assert len(lines) == 2 + len(rows)


def test_other_gpus_measure_mma_alone_and_split_operands_beside_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fake_cupy.PROPERTIES, "major", 8)
    report = measure("fp32-split", Product(5, 7, 70))
    assert [row.program for row in report.rows] == ["mma", "mma, ReLU", CUBLAS]  # 7 columns: no experts
    assert all(row.max_error < 1e-5 for row in report.rows)
    assert {row.width for row in report.rows} == {4}
    assert report.best == 1e9


@pytest.mark.usefixtures("quick")
def test_cupy_multiplies_no_bfloat16() -> None:
    report = measure("bf16", PRODUCT)
    assert [row.program for row in report.rows] == [*OURS, *PACKED]
    assert {row.x_cublas for row in report.rows} == {None}
    assert {row.width for row in report.rows} == {2}
    assert report.best == 4e9


def test_tf32_is_switched_on_for_cublas_alone(quick: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[int] = []  # how often it was switched whenever cuBLAS was called
    monkeypatch.setattr(
        sys.modules["cupy"], "matmul", lambda *given, **out: came.append(len(quick)) or matmul(*given, **out)
    )
    report = measure("tf32", PRODUCT, Product(5, 7, 12))
    assert [row.program for row in report.rows if row.product == PRODUCT] == [*OURS, *PACKED, CUBLAS]
    assert came == [0, *range(1, len(quick), 2)]  # the first call is only to see whether there is a cuBLAS
    assert quick == ["on", "off"] * (len(quick) // 2)


@pytest.mark.usefixtures("quick")
def test_a_ceiling_that_is_not_known_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gemm_report, "provenance", lambda gpu: {})
    report = measure("tf32", PRODUCT)
    assert {row["percent_of_ceiling"] for row in json.loads(report.text())["rows"]} == {None}
    show(report)
    assert capsys.readouterr().out.splitlines()[-1].split()[-3:-1] == ["-", "1.000"]


@pytest.mark.usefixtures("quick")
def test_without_cublas_its_column_is_empty(cupy: Any) -> None:
    def missing(*_: Any) -> None:
        raise ImportError("libcublas.so.13: cannot open shared object file")

    cupy.matmul = missing
    told: list[str] = []
    report = measure("tf32", PRODUCT, tell=told.append)
    assert [row.program for row in report.rows] == [*OURS, *PACKED]
    assert {row.x_cublas for row in report.rows} == {None}
    assert "no cuBLAS here" in told[0]


def wrong(run: Any, *arrays: Any, **kind: Any) -> None:
    plain(run, *arrays, **kind)
    if kind["relu"]:
        later(lambda: arrays[-1].__setitem__((0, 0), -3.0))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "spoilt", "message"),
    [
        ("tensor_gemm", wrong, "wgmma, ReLU at 9x8x70 is wrong: 1 of .* values differ"),
        ("tensor_experts", lambda *_, **__: None, "wgmma, experts at 9x8x70 is wrong: .* got nan"),
    ],
)
def test_nothing_is_timed_where_a_program_is_wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, spoilt: Any, message: str
) -> None:
    monkeypatch.setattr(tensor_gemm, name, spoilt)
    monkeypatch.setattr(tensor_gemm, "times_in_turns", lambda programs, repeats: pytest.fail("timed"))
    with pytest.raises(AccelError, match=f"not timed, because {message}"):
        measure("tf32", PRODUCT)


@pytest.mark.usefixtures("quick")
def test_rows_that_are_not_checked_in_float64_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    product = Product(200, 2, 3)
    unseen = next(row for row in range(200) if row not in Matrices(product, 1).rows)

    def unfinished(run: Any, *arrays: Any, **kind: Any) -> None:
        plain(run, *arrays, **kind)
        later(lambda: arrays[-1].__setitem__((unseen, 1), np.nan))

    monkeypatch.setattr(tensor_gemm, "tensor_gemm", unfinished)
    with pytest.raises(AccelError, match="wgmma at 200x2x3 is wrong: it leaves values unwritten"):
        measure("tf32", product)


@pytest.mark.usefixtures("quick")
def test_rows_must_be_packed_within_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call packs is gone before: rows that others packed do not serve it."""
    came: list[Any] = []

    def once(*arrays: Any) -> None:
        came.append(arrays)
        if len(came) == 1:
            cast_packed(*arrays)

    monkeypatch.setattr(tensor_gemm, "cast_packed", once)
    with pytest.raises(AccelError, match="wgmma, cast and packed at 9x8x70 is wrong"):
        measure("tf32", PRODUCT)


@pytest.mark.parametrize("precision", ["int8", "auto", "fp32"])
def test_an_unknown_precision_is_refused(precision: str) -> None:
    known = "products are measured in fp32, tf32, fp16, bf16, fp32-split"
    with pytest.raises(UsageError, match=f"--precision {precision}: {known}"):
        measure(precision)


def test_the_networks_own_products_are_among_them() -> None:
    names = set(map(str, tensor_gemm.PRODUCTS))
    assert {
        "4096x4096x4096",
        "57344x1024x12288",
        "32768x1024x36864",
        "4096x8192x4096",
        "1000x777x333",
    } <= names
