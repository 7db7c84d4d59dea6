"""docs/lab.md can show what the experiments write."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import lab
import pytest

from accel_cli.bench.lab import experiments

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("suite", experiments.EXPERIMENTS)
def test_a_table_has_a_line_for_each_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suite: str) -> None:
    spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    marker = f"<!-- {suite} {suite}.json -->"
    assert docs.render(f"{marker}\n<!-- end -->", tmp_path) == f"{marker}\nNot measured yet.\n<!-- end -->"
    lab.install(monkeypatch, tmp_path)
    monkeypatch.setattr(experiments, "Launcher", lab.NumpyLauncher)
    rows = lab.measured(suite, tmp_path)["rows"]
    rendered = docs.render(f"{marker}\n<!-- end -->", tmp_path).split("\n")
    assert len(rendered) == 2 + len(rows) + 2
    assert suite in docs.KINDS


def test_the_page_has_every_experiment_and_its_figures() -> None:
    page = (ROOT / "docs" / "lab.md").read_text()
    for suite in experiments.EXPERIMENTS:
        assert f"accel bench --suite {suite}\n" in page
        assert f"<!-- {suite} docs/results/lab-{suite}-h200.json" in page
