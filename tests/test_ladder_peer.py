"""PyTorch on the ladder, on the CPU; needs torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ladders
import pytest
from graphs import compiled_graphs

from accel_cli.bench.ladder import direct_flop
from accel_cli.bench.ladder_clock import Clock, Subject
from accel_cli.bench.ladder_inputs import KINDS, Inputs, make_inputs
from accel_cli.bench.ladder_peer import peers, require_device
from accel_cli.errors import AccelError
from accel_cli.model.config import ModelSpec, load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import load_golden
from accel_cli.model.weights import Weights

pytestmark = pytest.mark.extras
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelSpec, Weights, Inputs]:
    folder: Path = ladders.make_ladder(tmp_path_factory.mktemp("peer"))
    spec = load_config(folder.parent / "school.yaml").model
    weights = obtain_weights(spec)
    golden = load_golden(folder.parent / "golden.safetensors", spec, weights)
    return spec, weights, make_inputs(spec, weights, golden, 40, locked=False)


def subjects(
    made: tuple[ModelSpec, Weights, Inputs], said: list[str], precision: str = "fp32"
) -> list[Subject]:
    spec, weights, inputs = made
    return list(peers(spec, weights, inputs, "cpu", direct_flop(spec), said.append, precision))


def test_it_computes_the_same_from_both_kinds_of_input(
    made: tuple[ModelSpec, Weights, Inputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda call, dynamic: call)
    spec, _, inputs = made
    found = subjects(made, [])
    assert [subject.name for subject in found] == ["eager", "compiled"]
    for subject in found:
        rows = [row for kind in KINDS for row in Clock(spec, inputs, subject, 2).warm(kind)]
        assert [(row.rung, row.figure.input, row.figure.n) for row in rows] == [
            (None, "embeddings", 40),
            (None, "ids", 40),
        ]
        assert all(0 < row.figure.max_error < 1e-4 for row in rows)
        assert rows[0].figure.program == f"pytorch {torch.__version__}"


def test_it_stands_beside_a_rung_of_the_same_precision(
    made: tuple[ModelSpec, Weights, Inputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda call, dynamic: call)
    spec, _, inputs = made
    found = subjects(made, [], "fp16")
    assert [subject.name for subject in found] == ["eager in fp16", "compiled in fp16"]
    for kind in KINDS:
        (row,) = Clock(spec, inputs, found[0], 2).warm(kind)
        assert (row.figure.plan.precision, row.figure.max_error > 1e-5) == ("fp16", True)


def test_every_precision_is_compiled(
    made: tuple[ModelSpec, Weights, Inputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = compiled_graphs(monkeypatch)
    for _ in range(5):
        subjects(made, [])
    assert len(graphs) == 5 * len(KINDS)


def test_a_compiler_that_fails_is_said_and_left_out(
    made: tuple[ModelSpec, Weights, Inputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(call: Any, dynamic: bool) -> Any:
        def fail(*arguments: Any) -> Any:
            raise RuntimeError("no compiler\nand more")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    said: list[str] = []
    assert [subject.name for subject in subjects(made, said)] == ["eager"]
    assert said[-1] == "PyTorch's compiler does not work here: no compiler"


def test_without_a_gpu_there_is_no_device_to_share() -> None:
    with pytest.raises(AccelError, match="no chosen rung runs on a GPU"):
        require_device(None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this PyTorch has CUDA")
def test_a_pytorch_without_cuda_is_refused() -> None:
    with pytest.raises(AccelError, match=r"this PyTorch .* has no CUDA; install one that has"):
        require_device(0)
