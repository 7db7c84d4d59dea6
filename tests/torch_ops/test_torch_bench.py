"""python -m accel_cli.torch.bench without a GPU: the CPU's tensors, a fake clock."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import fake_cupy
import fake_streams
import pytest
from click.testing import CliRunner
from graphs import compiled_graphs

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from accel_cli.errors import AccelError  # noqa: E402
from accel_cli.torch import bench  # noqa: E402

pytestmark = pytest.mark.extras


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    fake_streams.fake_driver(monkeypatch)
    monkeypatch.setattr(bench, "_can_compile", lambda: False)
    return module


def measured() -> list[bench.Row]:
    return bench.measure(torch.device("cpu"), 3, lambda message: None, [(8, 5), (8, 16)])


def test_every_program_is_checked_and_timed() -> None:
    rows = measured()
    assert [row.program for row in rows[:3]] == ["copy", "eager", "accel"]
    assert len(rows) == 2 * 3 * 3
    assert {row.dtype for row in rows} == {"float32", "float16", "bfloat16"}
    assert all(len(row.timing.seconds) == 3 for row in rows)
    assert all(row.max_error == 0 for row in rows if row.program == "copy")


def test_all_types_and_shapes_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = compiled_graphs(monkeypatch)
    monkeypatch.setattr(bench, "_can_compile", lambda: True)
    bench.measure(torch.device("cpu"), 1, lambda message: None, [(8, 4), (8, 5), (8, 6), (8, 7)])
    assert len(graphs) == 4 * 3


def test_rates_count_the_passes_that_are_needed(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.cycle([2.0] * 4 + [7.0] * 4 + [3.0] * 4)  # a warm-up and three repeats of each
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda begin, end: next(times))
    rows = measured()
    copy, eager, accel = (row.as_json(rows) for row in rows[:3])
    assert copy["gb_per_s"] == pytest.approx(2 * 40 * 4 / 2e-3 / 1e9)
    assert accel["gb_per_s"] == pytest.approx(copy["gb_per_s"])
    assert (copy["percent_of_copy"], accel["percent_of_copy"]) == (100, 100)
    assert eager["percent_of_copy"] == 42.8571
    assert (copy["x_eager"], eager["x_eager"], accel["x_eager"]) == (None, 1, 2.33333)


def test_what_is_wrong_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "fused_relu_add", lambda x, y, bias: x + y + bias)
    with pytest.raises(
        AccelError, match=r"not timed, because accel is wrong by .* at 8 x 5 of torch.float32"
    ):
        measured()


def test_the_command_writes_what_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "choose_gpu", lambda device, what: "cuda:0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "device", lambda place: "cpu")
    monkeypatch.setattr(torch.cuda, "device", fake_cupy.Device)
    monkeypatch.setattr(bench, "provenance", lambda gpu, programs: {"gpu": gpu.name, "with": programs})
    monkeypatch.setattr(bench.measure, "__defaults__", ([(8, 5)],))
    path = tmp_path / "relu-add.json"
    done = CliRunner().invoke(bench.main, ["--json", str(path), "--repeats", "2"])
    assert done.exit_code == 0, done.output
    document = json.loads(path.read_text())
    assert (document["suite"], document["gpu"]) == ("relu-add", "Fake H200")
    assert document["with"] == [f"pytorch {torch.__version__}"]
    assert [row["program"] for row in document["rows"][:3]] == ["copy", "eager", "accel"]
    assert "bfloat16  8x5" in done.output
    again = CliRunner().invoke(bench.main, ["--json", str(path), "--repeats", "2"])
    assert again.exit_code == 1
    assert "exists already" in again.output


def test_a_cpu_is_not_measured() -> None:
    done = CliRunner().invoke(bench.main, ["--device", "cpu"])
    assert done.exit_code == 1
    assert "--device cpu: accel_cli.torch.bench needs a GPU; name one with --device cuda:N" in done.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="this PyTorch has CUDA")
def test_a_pytorch_without_cuda_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "choose_gpu", lambda device, what: "cuda:0")
    done = CliRunner().invoke(bench.main, [])
    assert done.exit_code == 1
    assert f"this PyTorch ({torch.__version__}) has no CUDA; install one that has" in done.output
