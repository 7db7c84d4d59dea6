"""The tables of README.md and docs/ say what the figures in docs/results/ say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
MARKER = "<!-- results docs/results/a.json clock=host | program: Program | sentences_per_s: Rate -->"
ROWS: list[dict[str, Any]] = [
    {"program": "accel", "clock": "host", "sentences_per_s": 20123.4, "warm": True, "max_error": 3.21e-7},
    {"program": "peer", "clock": "host", "sentences_per_s": 4.5678, "warm": True, "max_error": 0.0},
    {"program": "accel", "clock": "file", "sentences_per_s": None, "warm": False, "max_error": 0.0},
]


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = _load()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "results").mkdir(parents=True)
    document = {
        "machine": {"cpu": "Abacus"},
        "rows": ROWS,
        "stages": [{"stage": "features", "percent": 75.0}],
    }
    (tmp_path / "docs" / "results" / "a.json").write_text(json.dumps(document))
    return tmp_path


def test_the_tables_of_this_repository_are_up_to_date() -> None:
    assert [str(path) for path, _ in docs.stale(ROOT)] == [], "run `make docs`"


def test_text_without_markers_stays_as_it_is(root: Path) -> None:
    text = "# Title\n\n<!-- end -->\nno marker, and `<!-- results x | a: b -->` is only quoted\n"
    assert docs.render(text, root) == text


def test_a_table_replaces_what_stood_between_the_markers(root: Path) -> None:
    text = f"before\n{MARKER}\nold\n<!-- end -->\nafter\n"
    assert docs.render(text, root) == (
        f"before\n{MARKER}\n| Program | Rate |\n| --- | ---: |\n| accel | 20,123 |\n| peer | 4.57 |\n"
        "<!-- end -->\nafter\n"
    )


def test_a_start(root: Path) -> None:
    rows = [{"stage": "kernels", "seconds": 0.25, "percent": 20.0, "note": "9 loaded"}]
    (root / "start.json").write_text(json.dumps({"rows": rows}))
    marker = "<!-- startup start.json -->"
    assert docs.render(f"{marker}\n<!-- end -->", root).splitlines()[1:-1] == [
        "| Stage | Seconds | % | What |",
        "| --- | ---: | ---: | --- |",
        "| kernels | 0.25 | 20 | 9 loaded |",
    ]
    missing = "<!-- startup none.json -->\nNot measured yet.\n<!-- end -->"
    assert docs.render(missing, root) == missing


def test_rendering_twice_changes_nothing_more(root: Path) -> None:
    once = docs.render(f"{MARKER}\n<!-- end -->\n", root)
    assert docs.render(once, root) == once


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ("results docs/results/a.json warm=false | sentences_per_s: Rate | warm: Warm", "| - | no |"),
        ("results docs/results/a.json program=peer clock=host,file | max_error: E", "| 0 |"),
        (
            "results docs/results/a.json warm=true program=accel | max_error: E | machine.cpu: On",
            "| 3.2e-07 | Abacus |",
        ),
        ("stages docs/results/a.json | stage: Stage | percent: %", "| features | 75 |"),
    ],
)
def test_filters_columns_and_numbers(root: Path, marker: str, line: str) -> None:
    rendered = docs.render(f"<!-- {marker} -->\n<!-- end -->", root).split("\n")
    assert rendered[3] == line
    assert len(rendered) == 5


def test_several_files_make_one_table(root: Path) -> None:
    marker = "<!-- results docs/results/a.json,docs/results/a.json clock=file | program: P -->"
    assert docs.render(f"{marker}\n<!-- end -->", root).count("| accel |") == 2


def test_without_columns_the_usual_ones(root: Path) -> None:
    path = root / "docs" / "results" / "b.json"
    row = dict.fromkeys(("input", "n", "slowest", "fastest", "x_peer"), 1) | ROWS[0]
    stage = {"stage": "gate", "seconds": 2.0, "percent": 5.0, "gflop_per_s": 3.0, "gb_per_s": 123.4}
    path.write_text(json.dumps({"rows": [row], "stages": [stage]}))
    markers = [f"<!-- {kind} docs/results/b.json -->\n<!-- end -->" for kind in ("results", "stages")]
    rendered = docs.render("\n".join(markers), root)
    assert "| accel | host | 1 | yes | 1 | 20,123 | 1 | 1 | 1 | 3.2e-07 |" in rendered
    assert "| gate | 2 | 5 | 3 | 123 |" in rendered


def test_products_beside_cublas_have_a_row_each(root: Path) -> None:
    rows = [
        {"product": product, "program": program, "tflop_per_s": rate, "x_cublas": share}
        for product, program, rate, share in (
            ("8x8x8", "wgmma, ReLU", 4.0, 0.5),
            ("8x8x8", "cuBLAS", 8.0, 1.0),
            ("9x9x9", "cuBLAS", 6.0, 1.0),
        )
    ]
    (root / "docs" / "results" / "d.json").write_text(json.dumps({"rows": rows}))
    columns = "product: Product | cuBLAS: cuBLAS, TFLOP/s | wgmma, ReLU: ReLU"
    rendered = docs.render(f"<!-- gemm docs/results/d.json | {columns} -->\n<!-- end -->", root)
    assert rendered.split("\n")[1:5] == [
        "| Product | cuBLAS, TFLOP/s | ReLU |",
        "| --- | ---: | ---: |",
        "| 8x8x8 | 8 | 0.5 |",
        "| 9x9x9 | 6 | - |",
    ]


def test_what_bounds_stages_and_the_limits(root: Path) -> None:
    stage = {
        "stage": "gate",
        "us": 2.5,
        "percent": 5.0,
        "launches": 1,
        "bound": "L2",
        "percent_of_bound": 40.0,
    }
    limit = {"resource": "L2", "per_s": 8e12, "measured_by": "reading again"}
    parts = [{"unit": "batch", "stages": [stage]}, {"unit": "block", "stages": [{**stage, "us": 9.0}]}]
    path = root / "docs" / "results" / "c.json"
    path.write_text(json.dumps({"bounds": {"limits": [limit], "parts": parts}}))
    end = "\n<!-- end -->"
    rendered = docs.render(f"<!-- bounds docs/results/c.json unit=batch -->{end}", root)
    assert rendered.split("\n")[3:5] == ["| gate | 2.5 | 5 | 1 | L2 | 40 |", "<!-- end -->"]
    assert "| L2 | 8,000,000,000,000 | reading again |" in docs.render(
        f"<!-- limits docs/results/c.json -->{end}", root
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"\n{MARKER}\nno end", "text:2: no line `<!-- end -->`"),
        (f"{MARKER}\n{MARKER}\n<!-- end -->", "text:1: no line `<!-- end -->`"),
        ("<!-- results docs/results/none.json | a: A -->\n<!-- end -->", "no figures in .*none.json"),
        ("<!-- results docs/results/a.json | speed: Speed -->\n<!-- end -->", "no figure is called 'speed'"),
        (
            "<!-- results docs/results/a.json clock=sun | program: P -->\n<!-- end -->",
            "no row of .* clock=sun",
        ),
        ("<!-- results docs/results/a.json | program -->\n<!-- end -->", "a column has no heading"),
    ],
)
def test_a_bad_marker_is_named(root: Path, text: str, message: str) -> None:
    with pytest.raises(docs.MarkerError, match=message):
        docs.render(text, root)


LADDER = "<!-- ladder docs/results/l.json -->\n<!-- end -->"


def test_a_ladder_has_a_line_a_rung_and_a_peer(root: Path) -> None:
    shared = {
        "n": 16384, "x_before": 2.0, "tflop_per_s": 1.5, "percent_of_ceiling": 3.0, "program": "pytorch 2",
    }  # fmt: skip
    rows = [
        {
            **shared,
            "rung": rung,
            "name": name,
            "input": kind,
            "regime": regime,
            "sentences_per_s": rate,
            "x_first": None if rung is None else 10.0,
            "max_error": error,
        }
        for rung, name, kind, regime, rate, error in [
            (9, "streams", "embeddings", "cold", 300.0, 0.0),
            (9, "streams", "embeddings", "many", 20123.4, 1e-6),
            (9, "streams", "ids", "many", 21000.0, 2e-6),
            (9, "streams", "ids", "one batch", 19000.0, 0.0),
            (None, "eager", "embeddings", "many", 3000.0, 0.0),
        ]
    ]
    (root / "docs" / "results" / "l.json").write_text(json.dumps({"rows": rows}))
    assert docs.render(LADDER, root).split("\n")[3:5] == [
        "| 9 | streams | 16,384 | 20,123 | 10 | 2 | 1.5 | 3 | - | 300 | 21,000 | 19,000 | 2.0e-06 |",
        "| - | pytorch 2, eager | 16,384 | 3,000 | - | 2 | 1.5 | 3 | - | - | - | - | 0 |",
    ]


def test_of_a_ladder_that_was_not_climbed_nothing_is_shown(root: Path) -> None:
    assert docs.render(LADDER, root) == LADDER


def test_a_server_has_a_line_a_way_to_ask_and_one_for_an_overload(root: Path) -> None:
    markers = "\n".join(f"<!-- {kind} docs/results/s.json -->\n<!-- end -->" for kind in ("serve", "soak"))
    assert docs.render(markers, root) == markers
    row = dict.fromkeys(("n", "connections", "requests_per_s", "sentences_per_s", "slowest", "fastest"), 64)
    row |= {"protocol": "TEI JSON", "p50_ms": 20.5, "p99_ms": 39.0, "x_engine": 0.25}
    soak = dict.fromkeys(("seconds", "offered_requests_per_s", "right", "refused", "wrong", "failed"), 7)
    soak |= dict.fromkeys(("right_sentences_per_s", "p99_ms", "recovery_ms"), 3.5)
    soak |= {"start_mib": 391.0, "end_mib": 395.0, "most_mib": 396.0}
    (root / "docs" / "results" / "s.json").write_text(
        json.dumps({"load": "wrk 4", "rows": [row], "soak": [soak]})
    )
    rendered = docs.render(markers, root).split("\n")
    assert "| TEI JSON | 64 | 64 | 64 | 64 | 64 | 64 | 20.5 | 39 | 0.25 | wrk 4 |" in rendered
    assert "| 7 | 7 | 7 | 7 | 7 | 7 | 3.5 | 3.5 | 3.5 | 391 | 395 | 396 |" in rendered


def test_a_plan_has_resources_fleets_and_tails(root: Path) -> None:
    resource = {"resource": "storage", "basis": "given", "text_gb_per_s": 5.0, "hours": 55.6}
    resource |= {"hours_slowest": None, "hours_fastest": None, "percent_used": 12.5, "nodes_for_deadline": 3}
    fleet = {"fleet": "fastText", "unit": "core", "basis": "given", "sentences_per_s": 1e5}
    fleet |= {"unit_hours": 27777.8, "units": 1158, "cost": None}
    keys = ("shards", "workers", "hours", "percent_over", "tail_minutes", "retried", "given_up")
    tail = dict.fromkeys((*keys, "lost_unit_hours"), 2) | {"shard_gb": 4.29, "slow_workers": 0.02}
    document = {"rows": [resource], "fleets": [fleet], "tails": [tail | {"hours_between_deaths": None}]}
    (root / "docs" / "results" / "p.json").write_text(json.dumps(document))
    kinds = ("resources", "fleets", "tails")
    markers = "\n".join(f"<!-- {kind} docs/results/p.json -->\n<!-- end -->" for kind in kinds)
    rendered = docs.render(markers, root).split("\n")
    assert "| storage | given | 5 | 55.6 | - | - | 12.5 | 3 |" in rendered
    assert "| fastText | core | given | 100,000 | 27,778 | 1,158 | - |" in rendered
    assert "| 4.29 | 2 | 2 | 0.02 | - | 2 | 2 | 2 | 2 | 2 | 2 |" in rendered


def test_a_picture_is_shown_where_it_is(root: Path) -> None:
    text = "<!-- picture docs/a.svg What it shows -->\n<!-- end -->"
    assert docs.render(text, root, "README.md") == text
    (root / "docs" / "a.svg").touch()
    assert "\n![What it shows](docs/a.svg)\n" in docs.render(text, root, "README.md")
    assert "\n![What it shows](a.svg)\n" in docs.render(text, root, "docs/page.md")


def test_check_names_the_stale_file_and_changes_nothing(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = root / "docs" / "performance.md"
    page.write_text(f"{MARKER}\n<!-- end -->\n")
    assert docs.main(["--check"], root) == 1
    assert "docs/performance.md" in capsys.readouterr().err
    assert page.read_text() == f"{MARKER}\n<!-- end -->\n"
    assert docs.main([], root) == 0
    assert "20,123" in page.read_text()
    assert docs.main(["--check"], root) == 0


def test_check_fails_on_a_bad_marker(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "README.md").write_text(MARKER)
    assert docs.main(["--check"], root) == 1
    assert "README.md:1" in capsys.readouterr().err
