"""Compiling in other processes: what is slow, dies or never ends holds nothing up."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from ahead_work import work

from accel_cli.bench import ahead as module
from accel_cli.bench.ahead import CompileAhead
from accel_cli.bench.precompile import compile_all, launches
from accel_cli.cuda.device import DeviceFacts
from accel_cli.kernels.base import Kernel, Launch
from accel_cli.kernels.sgemm import KERNEL, geometry
from accel_cli.kernels.sgemm_tile import USUAL, Tile

LONG = 60.0  # seconds that no test takes


def launch(name: str, number: int = 0) -> Launch:
    return Launch(Kernel(name, ()), (("NUMBER", number),), (1, 1, 1), (1, 1, 1))


@pytest.fixture
def ahead() -> Iterator[CompileAhead]:
    with CompileAhead("sm_00", work, 2) as found:
        yield found


def compiled(ahead: CompileAhead, *launches: Launch, seconds: float = LONG) -> list[tuple[str, str]]:
    return [(one.kernel.name, fault) for one, fault in ahead.compiled(launches, time.monotonic() + seconds)]


def test_each_comes_when_it_is_done_and_is_done_once(ahead: CompileAhead) -> None:
    launches = [launch("a"), launch("wrong"), launch("b"), launch("c")]
    expected = {("a", ""), ("b", ""), ("c", ""), ("wrong", "wrong does not compile for sm_00")}
    assert set(compiled(ahead, *launches)) == expected
    assert len(ahead._workers) == 2
    for worker in ahead._workers:
        worker.end()
    assert compiled(ahead, *launches) == [
        (one.kernel.name, dict(expected)[one.kernel.name]) for one in launches
    ]


def test_one_that_never_ends_holds_up_no_other_and_no_end(ahead: CompileAhead) -> None:
    coming = ahead.compiled([launch("endless"), launch("a"), launch("b")], time.monotonic() + LONG)
    assert [next(coming)[0].kernel.name for _ in range(2)] == ["a", "b"]
    begin = time.monotonic()
    assert compiled(ahead, launch("endless", 2), launch("endless", 3), seconds=0.5) == []
    assert compiled(ahead, launch("c"), seconds=0.5) == []  # nobody is left to do it
    assert time.monotonic() - begin < LONG / 2
    processes = [worker._process for worker in ahead._workers]
    ahead.__exit__(None, None, None)
    assert [process.exitcode for process in processes] == [-signal.SIGKILL] * 2


def test_one_that_takes_too_long_is_given_up(ahead: CompileAhead, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(compiled(ahead, launch("a"), launch("b"))) == 2  # both processes are up
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    monkeypatch.setattr(module, "_LOOK", 0.1)
    endless = [launch("endless", number) for number in range(3)]
    assert compiled(ahead, *endless) == [("endless", "its compilation takes more than 0 seconds")] * 3


def test_one_whose_process_dies_is_a_fault_and_the_rest_goes_on(ahead: CompileAhead) -> None:
    codes = {"killed": -signal.SIGKILL, "terminated": -signal.SIGTERM, "leaving": 3}
    faults = {name: f"the process that compiled it has died ({code})" for name, code in codes.items()}
    names = ["killed", "a", "b", "terminated", "c", "leaving", "d"]
    assert dict(compiled(ahead, *map(launch, names))) == {**dict.fromkeys("abcd", ""), **faults}


def test_a_process_that_dies_while_it_waits(ahead: CompileAhead) -> None:
    assert compiled(ahead, launch("a")) == [("a", "")]
    (worker,) = ahead._workers
    worker._process.kill()
    worker._process.join()
    assert [name for name, _ in compiled(ahead, launch("b"), launch("c"))] == ["b", "c"]
    assert compiled(ahead, launch("d")) == [("d", "")]


def test_ctrl_c_is_not_theirs_to_answer(ahead: CompileAhead) -> None:
    assert compiled(ahead, launch("interrupted")) == [("interrupted", "")]


def test_kernels_are_compiled_there() -> None:
    with CompileAhead("sm_00") as ahead:
        (found,) = ahead.compiled([geometry(1, 1)], time.monotonic() + LONG)
    assert found[1]  # no CuPy, or no such architecture


def test_all_that_engines_launch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    device = DeviceFacts(0, "GPU", (9, 0), 132, 80 << 30, 50 << 20, 13000, 13000)
    tiles = {
        Tile(*(value for _, value in one.defines[:6])) for one in launches(device, 3) if one.kernel == KERNEL
    }
    assert tiles == set(USUAL)
    names = [one.kernel.name for one in launches(device, 3)]
    assert names.count("sgemm") == len(USUAL) * 6
    assert {"embedding", "softmax", "toomcook_input"} < set(names)
    experts = {dict(one.defines).get("EXPERTS") for one in launches(device, 3) if one.kernel == KERNEL}
    assert experts == {1, 4}  # filled up by experts of zeros
    came: list[Launch] = []
    compiler = SimpleNamespace(compiled=lambda wanted, end: ((came.append(one), "") for one in wanted))
    told: list[str] = []
    compile_all(compiler, device, 3, LONG, told.append)
    assert came == launches(device, 3)
    assert told == [f"compiling {len(came)} kernels"]
