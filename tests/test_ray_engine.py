"""What a Ray cluster would be given, without Ray: tests/cluster starts real ones."""

from __future__ import annotations

import pickle
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ours
from ray_work import actor, asked, job_in, no_ray, shards_in

from accel_cli.commands import cli
from accel_cli.errors import AccelError, DeviceError, OutputError, RecordError, UsageError
from accel_cli.model.config import Config
from accel_cli.shards import ray_engine
from accel_cli.shards.job import Job
from accel_cli.shards.ray_actor import Failed, Outcome, Unfit
from accel_cli.shards.ray_address import Place, RayError
from accel_cli.shards.ray_cluster import Cluster
from accel_cli.shards.ray_engine import run_on_ray, slots_of
from accel_cli.shards.ray_pool import cause
from accel_cli.shards.shard import Shard
from accel_cli.shards.tally import Tally
from accel_cli.shards.tries import Tries


@pytest.fixture
def job(tiny: Config, tmp_path: Path) -> Job:
    return job_in(tiny, tmp_path)


@pytest.fixture
def shards(job: Job, tmp_path: Path) -> list[Shard]:
    return shards_in(job, tmp_path)


class TestSlots:
    @pytest.mark.parametrize(
        ("resources", "device", "found"),
        [
            ({"CPU": 8.0, "GPU": 2.0, "accel": 3.0}, "auto", (2, "cuda", {"num_gpus": 1})),
            ({"CPU": 8.0, "GPU": 2.0}, "cuda", (2, "cuda", {"num_gpus": 1})),
            ({"CPU": 8.0, "GPU": 2.0}, "cpu", (8, "cpu", {"num_cpus": 1})),
            ({"CPU": 8.0}, "auto", (8, "cpu", {"num_cpus": 1})),
            ({"CPU": 8.0, "accel": 3.0}, "auto", (3, "cpu", {"num_cpus": 0, "resources": {"accel": 1}})),
        ],
    )
    def test_gpus_then_accel_then_cpus(
        self, resources: dict[str, float], device: str, found: tuple[int, str, dict[str, Any]]
    ) -> None:
        slots = slots_of(resources, device)
        assert (slots.count, slots.device, slots.request) == found

    def test_a_gpu_that_is_not_there(self) -> None:
        with pytest.raises(DeviceError, match="the cluster has no GPU; add a node with one, or say cpu"):
            slots_of({"CPU": 8.0}, "cuda")

    def test_a_cluster_of_nothing(self) -> None:
        with pytest.raises(DeviceError, match="no GPU, no resource `accel` and no CPU"):
            slots_of({"GPU": 1.0}, "cpu")

    @pytest.mark.parametrize("device", ["cuda:0", "cuda:0,1"])
    def test_which_gpu_is_for_ray_to_say(self, device: str) -> None:
        with pytest.raises(UsageError, match="say auto, cpu or cuda"):
            slots_of({"GPU": 8.0}, device)


class TestRound:
    """What the driver makes of the outcomes."""

    def test_a_shard_is_tried_once_more_and_then_named(
        self, job: Job, shards: list[Shard], recwarn: pytest.WarningsRecorder
    ) -> None:
        one, tally = actor(job), Tally()

        def outcomes(some: Sequence[Shard]) -> list[tuple[Shard, Outcome]]:
            return [(s, Failed("a device") if s is shards[1] else asked(one, s)) for s in some]

        once = ray_engine._Round(job, tally, outcomes)
        again = once.run(shards, last=False)
        assert again == [shards[1]]
        assert f"{shards[1]} failed (a device)" in str(recwarn.pop().message)
        assert once.run(again, last=True) == []
        assert sorted(tally.written) == [0, 2]
        with pytest.raises(AccelError, match=r"failed twice: .*in\.txt, bytes 120 to .* \(a device\)"):
            tally.check()

    def test_a_broken_record_is_not_tried_again(
        self, job: Job, shards: list[Shard], recwarn: pytest.WarningsRecorder
    ) -> None:
        one, tally = actor(job), Tally()
        once = ray_engine._Round(job, tally, lambda some: [(shard, asked(one, shard)) for shard in some])
        assert once.run(shards, last=False) == []
        assert not ours(recwarn)
        assert sorted(tally.written) == [0, 2]
        with pytest.raises(RecordError, match=r"^failed: .*in\.txt, bytes 120 to .* \(line 1 there: .*UTF-8"):
            tally.check()

    def test_a_node_that_is_unfit_ends_the_run(self, job: Job, shards: list[Shard]) -> None:
        once = ray_engine._Round(job, Tally(), lambda some: [(some[0], Unfit("no model"))])
        with pytest.raises(RayError, match="no model"):
            once.run(shards, last=False)

    def test_a_part_that_cannot_be_written_ends_the_run(
        self, job: Job, shards: list[Shard], recwarn: pytest.WarningsRecorder
    ) -> None:
        (job.output / "part-000000.tsv").mkdir()
        one, tally = actor(job), Tally()
        once = ray_engine._Round(job, tally, lambda some: ((shard, asked(one, shard)) for shard in some))
        with pytest.raises(
            RayError, match=rf"^on {socket.gethostname()}: .*part-000000.tsv is a folder; move"
        ):
            once.run(shards, last=False)
        assert not ours(recwarn)
        assert tally.written == {}
        assert tally.failures == []

    def test_a_shard_whose_worker_died_is_told_once(
        self, job: Job, shards: list[Shard], recwarn: pytest.WarningsRecorder
    ) -> None:
        """Not those that waited behind it, nor one that has had enough of workers."""
        tally = Tally()
        for number in (0, 2, 2):
            assert Tries(job.output, number).begin()
        for shard in (*shards, *shards):
            ray_engine._lost(job, tally, shard)
        assert ours(recwarn) == [f"{shards[0]} failed (its worker died); it is tried once more"]

    def test_a_folder_that_is_gone_is_not_waited_for(self, job: Job, shards: list[Shard]) -> None:
        job.output.rename(f"{job.output}.away")
        with pytest.raises(OutputError, match="out: No such file or directory; mend that, then go on with"):
            ray_engine._see(job.output / "part-000000.tsv", "elsewhere:1")

    def test_a_part_of_this_machine_that_is_gone_is_not_waited_for(
        self, job: Job, shards: list[Shard]
    ) -> None:
        part = job.output / "part-000000.tsv"
        with pytest.raises(OutputError, match=f"{part} was written, but is gone; go on with --resume"):
            ray_engine._see(part, f"{socket.gethostname()}:1")

    @pytest.mark.parametrize(
        ("resources", "able"), [({"CPU": 2.0}, True), ({"CPU": 0.5}, False), ({}, False)]
    )
    def test_a_cluster_that_can_run_workers(
        self, monkeypatch: pytest.MonkeyPatch, resources: dict[str, float], able: bool
    ) -> None:
        monkeypatch.setattr(Place, "reach", lambda self: True)
        ray = SimpleNamespace(cluster_resources=lambda: resources)
        assert ray_engine._able(ray, Place("host:1"), "CPU") == able

    def test_a_cluster_without_a_head_can_run_none(self) -> None:
        assert not ray_engine._able(SimpleNamespace(), Place("127.0.0.1:1"), "CPU")

    def test_a_part_that_cannot_be_seen_from_here(
        self, job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ray_engine, "_PATIENCE", 0.0)
        with pytest.raises(OutputError, match="was written on another node, but is not here"):
            ray_engine._see(job.output / "part-000000.tsv", "elsewhere:1")


class TestDriver:
    @pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:1"])
    def test_no_folder_is_made_for_a_cluster_that_is_not_there(self, tmp_path: Path, address: str) -> None:
        lines = tmp_path / "lines.txt"
        lines.write_text("good\nbad\n")
        line = ["run", "--input", str(lines), "--output", f"{tmp_path}/out/", "--engine", "ray"]
        with pytest.raises(AccelError, match=address):
            cli.main([*line, "--address", address], standalone_mode=False)
        assert not (tmp_path / "out").exists()

    def test_no_folder_is_made_where_no_cluster_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ray = no_ray(ConnectionError("Could not find any running Ray instance. Please specify one."))
        monkeypatch.setitem(sys.modules, "ray", ray)
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        lines = tmp_path / "lines.txt"
        lines.write_text("good\nbad\n")
        line = ["run", "--input", str(lines), "--output", f"{tmp_path}/out/", "--engine", "ray"]
        for address in ([], ["--address", "auto"]):
            with pytest.raises(
                RayError,
                match=r"--address auto: no Ray cluster runs here \(Could [a-zA-Z ]*\); start one with",
            ):
                cli.main([*line, *address], standalone_mode=False)
        assert not (tmp_path / "out").exists()
        assert "stopped early" not in capsys.readouterr().err

    def test_without_ray(self, job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
        with pytest.raises(AccelError, match=r'--engine ray needs the extra `ray` .*pip install ".\[ray\]"'):
            run_on_ray(job, shards, "cpu", Cluster("local"), Tally())

    def test_the_cause_is_the_innermost_error(self) -> None:
        inner = "ModuleNotFoundError: No module named 'accel_cli'"
        said = f"\x1b[36mray::X()\x1b[39m\n  File\n{inner}\n\nThe above\nray.exceptions.UserError: x"
        assert cause(Exception(said)) == inner
        assert cause(Exception("the actor died")) == "the actor died"
        assert cause(Exception()) == ""

    def test_paths_do_not_depend_on_the_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        assert ray_engine._absolute(Shard(0, "in.txt")).path == str(tmp_path / "in.txt")
        assert ray_engine._absolute(Shard(0, "s3://bucket/in.txt")).path == "s3://bucket/in.txt"

    def test_a_job_travels(self, job: Job) -> None:
        assert pickle.loads(pickle.dumps(job)) == job
