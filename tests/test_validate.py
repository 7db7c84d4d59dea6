"""`accel validate` as a process: what passes, what fails, and that it says which layer."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_cupy
import networks
import numpy as np
import pytest
from click.testing import CliRunner, Result
from conftest import ROOT, Accel, command

from accel_cli import validation
from accel_cli.commands import cli, validate
from accel_cli.cuda import device as device_module
from accel_cli.errors import AccelError
from accel_cli.model.config import Config, PlanSpec
from accel_cli.model.weights import load_tensors, save_tensors

CPU = ("--device", "cpu", "--streams", "1")


@pytest.fixture(scope="module")
def golden_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"path": tmp_path_factory.mktemp("golden") / "g.safetensors"}


@pytest.fixture
def golden(accel_here: Accel, golden_of: dict[str, Path]) -> Path:
    """Golden outputs of the shipped sentences, made once."""
    path = golden_of["path"]
    if not path.exists():
        made = accel_here("validate", "--make-golden", path)
        assert made.returncode == 0, made.stderr.decode()
        count = (ROOT / "weights" / "sentences.txt").read_bytes().count(b"\n")
        assert f"wrote golden outputs of {count} sentences to " in made.stderr.decode()
        assert made.stdout == b""
    return path


@pytest.fixture
def here(tiny_path: Path) -> Callable[..., Result]:
    """`accel validate` within this process, which is quicker to start."""

    def call(*arguments: str | Path) -> Result:
        line = ["validate", "--config", str(tiny_path), *map(str, arguments)]
        return CliRunner().invoke(cli, line, env={"ACCEL_CONFIG": None})

    return call


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU to make plans for."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    for module in (device_module, validate):
        monkeypatch.setattr(module, "missing", lambda: None)


@pytest.fixture
def planned(tiny_path: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A configuration with a plan of its own."""

    def write(plan: str) -> Path:
        path = tmp_path / "planned.yaml"
        path.write_text(f"extends: {tiny_path}\nplan: {{{plan}}}\n")
        return path

    return write


def forged(golden: Path, path: Path, **changes: Any) -> Path:
    tensors, metadata = load_tensors(golden)
    save_tensors(path, {**tensors, **changes}, metadata)
    return path


def layers(text: str) -> list[list[str]]:
    """The names of the rows of each table."""
    return [re.findall(r"^  (\S+)", part, re.MULTILINE)[1:] for part in text.split("\n\n")]


def test_goldens_just_made_pass_on_every_plan(accel_here: Accel, golden: Path) -> None:
    done = accel_here("validate", "--golden", golden, *CPU)
    out = done.stdout.decode()
    assert done.returncode == 0, out + done.stderr.decode()
    assert "all checks passed" in done.stderr.decode()
    tables = layers(out)
    assert tables[0] == ["lengths", "ids"]
    all_layers = [
        "embedding",
        "convolution.3",
        "convolution.5",
        "features",
        "gate",
        "experts",
        "fc.0",
        "logits",
    ]
    assert tables[1:] == [[*all_layers, "labels"]] * 5
    for plan in (
        "folded experts=folded",
        "folded experts=separate",
        "im2col experts=folded",
        "im2col experts=sep",
    ):
        assert f"convolution={plan}" in out
    assert out.count("input=tokens") == 4
    assert out.count("input=embeddings") == 1
    assert "FAIL" not in out


def test_what_a_plan_fuses_is_shown_as_fused(here: Callable[..., Result], golden: Path) -> None:
    out = here("--golden", golden, *CPU).output
    folded = out.split("\n\n")[1]
    for layer in ("embedding", "convolution.3", "convolution.5", "experts"):
        assert re.search(rf"^  {layer} +fused$", folded, re.MULTILINE), folded
    for layer in ("features", "gate", r"fc\.0", "logits"):
        assert re.search(rf"^  {layer} .*1e-04  pass$", folded, re.MULTILINE), folded


@pytest.mark.parametrize("layer", ["features", "gate", "experts", "fc.0", "logits"])
@pytest.mark.parametrize("value", [0.5, np.nan])
def test_a_changed_value_fails_and_names_its_layer(
    here: Callable[..., Result], golden: Path, tmp_path: Path, layer: str, value: float
) -> None:
    tensors, _ = load_tensors(golden)
    changed = tensors[layer].copy()
    changed[3, 1] += np.float32(value)
    path = forged(golden, tmp_path / "g", **{layer: changed})
    done = here("--golden", path, *CPU)
    assert f"checks failed against {path}" in str(done.exception)
    failed = re.findall(r"^  (\S+) .*FAIL: 1 of \d+ values differ .* at \(3, 1\)", done.output, re.MULTILINE)
    assert set(failed) == {layer}
    assert len(failed) == (3 if layer == "experts" else 5)  # two plans fold the experts


def test_a_plan_that_takes_no_embeddings_is_checked_without_them(
    here: Callable[..., Result], golden: Path, planned: Callable[[str], Path]
) -> None:
    path = planned("device: cpu, convolution: folded, streams: 1")
    done = here("--golden", golden, "--config", path)
    assert done.exception is None
    assert done.output.count("input=tokens") == 4
    assert "input=embeddings" not in done.output
    assert "checking the CPU alone" not in done.output


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("plan", "embeddings"),
    [
        ({}, ["cpu fp32 im2col", "cuda:0 fp16 implicit"]),
        ({"precision": "tf32"}, ["cuda:0 tf32 implicit"]),
        ({"precision": "fp16", "convolution": "folded"}, []),
    ],
)
def test_embeddings_are_checked_as_the_plan_takes_them(plan: dict[str, str], embeddings: list[str]) -> None:
    config = Config("ragged", networks.NOWHERE, networks.RAGGED, PlanSpec(**plan))
    found = validation.cases(config, ["cpu", "cuda:0"])
    assert {case.plan.device for case in found if case.input == "tokens"} == {"cpu", "cuda:0"}
    plans = [case.plan for case in found if case.input == "embeddings"]
    assert [f"{plan.device} {plan.precision} {plan.convolution}" for plan in plans] == embeddings


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("plan", "arguments", "devices"),
    [
        ("batch: 3", (), ["cpu", "cuda:0"]),
        ("device: cuda, precision: fp16, convolution: folded", (), ["cuda:0"]),
        ("device: cuda, precision: fp16, convolution: folded", ("--device", "cuda:1"), ["cuda:1"]),
        ("device: cpu", (), ["cpu"]),
        ("device: cuda", ("--device", "cpu"), ["cpu"]),
    ],
)
def test_the_devices_are_those_that_are_named(
    here: Callable[..., Result],
    golden: Path,
    planned: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    plan: str,
    arguments: tuple[str, ...],
    devices: list[str],
) -> None:
    checked: list[str] = []
    monkeypatch.setattr(validate, "cases", lambda config, names: checked.extend(names) or [])
    assert here("--golden", golden, "--config", planned(plan), *arguments).exception is None
    assert checked == devices


def test_a_plan_that_its_device_does_not_have(here: Callable[..., Result], golden: Path) -> None:
    done = here("--golden", golden, "--precision", "fp16", *CPU)
    assert isinstance(done.exception, AccelError)
    assert str(done.exception) == "precision: fp16 is not available on cpu; available: fp32"


def test_a_failure_as_a_process(accel: Accel, golden: Path, tmp_path: Path) -> None:
    path = forged(golden, tmp_path / "g", gate=np.full_like(load_tensors(golden)[0]["gate"], np.nan))
    done = accel("validate", "--golden", path, *CPU)
    assert done.returncode == 1
    assert done.stderr.decode().endswith(f"Error: 5 checks failed against {path}\n")


def test_a_tokenizer_that_has_changed_fails(
    here: Callable[..., Result], golden: Path, tmp_path: Path
) -> None:
    tensors, _ = load_tensors(golden)
    text = tensors["text"].tobytes().replace(b"not", b"bad")
    path = forged(golden, tmp_path / "g", text=np.frombuffer(text, np.uint8))
    done = here("--golden", path, *CPU)
    assert isinstance(done.exception, AccelError)
    assert done.exception.exit_code == 1
    assert re.search(r"^  ids .*FAIL", done.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"hello", "not a safetensors file"), (None, "no golden outputs")],
)
def test_what_is_no_golden_file(
    here: Callable[..., Result], tmp_path: Path, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "g").write_bytes(content)
    done = here("--golden", tmp_path / "g", *CPU)
    assert isinstance(done.exception, AccelError)
    assert done.exception.exit_code == 1
    assert words in str(done.exception)
    assert str(tmp_path / "g") in str(done.exception)


def test_goldens_of_other_weights(
    here: Callable[..., Result], golden: Path, tiny_path: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(f"extends: {tiny_path}\nmodel: {{weights: {{seed: 8}}}}\n")
    done = here("--golden", golden, "--config", own, *CPU)
    assert isinstance(done.exception, AccelError)
    assert done.exception.exit_code == 1
    assert "was made from other weights" in str(done.exception)


def test_a_configuration_without_goldens(here: Callable[..., Result]) -> None:
    done = here()
    assert isinstance(done.exception, AccelError)
    assert done.exception.exit_code == 2
    assert "names no golden outputs; give them with --golden" in str(done.exception)


def test_goldens_of_own_sentences(here: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_bytes(b"good\n\nnot \xff bad\r\nthe end")
    made = here("--make-golden", tmp_path / "g", "--texts", tmp_path / "s.txt")
    assert made.exception is None
    assert "of 4 sentences" in made.output
    assert here("--golden", tmp_path / "g", *CPU).exception is None
    none = here("--make-golden", tmp_path / "h", "--texts", tmp_path / "none.txt")
    assert isinstance(none.exception, AccelError)
    assert none.exception.exit_code == 2
    assert "cannot read the sentences" in str(none.exception)
    assert not (tmp_path / "h").exists()


def test_goldens_that_cannot_be_written(here: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = here("--make-golden", tmp_path / "file" / "g")
    assert isinstance(done.exception, AccelError)
    assert done.exception.exit_code == 1
    assert "cannot write" in str(done.exception)


@pytest.mark.extras
def test_the_school_network_passes_its_goldens() -> None:
    """Five plans of 2 GFLOP a sentence: minutes on two cores."""
    line = command("validate", "--config", "school", "--device", "cpu")
    done = subprocess.run(line, capture_output=True, timeout=900, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert "FAIL" not in done.stdout.decode()


def test_goldens_that_exist_are_replaced_only_when_asked(here: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "g").write_bytes(b"mine")
    refused = here("--make-golden", tmp_path / "g")
    assert "exists already; say --overwrite" in str(refused.exception)
    assert (tmp_path / "g").read_bytes() == b"mine"
    assert here("--make-golden", tmp_path / "g", "--overwrite").exception is None
    load_tensors(tmp_path / "g")
    assert "the name of an output is empty" in str(here("--make-golden", "").exception)
