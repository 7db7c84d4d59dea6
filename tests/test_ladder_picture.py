"""The picture of a ladder: drawn from its figures; needs matplotlib."""

from __future__ import annotations

import importlib.util
import json
import runpy
from itertools import combinations
from pathlib import Path
from typing import Any

import ladders
import pytest
from conftest import ROOT

from accel_cli.bench import ladder, picture
from accel_cli.bench.picture import drawn, require_matplotlib
from accel_cli.commands.bench import command
from accel_cli.errors import AccelError, UsageError


def row(rung: int | None, name: str, kind: str, rate: float) -> dict[str, Any]:
    return {
        "rung": rung,
        "name": name,
        "regime": "many",
        "input": kind,
        "sentences_per_s": rate,
        "tflop_per_s": rate * 2e-3,
        "flop_per_byte": 100.0,
    }


DOCUMENT: dict[str, Any] = {
    "machine": {"gpu": {"name": "Abacus 9000"}},
    "flop_per_sentence": 2_120_000_000,
    "ceiling": {"program": "cuBLAS", "tflop_per_s": 42.4, "gb_per_s": 4000.0},
    "rows": [
        row(rung, name, kind, rate)
        for rung, name, rate in [(8, "implicit", 21_987.0), (9, "streams", 23.4), (None, "eager", 3400.0)]
        for kind in ("embeddings", "ids")
    ],
}


@pytest.mark.extras
@pytest.mark.parametrize("ceiling", [DOCUMENT["ceiling"], None], ids=["GPU", "CPU alone"])
def test_it_names_rungs_rates_peer_and_ceiling(ceiling: Any) -> None:
    pytest.importorskip("matplotlib").rcParams["svg.fonttype"] = "none"
    text = drawn({**DOCUMENT, "ceiling": ceiling}, ".svg").decode()
    for word in ("Abacus 9000", "streams", "PyTorch", "21,987", "23.4"):
        assert word in text
    assert ("direct network at cuBLAS&apos;s rate: 20,000" in text or "cuBLAS's rate: 20,000" in text) == (
        ceiling is not None
    )


@pytest.mark.extras
def test_the_same_figures_give_the_same_picture() -> None:
    pytest.importorskip("matplotlib")
    assert drawn(DOCUMENT, ".svg") == drawn(DOCUMENT, ".svg")
    assert drawn(DOCUMENT, ".png").startswith(b"\x89PNG")


@pytest.mark.extras
def test_no_label_of_the_roofline_lies_on_another() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(5, 4.5))
    document = json.loads((ROOT / "docs" / "results" / "ladder-h200.json").read_text())
    axes = figure.subplots()
    rows = [row for row in document["rows"] if row["regime"] == "many"]
    picture._roofline(axes, rows, document)
    figure.canvas.draw()
    boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
    named = [number for label in boxes if "/s" not in label for number in label.split(", ")]
    taken = {row["rung"] for row in rows if row["input"] == "embeddings"} - {None}
    assert sorted(named) == sorted(map(str, taken))
    assert any(label.startswith("tf32: ") for label in boxes)
    assert [pair for pair in combinations(boxes, 2) if boxes[pair[0]].overlaps(boxes[pair[1]])] == []


@pytest.mark.extras
def test_the_documents_picture_is_drawn_from_the_published_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    docs = runpy.run_path(str(ROOT / "docs" / "render.py"))
    assert docs["main"](["--pictures"], tmp_path) == 1  # there are none
    (tmp_path / docs["LADDER"]).parent.mkdir(parents=True)
    (tmp_path / docs["LADDER"]).write_text(json.dumps(DOCUMENT))
    assert docs["main"](["--pictures"], tmp_path) == 0
    assert all((tmp_path / name).stat().st_size for name in docs["PICTURES"])


def test_only_png_and_svg() -> None:
    with pytest.raises(UsageError, match=r"--picture a.jpg: expected a name that ends in .png or .svg"):
        require_matplotlib(("a.jpg",))


def test_without_matplotlib_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(ladder, "run", lambda *_: pytest.fail("measured"))
    with pytest.raises(
        AccelError, match=r"matplotlib is not installed here; run `pip install \".\[plot\]\"`"
    ):
        command.main(["--ladder", "--picture", "a.png"], standalone_mode=False)


def test_pictures_are_written_beside_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr("accel_cli.commands.bench_ladder.drawn", lambda document, ending: ending.encode())
    folder = ladders.make_ladder(tmp_path)
    paths = [tmp_path / "a.png", tmp_path / "a.svg"]
    options = [word for path in paths for word in ("--picture", str(path))]
    command.main(
        ["--ladder", str(folder), "--rungs", "0", "--sentences", "4", "--repeats", "1", *options],
        standalone_mode=False,
    )
    assert [path.read_bytes() for path in paths] == [b".png", b".svg"]
