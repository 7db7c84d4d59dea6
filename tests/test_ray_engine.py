"""What a Ray cluster would be given and what its actors say, without Ray: tests/cluster starts real ones."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accel_cli import __version__
from accel_cli.commands import cli
from accel_cli.errors import AccelError, AccelWarning, DeviceError, OutputError, UsageError
from accel_cli.model.config import Config
from accel_cli.shards import ray_engine
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job
from accel_cli.shards.manifest import Manifest
from accel_cli.shards.ray_actor import Failed, Outcome, ShardActor, Unfit, Written
from accel_cli.shards.ray_cluster import Cluster, RayError
from accel_cli.shards.ray_engine import run_on_ray, slots_of
from accel_cli.shards.ray_pool import cause
from accel_cli.shards.shard import Shard, shards_of
from accel_cli.shards.tally import Tally
from accel_cli.shards.tries import Tries
from accel_cli.shards.worker import Draft, ShardWorker
from accel_cli.text.readers import Source


class Exited(Exception):
    """os._exit was called."""


@pytest.fixture
def job(tiny: Config, tmp_path: Path) -> Job:
    config = replace(tiny, plan=tiny.plan.overridden(streams=1))
    return Job(config, tmp_path / "out", on_error="fail")


@pytest.fixture
def shards(job: Job, tmp_path: Path) -> list[Shard]:
    """Three shards, of which the second has a line that is not UTF-8, and a folder for their parts."""
    path = tmp_path / "in.txt"
    path.write_bytes(b"a good film\n" * 10 + b"bad \xff\n" * 20 + b"not\n" * 20)
    sources = [Source(str(path))]
    found = shards_of(sources, 120)
    with OutputFolder.opened(job.output) as folder:
        folder.begin(Manifest.of(job, sources, 120, len(found)))
    return found


def actor(job: Job, version: str = __version__) -> ShardActor:
    return ShardActor(job, "cpu", "CPU", version)


def asked(one: ShardActor, shard: Shard) -> Outcome:
    back: Outcome = pickle.loads(pickle.dumps(one.run(pickle.loads(pickle.dumps(shard)))))
    return back


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


class TestActor:
    def test_a_part_is_written(self, job: Job, shards: list[Shard]) -> None:
        found = asked(actor(job), shards[0])
        assert isinstance(found, Written)
        assert (found.summary.sentences, found.read) == (10, 120)
        assert found.plan is not None
        assert len((job.output / "part-000000.tsv").read_bytes().splitlines()) == 10

    def test_the_plan_is_told_with_the_first_part(self, job: Job, shards: list[Shard]) -> None:
        one, begin = actor(job), time.perf_counter()
        first, second = asked(one, shards[0]), asked(one, shards[2])
        assert isinstance(first, Written)
        assert isinstance(second, Written)
        assert first.plan is not None
        assert second.plan is None
        assert first.ended is not None
        assert second.ended is not None
        assert first.worker == second.worker == f"{socket.gethostname()}:{os.getpid()}"
        assert begin < first.ended < second.ended < time.perf_counter()

    def test_a_shard_is_classified_while_the_part_before_it_is_synced(
        self, job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finish, write, begun = Draft.finish, ShardWorker.write, threading.Event()
        monkeypatch.setattr(Draft, "finish", lambda draft: begun.wait(30) and finish(draft))

        def second(self: ShardWorker, shard: Shard, progress: Any) -> Draft:
            if shard.number == 2:
                begun.set()
            return write(self, shard, progress)

        monkeypatch.setattr(ShardWorker, "write", second)
        one = actor(job)
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(partial(asked, one), (shards[0], shards[2])))
        assert [type(each) for each in found] == [Written, Written]
        assert len(list(job.output.glob("part-*"))) == 2

    def test_an_actor_that_is_ready_has_its_model_and_tells_its_warnings(
        self, job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that loading kills is not ready, so that the pool does not begin such ones for ever."""
        loads: list[str] = []
        begin = ShardWorker.__init__

        def load(self: ShardWorker, *how: Any) -> None:
            loads.append("load")
            warnings.warn("a slow disk", AccelWarning, stacklevel=1)
            begin(self, *how)

        monkeypatch.setattr(ShardWorker, "__init__", load)
        one = actor(job)
        one.ready()
        assert loads == ["load"]
        first, second = asked(one, shards[0]), asked(one, shards[2])
        assert isinstance(first, Written)
        assert isinstance(second, Written)
        assert (first.warned, second.warned, loads) == (("a slow disk",), (), ["load"])

    def test_a_part_that_is_there_is_not_written_again(self, job: Job, shards: list[Shard]) -> None:
        """A node was lost with the answer, but the part is whole."""
        first = asked(actor(job), shards[0])
        assert isinstance(first, Written)
        part = job.output / "part-000000.tsv"
        before = part.stat()
        assert asked(actor(job), shards[0]) == Written(first.summary, worker=first.worker)
        assert part.stat().st_ino == before.st_ino

    def test_a_bad_record_costs_its_shard_alone(self, job: Job, shards: list[Shard]) -> None:
        one = actor(job)
        found = asked(one, shards[1])
        assert isinstance(found, Failed)
        assert not found.hopeless
        assert "UTF-8" in found.reason
        assert isinstance(asked(one, shards[2]), Written)

    def test_what_was_not_foreseen_ends_the_process_before_its_next_shard(
        self, job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write(self: ShardWorker, shard: Shard, progress: object) -> None:
            raise RuntimeError("an illegal address")

        def leave(code: int) -> None:
            raise Exited(code)

        monkeypatch.setattr(ShardWorker, "write", write)
        monkeypatch.setattr(os, "_exit", leave)
        one = actor(job)
        assert asked(one, shards[0]) == Failed("RuntimeError: an illegal address")
        with pytest.raises(Exited):
            asked(one, shards[2])
        assert Tries(job.output, shards[2].number).begin(), "the next shard has no try of its own"

    def test_a_shard_whose_worker_died_twice_is_not_tried_again(self, job: Job, shards: list[Shard]) -> None:
        for _ in range(2):
            assert Tries(job.output, 0).begin()
        assert asked(actor(job), shards[0]) == Failed("its worker died", hopeless=True)

    def test_the_last_try_says_why_it_failed(self, job: Job, shards: list[Shard]) -> None:
        assert Tries(job.output, 1).begin(), "as by a worker that died"
        found = asked(actor(job), shards[1])
        assert isinstance(found, Failed)
        assert found.hopeless
        assert "UTF-8" in found.reason

    def test_tries_are_forgotten_once_a_part_is_there(self, job: Job, shards: list[Shard]) -> None:
        Tries(job.output, 0).begin()
        assert isinstance(asked(actor(job), shards[0]), Written)
        assert not list(job.output.rglob("*tries*"))

    def test_a_part_being_synced_has_no_share_in_what_kills_its_actor(
        self, job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def killed(draft: Draft) -> None:
            raise SystemExit

        with monkeypatch.context() as patch:
            patch.setattr(Draft, "finish", killed)
            for _ in range(2):
                with pytest.raises(SystemExit):
                    asked(actor(job), shards[0])
        assert isinstance(asked(actor(job), shards[0]), Written)

    def test_tries_go_with_the_run(self, job: Job, shards: list[Shard]) -> None:
        Tries(job.output, 0).begin()
        with OutputFolder.opened(job.output):
            pass
        assert not list(job.output.rglob("*tries*"))

    def test_a_folder_that_is_not_shared(self, job: Job, shards: list[Shard], tmp_path: Path) -> None:
        found = asked(actor(replace(job, output=tmp_path / "elsewhere")), shards[0])
        assert isinstance(found, Unfit)
        assert f"{tmp_path}/elsewhere is not there; name an output folder that all nodes" in found.reason
        assert socket.gethostname() in found.reason

    def test_another_version(self, job: Job, shards: list[Shard]) -> None:
        found = asked(actor(job, "9.9"), shards[0])
        assert isinstance(found, Unfit)
        assert f"accel {__version__} is installed, not the 9.9 of where the run started" in found.reason

    def test_a_model_that_does_not_load(self, job: Job, shards: list[Shard], tmp_path: Path) -> None:
        model = replace(job.config.model, vocabulary=tmp_path / "gone.txt")
        found = asked(actor(replace(job, config=replace(job.config, model=model))), shards[0])
        assert isinstance(found, Unfit)
        assert "gone.txt" in found.reason


class TestRound:
    """What the driver makes of the outcomes."""

    def test_a_shard_is_tried_once_more_and_then_named(
        self, job: Job, shards: list[Shard], recwarn: pytest.WarningsRecorder
    ) -> None:
        one, tally = actor(job), Tally()
        once = ray_engine._Round(job, tally, lambda some: [(shard, asked(one, shard)) for shard in some])
        again = once.run(shards, last=False)
        assert again == [shards[1]]
        assert f"{shards[1]} failed" in str(recwarn.pop().message)
        assert once.run(again, last=True) == []
        assert sorted(tally.written) == [0, 2]
        with pytest.raises(AccelError, match=r"failed twice: .*in\.txt, bytes 120 to "):
            tally.check()

    def test_a_node_that_is_unfit_ends_the_run(self, job: Job, shards: list[Shard]) -> None:
        once = ray_engine._Round(job, Tally(), lambda some: [(some[0], Unfit("no model"))])
        with pytest.raises(RayError, match="no model"):
            once.run(shards, last=False)

    def test_a_part_that_cannot_be_seen_from_here(
        self, job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ray_engine, "_PATIENCE", 0.0)
        with pytest.raises(OutputError, match="was written on another node, but is not here"):
            ray_engine._see(job.output / "part-000000.tsv")


class TestDriver:
    @pytest.mark.parametrize("address", ["x", "ray://host:1", "host:", ":6379", "host:port"])
    def test_what_is_no_address(self, address: str) -> None:
        with pytest.raises(UsageError, match="is neither auto, nor local, nor host:port"):
            Cluster(address)

    def test_an_address_where_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RayError, match=f"no Ray cluster at {address} .*Connection refused"):
            Cluster(address)

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
        def init(**said: Any) -> None:
            raise ConnectionError("Could not find any running Ray instance.")

        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
        lines = tmp_path / "lines.txt"
        lines.write_text("good\nbad\n")
        line = ["run", "--input", str(lines), "--output", f"{tmp_path}/out/", "--engine", "ray"]
        for address in ([], ["--address", "auto"]):
            with pytest.raises(
                RayError, match=r"--address auto: no Ray cluster runs here \(.*; start one with"
            ):
                cli.main([*line, *address], standalone_mode=False)
        assert not (tmp_path / "out").exists()
        assert "stopped early" not in capsys.readouterr().err

    def test_without_ray(self, job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
        with pytest.raises(AccelError, match=r'--engine ray needs the extra `ray` .*pip install ".\[ray\]"'):
            run_on_ray(job, shards, "cpu", Cluster("local"), Tally())

    def test_only_a_cluster_of_our_own_is_set_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said: list[dict[str, Any]] = []
        ray = SimpleNamespace(init=lambda **how: said.append(how), shutdown=lambda: said.append({}))
        monkeypatch.setitem(sys.modules, "ray", ray)
        mine = "RAY_enable_autoscaler_v2"
        monkeypatch.setattr(os, "environ", {mine: "0"})
        with Cluster("auto"):
            assert set(said[-1]) == {"address", "logging_level", "log_to_driver"}
            assert set(os.environ) == {mine, "RAY_USAGE_STATS_ENABLED"}
        assert said.pop() == {}
        said.clear()
        with Cluster("local") as cluster:
            assert not said, "it is started when it is needed"
            assert cluster.ray is ray
            assert cluster.ray is ray
        assert [one.get("include_dashboard") for one in said] == [False, None]
        assert os.environ.pop(mine) == "0", "what the user says holds"
        assert "RAY_raylet_client_connect_timeout_milliseconds" in os.environ

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
