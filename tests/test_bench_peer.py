"""The same network in PyTorch, measured beside ours; needs torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest

from accel_cli.batches import TokenBatch
from accel_cli.bench import measure
from accel_cli.bench.peer_networks import FoldedNetwork, Network
from accel_cli.bench.peer_precision import set_precision
from accel_cli.bench.peers import PyTorch, peers
from accel_cli.commands.bench import command
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.model.config import Config, ModelSpec
from accel_cli.model.generate import obtain_weights
from accel_cli.model.reference import forward
from accel_cli.numeric import compare
from accel_cli.validation import TOLERANCE

pytestmark = pytest.mark.extras
torch = pytest.importorskip("torch")

PLAN = Plan("cpu", "fp32", "folded", "folded", 512, 2)
NAMES = ("torch", "torch-folded")


@pytest.fixture(autouse=True)
def _exact_again() -> Iterator[None]:
    """No test leaves PyTorch in another precision."""
    yield
    set_precision(torch, "fp32")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes a minute: here it gives back what it is given."""
    monkeypatch.setattr(torch, "compile", lambda call, dynamic: call)


def _bench(*arguments: str, peer: str = "pytorch") -> None:
    """The command in this process."""
    command.main(["--device", "cpu", "--repeats", "3", "--peer", peer, *arguments], standalone_mode=False)


def _batch(spec: ModelSpec, count: int) -> TokenBatch:
    """Sentences of all lengths."""
    random = np.random.default_rng(count)
    lengths = random.integers(spec.min_tokens, spec.max_tokens + 1, count)
    return networks.sentences(spec, lengths.tolist(), seed=count)


def _folded(spec: ModelSpec, precision: str) -> list[PyTorch]:
    plan = replace(PLAN, precision=precision)
    return peers("torch-folded", spec, networks.weights_of(spec), plan, _batch(spec, 30), print)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 7, 300])
def test_its_logits_are_the_models_whatever_the_lengths(tiny: Config, name: str, count: int) -> None:
    batch, weights = _batch(tiny.model, count), obtain_weights(tiny.model)
    for peer in peers(name, tiny.model, weights, PLAN, batch, print):
        np.testing.assert_allclose(peer.logits(), forward(tiny.model, weights, batch)["logits"], atol=1e-5)


# Experts that fold (school) and that do not; ReLU after the last hidden layer and none (a single layer).
SPECS = {
    "school": networks.SCHOOL,
    "ragged": networks.RAGGED,
    "smallest": networks.SMALLEST,
    "shortcuts": networks.RESIDUAL,
    "one layer, folded": replace(networks.RAGGED, expert_hidden=8, fully_connected=(2,)),
}


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16", "fp32-split"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_both_networks_in_every_precision(spec: ModelSpec, precision: str) -> None:
    weights, batch = networks.weights_of(spec), _batch(spec, 1)
    ids, masks = torch.from_numpy(batch.ids.astype(np.int64))[None], [None] * len(spec.widths)
    expected = forward(spec, weights, batch)["logits"]
    cpu = torch.device("cpu")
    for network in (
        Network(torch, spec, weights, cpu, precision),
        FoldedNetwork(torch, spec, weights, cpu, precision),
    ):
        difference = compare(network(ids, masks).numpy(), expected, TOLERANCE[precision])
        assert difference.passed, f"{type(network).__name__}: {difference}"


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("precision", "taken", "rounds"),
    [("fp16", "fp16", False), ("tf32", "tf32", True), ("fp32-split", "fp32", False)],
)
def test_its_precision_is_the_plans(precision: str, taken: str, rounds: bool) -> None:
    found = _folded(networks.SCHOOL, precision)
    assert [(peer.plan.precision, peer.plan.convolution, peer.plan.experts) for peer in found] == [
        (taken, "folded", "folded")
    ] * 2
    assert torch.backends.cuda.matmul.allow_tf32 is torch.backends.cudnn.allow_tf32 is rounds
    (direct,) = peers(
        "torch",
        networks.RAGGED,
        networks.weights_of(networks.RAGGED),
        PLAN,
        _batch(networks.RAGGED, 3),
        print,
    )
    assert (direct.plan.convolution, direct.plan.experts) == ("direct", "separate")


@pytest.mark.parametrize("spec", [networks.SCHOOL, networks.RAGGED], ids=["school", "ragged"])
def test_compiled_it_computes_the_same(spec: ModelSpec) -> None:
    eager, compiled = _folded(spec, "fp32")
    assert compiled.name == f"{eager.name}, compiled" == f"pytorch {torch.__version__}, folded, compiled"
    np.testing.assert_allclose(compiled.logits(), eager.logits(), atol=1e-5)


def test_a_compiler_that_fails_is_said_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no compiler\nand more")

    monkeypatch.setattr(torch, "compile", lambda call, dynamic: broken)
    assert len(_folded(networks.RAGGED, "fp32")) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "PyTorch's compiler does not work here: no compiler"


def test_it_is_measured_beside_ours(tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    _bench("--config", str(tiny_path), "--sentences", "30", "--json", str(path))
    document = json.loads(path.read_text())
    *_, peer = document["rows"]
    ours = document["rows"][1]
    assert peer["program"].startswith("pytorch ")
    assert (peer["clock"], peer["input"], peer["n"]) == (ours["clock"], ours["input"], ours["n"])
    assert peer["convolution"] == "direct"
    assert peer["max_error"] < 1e-4
    assert len(peer["repeats"]) == 3
    assert peer["x_peer"] == 1
    assert ours["x_peer"] == pytest.approx(ours["sentences_per_s"] / peer["sentences_per_s"], rel=1e-4)
    assert [row["x_peer"] for row in document["rows"] if row not in (ours, peer)] == [None] * 3
    assert document["versions"]["pytorch"] in peer["program"]


@pytest.mark.usefixtures("eager")
def test_the_folded_ones_are_measured_beside_ours(tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    _bench("--config", str(tiny_path), "--sentences", "30", "--json", str(path), peer="torch-folded")
    document = json.loads(path.read_text())
    ours, (*_, eager, compiled) = document["rows"][1], document["rows"]
    assert [row["program"].partition(", ")[2] for row in (eager, compiled)] == ["folded", "folded, compiled"]
    assert eager["convolution"] == compiled["convolution"] == "folded"
    fastest = max(row["sentences_per_s"] for row in (eager, compiled))
    for row in (ours, eager, compiled):
        assert row["x_peer"] == pytest.approx(row["sentences_per_s"] / fastest, rel=1e-4)
    assert eager["program"].startswith(f"pytorch {document['versions']['pytorch']}, ")


def test_a_wrong_peer_is_not_timed(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = PyTorch.logits
    monkeypatch.setattr(PyTorch, "logits", lambda peer: right(peer) + 1)
    monkeypatch.setattr(measure, "in_turns", lambda *_: pytest.fail("timed a wrong peer"))
    with pytest.raises(AccelError, match="not timed, because pytorch"):
        _bench("--config", str(tiny_path), "--sentences", "5")
