"""`accel weights init|convert|check`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import Accel
from safetensors.numpy import save_file

from accel_cli.commands import cli
from accel_cli.errors import OutputError, WeightsError
from accel_cli.model.config import Config
from accel_cli.model.generate import generate
from accel_cli.model.weights import digest, load_tensors, load_weights, save_tensors, save_weights, shape_text


def error_of(done: object) -> str:
    text = done.stderr.decode()  # type: ignore[attr-defined]
    assert "Traceback" not in text
    return text


def test_init_and_check(accel_here: Accel, tiny: Config, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    made = accel_here("weights", "init", "--output", path, "--seed", "7")
    assert made.returncode == 0, error_of(made)
    assert f"wrote {path}, seed 7" in error_of(made)
    tensors, _ = load_tensors(path)
    assert digest(tensors) == digest(generate(tiny.model, 7))
    done = accel_here("weights", "check", path)
    out = done.stdout.decode()
    assert done.returncode == 0
    assert "gate.weight             float32   [3, 20]" in out
    assert f"format accel-weights, sha256 {digest(tensors)}: as recorded" in out
    assert "fits tiny" in out  # ACCEL_CONFIG names it


def test_another_seed_gives_other_weights(accel_here: Accel, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        assert accel_here("weights", "init", "--output", tmp_path / seed, "--seed", seed).returncode == 0
    one, two = (digest(load_tensors(tmp_path / seed)[0]) for seed in ("1", "2"))
    assert one != two


def test_what_exists_is_not_replaced_unless_one_says_so(accel_here: Accel, tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(b"mine")
    for call in (("init",), ("convert", path)):
        done = accel_here("weights", *call, "--output", path)
        assert done.returncode == 1
        assert f"{path} exists already; say --overwrite to replace it" in error_of(done)
        assert path.read_bytes() == b"mine"
    assert accel_here("weights", "init", "--output", path, "--overwrite").returncode == 0
    load_tensors(path)


def test_convert(accel_here: Accel, tiny: Config, tmp_path: Path) -> None:
    save_file(dict(generate(tiny.model, 3)), tmp_path / "plain.safetensors")
    done = accel_here("weights", "convert", tmp_path / "plain.safetensors", "--output", tmp_path / "w")
    assert done.returncode == 0, error_of(done)
    assert load_weights(tmp_path / "w", tiny.model).gate.bias.shape == (3,)


def test_convert_the_schools_file(accel_here: Accel, tmp_path: Path) -> None:
    (tmp_path / "params.bin").write_bytes(b"1234")
    done = accel_here("weights", "convert", tmp_path / "params.bin", "--output", tmp_path / "w")
    assert done.returncode == 1
    assert "has 4 bytes; a params.bin of this network has" in error_of(done)
    assert not (tmp_path / "w").exists()


def test_a_source_that_does_not_fit_is_the_one_named(accel_here: Accel, tiny: Config, tmp_path: Path) -> None:
    tensors = {**generate(tiny.model, 3), "gate.bias": np.zeros(4, np.float32)}
    save_file(tensors, tmp_path / "plain.safetensors")
    done = accel_here("weights", "convert", tmp_path / "plain.safetensors", "--output", tmp_path / "w")
    assert done.returncode == 1
    assert f"{tmp_path / 'plain.safetensors'} does not fit the configuration: gate.bias has" in error_of(done)
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("content", [b"", b"hello", None])
def test_checking_what_is_no_weights_file(accel_here: Accel, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "w"
    if content is not None:
        path.write_bytes(content)
    done = accel_here("weights", "check", path)
    assert done.returncode == 1
    assert str(path) in error_of(done)


def test_checking_a_damaged_file(accel_here: Accel, tiny: Config, tmp_path: Path) -> None:
    path = tmp_path / "w"
    save_weights(path, tiny.model, generate(tiny.model, 3))
    content = bytearray(path.read_bytes())
    content[-1] ^= 128
    path.write_bytes(content)
    done = accel_here("weights", "check", path)
    assert done.returncode == 1
    assert "is damaged: sha256 is" in error_of(done)


def test_checking_weights_of_another_network(accel_here: Accel, tiny: Config, tmp_path: Path) -> None:
    path = tmp_path / "w"
    save_weights(path, tiny.model, generate(tiny.model, 3))
    done = accel_here("weights", "check", path, "--config", "school")
    assert done.returncode == 1
    assert "does not fit the configuration: missing convolution.7.weight" in error_of(done)


def test_an_output_that_cannot_be_written(accel: Accel, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = accel("weights", "init", "--output", tmp_path / "file" / "w")
    assert done.returncode == 1
    assert "cannot write" in error_of(done)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["-h"], 0),
        (["init"], 2),
        (["init", "--output", "x", "--seed", "-1"], 2),
        (["convert"], 2),
        (["check"], 2),
    ],
)
def test_usage(line: list[str], code: int) -> None:
    assert CliRunner().invoke(cli, ["weights", *line]).exit_code == code


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gate.bias": np.full(3, np.nan, np.float32)}, "gate.bias holds NaN or infinity"),
        ({"gate.bias": None}, "missing gate.bias"),
        ({"gate.bias": np.zeros(4, np.float32)}, "gate.bias has shape [4], expected [3]"),
    ],
)
def test_checking_needs_no_configuration(
    tiny: Config, tmp_path: Path, change: dict[str, np.ndarray | None], words: str
) -> None:
    path = tmp_path / "w"
    tensors = {**generate(tiny.model, 3), **change}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_tensors(path, kept, {"format": "accel-weights", "shape": shape_text(tiny.model)})
    with pytest.raises(WeightsError) as failure:
        cli.main(["weights", "check", str(path)], standalone_mode=False)
    assert str(failure.value) == f"{path} does not fit the shape in its metadata: {words}"


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "holds no weights of accel: its format is unknown, not accel-weights"),
        ({"format": "accel-golden"}, "holds no weights of accel: its format is accel-golden"),
        ({"format": "accel-weights"}, "records no shape in its metadata"),
        ({"format": "accel-weights", "shape": "[3]"}, "records no shape in its metadata"),
    ],
)
def test_checking_a_file_of_another_kind(tmp_path: Path, metadata: dict[str, str], words: str) -> None:
    save_tensors(tmp_path / "w", {"a": np.ones(3, np.float32)}, metadata)
    with pytest.raises(WeightsError) as failure:
        cli.main(["weights", "check", str(tmp_path / "w")], standalone_mode=False)
    assert words in str(failure.value)


def test_checking_a_foreign_file(tmp_path: Path) -> None:
    save_file({"a": np.ones(3, np.float32)}, tmp_path / "w")
    with pytest.raises(WeightsError, match="is not a file of accel's: it carries no sha256; write it with"):
        cli.main(["weights", "check", str(tmp_path / "w")], standalone_mode=False)


def test_a_link_is_followed_and_rights_are_kept(tiny_path: Path, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o606)
    (tmp_path / "link").symlink_to("real")
    line = ["weights", "init", "--config", str(tiny_path), "--overwrite", "--output"]
    cli.main([*line, str(tmp_path / "link")], standalone_mode=False)
    assert (tmp_path / "link").is_symlink()
    load_tensors(tmp_path / "real")
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o606


def test_the_rights_of_a_new_file_follow_the_umask(tiny: Config, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save_weights(tmp_path / "w", tiny.model, generate(tiny.model, 3))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "w").stat().st_mode) == 0o640


def test_a_pipe_is_no_place_for_weights(tiny_path: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for more in ([], ["--overwrite"]):
        line = ["weights", "init", "--config", str(tiny_path), "--output", str(tmp_path / "pipe"), *more]
        with pytest.raises(OutputError, match="is a pipe or a device, which cannot hold this output"):
            cli.main(line, standalone_mode=False)
    assert (tmp_path / "pipe").is_fifo()
