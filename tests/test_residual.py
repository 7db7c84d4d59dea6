"""Shortcuts around fully connected layers, y = relu(W x + b) + x, but for those of the CUDA engine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest
from config_files import Write, refusal, write_config
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.engines.cpu import CpuEngine
from accel_cli.engines.planner import available_plans, make_plan
from accel_cli.errors import ConfigError
from accel_cli.model.config import Config, ModelSpec, PlanSpec, load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import load_golden, make_golden
from accel_cli.model.reference import forward
from accel_cli.numeric import compare
from accel_cli.text.vocabulary import save_vocabulary
from accel_cli.validation import cases, check_case

SHORTCUT = {"width": 6, "residual": True}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_config, tmp_path)


def test_it_is_read(write: Write) -> None:
    spec = load_config(write(model__fully_connected=[SHORTCUT, {"width": 7}, 2])).model
    assert (spec.fully_connected, spec.residual) == ((6, 7, 2), (0,))


def test_without_it_nothing_changes(write: Write) -> None:
    plain = load_config(write()).model
    named = {"width": 7, "residual": False}
    assert plain.residual == ()
    assert load_config(write(model__fully_connected=[named, {"width": 2}])).model == plain


WRONG = [
    ({"width": 6, "residual": 1}, "model.fully_connected[0].residual must be true or false, got 1"),
    ({"width": 6, "residual": "yes"}, "model.fully_connected[0].residual must be true or false, got 'yes'"),
    ({"width": 0}, "model.fully_connected[0].width must be a whole number from 1 to 1048576, got 0"),
    ({"residual": True}, "model.fully_connected[0].width must be a whole number from 1 to 1048576, got None"),
    (True, "model.fully_connected[0].width must be a whole number from 1 to 1048576, got True"),
    ({"width": 6, "resdual": True}, "unknown key model.fully_connected[0].resdual; did you mean 'residual'?"),
    (
        {"width": 7, "residual": True},
        "model.fully_connected[0].residual is true of a layer of 6 inputs and 7 outputs; a shortcut takes as"
        " many of both: make the width 6, or remove it",
    ),
]


@pytest.mark.parametrize(("entry", "words"), WRONG, ids=str)
def test_what_is_refused(write: Write, entry: Any, words: str) -> None:
    path = write(model__fully_connected=[entry, 2])
    assert refusal(path) == f"{path}: {words}"


def test_the_logits_have_no_relu_and_no_shortcut(write: Write) -> None:
    message = refusal(write(model__fully_connected=[2, {"width": 2, "residual": True}]))
    assert "fully_connected[1].residual is true of the last layer, whose outputs are the logits" in message


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_experts_do_not_fold_into_a_layer_with_a_shortcut(device: str) -> None:
    spec = replace(networks.SCHOOL, expert_hidden=16, fully_connected=(16, 8, 2), residual=(0,))
    plan = make_plan(spec, PlanSpec(), device)
    reason = "the shortcut around fc.0 adds what the experts give"
    assert (plan.experts, plan.reasons["experts"]) == ("separate", reason)
    assert {plan.experts for plan in available_plans(spec, PlanSpec(), device)} == {"separate"}
    with pytest.raises(ConfigError) as caught:
        make_plan(spec, PlanSpec(experts="folded"), device)
    where = device.partition(":")[0]
    assert str(caught.value) == f"experts: folded is not available on {where}: {reason}; available: separate"


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_experts_fold_where_only_later_layers_have_one(device: str) -> None:
    spec = replace(networks.SCHOOL, fully_connected=(16, 16, 2), residual=(1,))
    assert make_plan(spec, PlanSpec(), device).experts == "folded"


@st.composite
def small_networks(draw: st.DrawFn) -> ModelSpec:
    """Some hidden layers with a shortcut, some without."""
    size = st.integers(1, 5)
    hidden = draw(size)
    outputs, residual = [hidden], []
    for number in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            residual.append(number)
        outputs.append(outputs[-1] if number in residual else draw(size))
    return replace(
        networks.RAGGED,
        filters=draw(size),
        experts=draw(size),
        expert_hidden=hidden,
        fully_connected=(*outputs[1:], 2),
        residual=tuple(residual),
    )


@settings(max_examples=15)
@given(spec=small_networks(), seed=st.integers(0, 99))
def test_every_plan_of_a_cpu_is_the_reference(spec: ModelSpec, seed: int) -> None:
    weights, batch = networks.weights_of(spec, seed), networks.sentences(spec, [5, 9, 7], seed)
    expected = forward(spec, weights, batch)
    plans = available_plans(spec, PlanSpec(streams=1), "cpu")
    assert len(plans) == (2 if 0 in spec.residual else 4)
    for plan in plans:
        engine = CpuEngine(spec, weights, plan)
        for name, values in engine.trace(batch).items():
            difference = compare(values, expected[name], 1e-4)
            assert difference.passed, f"{plan} {name}: {difference}"
        engine.close()


def golden_of(config: Config, path: Path) -> Path:
    spec = config.model
    batch = networks.sentences(spec, [9, 5, 24])
    make_golden(path, spec, obtain_weights(spec), [b"a", b"b", b"c"], batch)
    return path


def test_goldens_hold_what_is_behind_the_shortcut(write: Write, tmp_path: Path) -> None:
    save_vocabulary(tmp_path / "vocabulary.txt", [b"w%d" % number for number in range(38)])
    config = load_config(write(model__fully_connected=[SHORTCUT, 7, {"width": 7, "residual": True}, 2]))
    spec, weights = config.model, obtain_weights(config.model)
    golden = load_golden(golden_of(config, tmp_path / "g"), spec, weights)
    assert (golden.layers["fc.0"] < 0).any()  # which ReLU alone never leaves
    for case in cases(config, ["cpu"]):
        rows = list(check_case(config, weights, golden, case))
        assert not [row for row in rows if row.failed], case
    plain = replace(config, model=replace(spec, residual=()))
    failed = {row.layer for row in check_case(plain, weights, golden, case) if row.failed}
    assert {"fc.0", "fc.2"} <= failed
    assert np.isfinite(golden.layers["logits"]).all()
