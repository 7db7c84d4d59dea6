"""The same network in PyTorch, measured beside ours; needs torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel_cli.batches import TokenBatch
from accel_cli.bench import measure
from accel_cli.bench.peers import PyTorch
from accel_cli.commands.bench import command
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.reference import forward

pytestmark = pytest.mark.extras
pytest.importorskip("torch")

DIRECT = Plan("cpu", "fp32", "direct", "separate", 512, 1)


def _bench(*arguments: str) -> None:
    """The command in this process."""
    command.main(
        ["--device", "cpu", "--repeats", "3", "--peer", "pytorch", *arguments], standalone_mode=False
    )


@pytest.mark.parametrize("count", [1, 7, 300])
def test_its_logits_are_the_models_whatever_the_lengths(tiny: Config, count: int) -> None:
    random = np.random.default_rng(count)
    lengths = random.integers(tiny.model.min_tokens, tiny.model.max_tokens + 1, count)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    batch = TokenBatch(random.integers(0, 40, offsets[-1]).astype(np.int32), offsets)
    weights = obtain_weights(tiny.model)
    peer = PyTorch(tiny.model, weights, replace(DIRECT, streams=2), batch)
    np.testing.assert_allclose(peer.logits(), forward(tiny.model, weights, batch)["logits"], atol=1e-5)


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


def test_a_wrong_peer_is_not_timed(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = PyTorch.logits
    monkeypatch.setattr(PyTorch, "logits", lambda peer: right(peer) + 1)
    monkeypatch.setattr(measure, "in_turns", lambda *_: pytest.fail("timed a wrong peer"))
    with pytest.raises(AccelError, match="not timed, because pytorch"):
        _bench("--config", str(tiny_path), "--sentences", "5")
