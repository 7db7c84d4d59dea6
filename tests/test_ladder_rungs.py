"""Which rungs a ladder has, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import ladders
import pytest

from accel_cli.bench.ladder_inputs import KINDS
from accel_cli.bench.rungs import PACKAGED, numbers, rungs
from accel_cli.cuda import device
from accel_cli.errors import DeviceError, UsageError
from accel_cli.model.config import load_config


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ladders.make_ladder(tmp_path_factory.mktemp("climbed"))


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(folder.parent, tmp_path / "own")) / "ladder"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    ladders.fake_gpu(monkeypatch)


class TestRungs:
    def test_the_packaged_ladder_climbs_over_the_school_network(self, gpu: None) -> None:
        found = rungs(PACKAGED, None, "auto")
        assert [rung.number for rung in found] == sorted(ladders.WHOLE)
        assert {rung.config.model for rung in found} == {load_config("school").model}
        assert [rung.plan.device for rung in found] == ["cpu"] + ["cuda:0"] * 18
        precisions = [rung.plan.precision for rung in found]
        tensor = ["fp16", "tf32", "bf16", "fp16", "fp32-split", "fp32-split", "fp32-split", "fp16"]
        assert precisions == ["fp32"] * 11 + tensor
        assert {rung.number for rung in found if rung.kinds == ("ids",)} == {17, 18}

    def test_a_table_takes_no_embeddings_on_a_cpu_either(self, own: Path) -> None:
        (own / "19-table.yaml").write_text("extends: 00-cpu.yaml\nplan: {convolution: folded}\n")
        assert [rung.kinds for rung in rungs(own, frozenset({0, 19}), "auto")] == [KINDS, ("ids",)]

    def test_some_of_them_on_another_gpu(self, gpu: None, folder: Path) -> None:
        found = rungs(folder, numbers("0,9-10"), "cuda:1")
        assert [(rung.number, rung.plan.device) for rung in found] == [
            (0, "cpu"),
            (9, "cuda:1"),
            (10, "cuda:1"),
        ]
        assert str(found[-1]) == "rung 10 (toomcook)"

    @pytest.mark.parametrize(("text", "found"), [("4", {4}), ("4,6-8", {4, 6, 7, 8}), (" 1 , 1-2", {1, 2})])
    def test_numbers(self, text: str, found: set[int]) -> None:
        assert numbers(text) == found

    @pytest.mark.parametrize("text", ["", "a", "4-", "6-4", "1,,2", "-1"])
    def test_what_is_no_list_of_rungs(self, text: str) -> None:
        with pytest.raises(UsageError, match=r"no number and no range; write 4 or 6-10"):
            numbers(text)

    def test_refusals(self, gpu: None, own: Path, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"has no rung 99; there are 0, 1, .*10"):
            rungs(own, frozenset({1, 99}), "auto")
        with pytest.raises(UsageError, match=r"no rungs there; they are files like 00-cpu.yaml"):
            rungs(tmp_path, None, "auto")
        with pytest.raises(UsageError, match=r"--device cpu: a rung says where it runs; .*--rungs 0"):
            rungs(own, None, "cpu")

    def test_other_models_are_refused(self, own: Path) -> None:
        (own / "19-other.yaml").write_text("extends: 00-cpu.yaml\nmodel: {filters: 9}\n")
        with pytest.raises(UsageError, match=r"19-other.yaml: another model than that of rung 0 \(cpu\)"):
            rungs(own, frozenset({0, 19}), "auto")

    @pytest.mark.parametrize(
        ("key", "message"), [("length", "set model.length"), ("golden", "no rung is timed unchecked")]
    )
    def test_models_without_what_a_ladder_needs(self, own: Path, key: str, message: str) -> None:
        model = {name: value for name, value in ladders.MODEL.items() if name != key}
        ladders.write(own.parent / "school.yaml", {"model": model})
        with pytest.raises(UsageError, match=message):
            rungs(own, frozenset({0}), "auto")

    def test_without_a_gpu_the_rung_is_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device, "missing", lambda: "no driver")
        with pytest.raises(DeviceError, match=r"^rung 1 \(gpu\): it needs a GPU, and no driver, or leave"):
            rungs(folder, None, "auto")
