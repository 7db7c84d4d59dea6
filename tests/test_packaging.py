"""The wheel: it holds all that accel needs, nothing else, and works from any folder."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

# The first one that builds wheels by itself.
pytest.importorskip("setuptools", minversion="70.1", reason="needs setuptools 70.1 or newer")

TRAVELLING = (
    "README.md",
    "LICENSE",
    "setup.cfg",
    "pyproject.toml",
    "accel_cli",
    "kernels_cu",
    "configs",
    "weights",
)


def build(kind: str, source: Path, target: Path) -> Path:
    """The wheel or sdist of a source tree; needs no network."""
    target.mkdir(exist_ok=True)
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(target)], cwd=source, check=True, capture_output=True, timeout=120
    )
    [made] = target.iterdir()
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("source"))


def copied(folder: Path) -> Path:
    """A copy of the checkout, so that nothing is built inside it."""
    for name in TRAVELLING:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files(folder: str, *patterns: str) -> set[str]:
    found = {path.relative_to(ROOT) for pattern in patterns for path in (ROOT / folder).glob(pattern)}
    return {f"accel_cli/{path}".replace("accel_cli/accel_cli/", "accel_cli/") for path in found}


def test_it_holds_all_that_accel_needs_and_nothing_else(names: set[str]) -> None:
    expected = files("accel_cli", "**/*.py", "py.typed", "serve/page.html")
    expected |= files("kernels_cu", "*.cu", "*.cuh")
    expected |= files("configs", "*.yaml", "ladder/*.yaml", "tuned/*.yaml")
    expected |= files("weights", "*.txt", "*.md", "school/*", "sentiment/*")
    assert names == expected
    for name in (
        "configs/school.yaml",
        "configs/ladder/10-toomcook.yaml",
        "weights/sentences.txt",
        "weights/school/golden.safetensors",
        "py.typed",
    ):
        assert f"accel_cli/{name}" in names
    assert not any(name.startswith("accel_cli/weights/train") for name in names)


def test_every_package_is_listed() -> None:
    listed = configparser.ConfigParser()
    listed.read(ROOT / "setup.cfg")
    packages = set(listed["options"]["packages"].split())
    found = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".") for path in ROOT.glob("accel_cli/**/*.py")
    }
    assert packages == found | {"accel_cli.kernels_cu", "accel_cli.configs", "accel_cli.weights"}


def test_it_is_named_and_started_as_promised(wheel: Path) -> None:
    assert wheel.name.startswith("accel_cli-")
    with zipfile.ZipFile(wheel) as archive:
        entries = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        assert b"accel = accel_cli.__main__:main" in archive.read(entries["entry_points.txt"])
        metadata = archive.read(entries["METADATA"]).decode()
    assert "Requires-Python: >=3.10" in metadata
    assert "License-Expression: Apache-2.0" in metadata or "License: Apache-2.0" in metadata
    core = {
        line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra" not in line
    }
    assert {re.split(r"[ <>=]+", line)[1] for line in core} == {
        "click",
        "numpy",
        "pyyaml",
        "rich",
        "safetensors",
        "threadpoolctl",
    }
    assert "[ctk]" not in metadata
    assert "LICENSE" in entries


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(
    installed: Path, folder: Path, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ACCEL_CONFIG")}
    return subprocess.run(
        [sys.executable, "-m", "accel_cli", *arguments],
        input=stdin,
        capture_output=True,
        cwd=folder,
        timeout=120,
        check=False,
        env={**environment, "PYTHONPATH": str(installed)},
    )


def test_it_works_from_any_folder(installed: Path, tiny_path: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "info", "--config", "school", "--device", "cpu")
    assert done.returncode == 0, done.stderr.decode()
    assert str(installed / "accel_cli" / "configs" / "school.yaml") in done.stdout.decode()
    done = run(
        installed,
        tmp_path,
        "run",
        "--config",
        str(tiny_path),
        "--device",
        "cpu",
        "--fields",
        "label",
        stdin=b"a\nb\n",
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.count(b"\n") == 2
    assert list(tmp_path.iterdir()) == []


def test_the_shipped_model_classifies_the_shipped_sentences(installed: Path, tmp_path: Path) -> None:
    if not (installed / "accel_cli/weights/sentiment/model.safetensors").exists():
        pytest.skip("the sentiment model is not there yet")
    sentences = installed / "accel_cli" / "weights" / "sentences.txt"
    done = run(installed, tmp_path, "run", "--device", "cpu", "--fields", "label", "--input", str(sentences))
    assert done.returncode == 0, done.stderr.decode()
    labels = done.stdout.split()
    assert len(labels) == sentences.read_bytes().count(b"\n")
    assert set(labels) == {b"negative", b"positive"}


def test_a_wheel_made_of_the_sdist_is_the_same(names: set[str], tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source = copied(tmp_path / "source")
    for path in source.glob("weights/*/*.safetensors"):
        path.write_bytes(b"")  # they take seconds to pack, and only names are compared
    with tarfile.open(build("sdist", source, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(build("wheel", unpacked, tmp_path / "wheel")) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == names
