"""Write the tables of README.md and docs/*.md from the figures in docs/results/.

python docs/render.py            rewrite what stands between the markers
python docs/render.py --check    exit 1 and name the files that differ from their figures
python docs/render.py --pictures draw the pictures of docs/ as well (matplotlib, extra `plot`)

A marker is one line, and all between it and the line `<!-- end -->` is rewritten as a table:

    <!-- results docs/results/sentiment-cpu.json -->
    <!-- results docs/results/a.json,docs/results/b.json clock=host,file warm=true | plan: Plan | n: n -->
    <!-- ladder docs/results/ladder-h200.json -->
    <!-- serve docs/results/serve-cpu.json -->
    <!-- picture docs/ladder.svg What it shows -->

First word: a kind of table in docs/tables.yaml, or `picture`, which shows a file if it is there. Then the
file of figures, or several with commas, from the top of the repository. Then filters: key=value, or
key=one,other. Then the columns, each as key: heading; without any, the usual ones. A key that a row lacks is
looked up in the whole file, with dots: `machine.cpu`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
LADDER, PICTURES = "docs/results/ladder-h200.json", ("docs/ladder.png", "docs/ladder.svg")
SCALING = ("docs/results/scaling-h200.json", "docs/results/scaling-school-h200.json")
SCALED = "docs/scaling.svg"
KINDS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docs/tables.yaml").read_text("utf-8"))
END = "<!-- end -->"
# at the beginning of a line: a marker that is only quoted, in backticks or indented, is text
_MARKER = re.compile(rf"^<!-- ({'|'.join((*KINDS, 'picture'))}) (.*) -->$")


class MarkerError(Exception):
    """A marker that cannot be rendered; the message says where and why."""


def pages(root: Path) -> list[Path]:
    """The files that may hold markers."""
    return [path for path in (root / "README.md", *sorted((root / "docs").glob("*.md"))) if path.is_file()]


def render(text: str, root: Path, place: str = "text") -> str:
    """The text with every table written anew; MarkerError names `place` and the line."""
    lines = text.split("\n")
    out: list[str] = []
    number = 0
    while number < len(lines):
        out.append(lines[number])
        if marker := _MARKER.match(lines[number]):
            end = next((i for i in range(number + 1, len(lines)) if _closes(lines[i])), None)
            if end is None or lines[end] != END:
                raise MarkerError(f"{place}:{number + 1}: no line `{END}` after this marker")
            try:
                out += [*_content(marker[1], marker[2], root, Path(place).parent), END]
            except MarkerError as error:
                raise MarkerError(f"{place}:{number + 1}: {error}") from None
            number = end
        number += 1
    return "\n".join(out)


def _content(kind: str, body: str, root: Path, folder: Path) -> list[str]:
    """What stands after a marker on a page in `folder`."""
    if kind == "picture":
        name, _, text = body.partition(" ")
        return [f"![{text}]({relpath(name, folder)})"] if (root / name).exists() else []
    if "missing" in KINDS[kind] and not (root / body.split()[0]).exists():
        return [KINDS[kind]["missing"]] if KINDS[kind]["missing"] else []
    return table(kind, body, root)


def _closes(line: str) -> bool:
    """Whether a line ends the search for `END`: the next marker does so too, before its table is lost."""
    return line == END or _MARKER.match(line) is not None


def table(kind: str, body: str, root: Path) -> list[str]:
    """The lines of one table, in Markdown."""
    choice, *columns = [part.strip() for part in body.split("|")]
    files, *filters = choice.split()
    pairs = [tuple(part.strip() for part in column.partition(":")[::2]) for column in columns]
    pairs = pairs or list(KINDS[kind]["columns"].items())
    if any(not heading for _, heading in pairs):
        raise MarkerError("a column has no heading; write ` | key: Heading` for each")
    wanted = [part.partition("=")[::2] for part in filters]
    rows = [
        [_value(key, row, document) for key, _ in pairs]
        for document in (_load(root / name) for name in files.split(","))
        for row in _rows(kind, document)
        if all(_text(_value(key, row, document)) in values.split(",") for key, values in wanted)
    ]
    if not rows:
        raise MarkerError(f"no row of {files} fits {' '.join(filters) or 'the marker'}")
    numeric = [all(_is_number(row[i]) for row in rows) for i in range(len(pairs))]
    return [
        _line([heading for _, heading in pairs]),
        _line(["---:" if right else "---" for right in numeric]),
        *(_line([_shown(value) for value in row]) for row in rows),
    ]


def _rows(kind: str, document: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that a kind of table is of."""
    if kind == "ladder":
        return _rungs(document["rows"])
    if kind == "gemm":
        return _products(document["rows"])
    rows: Any = document[KINDS[kind]["list"]]
    if kind == "bounds":  # those of a batch, then those of a block of text
        return [{**row, "unit": part["unit"]} for part in rows["parts"] for row in part["stages"]]
    return list(rows["limits"] if kind == "limits" else rows)


def _products(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each matrix product: cuBLAS's TFLOP/s, and how many times as fast each program is."""
    programs = dict.fromkeys(row["program"] for row in rows)
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        product = found.setdefault(row["product"], {**programs, "product": row["product"]})
        rate = "tflop_per_s" if row["program"] == "cuBLAS" else "x_cublas"
        product[row["program"]] = row[rate]
    return [*found.values()]


def _rungs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each rung and peer: many sentences, embeddings in; beside it what else was measured.

    A rung that takes no embeddings is compared by its ids.
    """
    groups: dict[tuple[Any, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["rung"], row["name"]), []).append(row)
    found = []
    for group in groups.values():
        rates = {(row["input"], row["regime"]): row["sentences_per_s"] for row in group}
        many = {row["input"]: row for row in group if row["regime"] == "many"}
        first = many.get("embeddings") or many["ids"]
        peer = first["rung"] is None
        found.append(
            {
                **first,
                "sentences_per_s": rates.get(("embeddings", "many")),
                "name": f"{first['program']}, {first['name']}" if peer else first["name"],
                "one_batch": rates.get(("embeddings", "one batch")),
                "cold": rates.get(("embeddings", "cold")),
                "ids": rates.get(("ids", "many")),
                "ids_one_batch": rates.get(("ids", "one batch")),
                "worst": max(row["max_error"] for row in group),
            }
        )
    return found


def _load(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise MarkerError(f"no figures in {path} ({error}); write it with `accel bench --json`") from error
    return document


def _value(key: str, row: dict[str, Any], document: dict[str, Any]) -> Any:
    if key in row:
        return row[key]
    value: Any = document
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise MarkerError(f"no figure is called {key!r}; a row has {', '.join(row)}")
        value = value[part]
    return value


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _text(value: Any) -> str:
    """A value as a filter writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(value: Any) -> str:
    """A value as a reader wants it: three digits of a small number, all of a whole or a large one."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.01 else f"{value:.1e}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def stale(root: Path) -> Iterator[tuple[Path, str]]:
    """The files that differ from what their figures say, each with what should stand in it."""
    for path in pages(root):
        text = path.read_text("utf-8")
        rendered = render(text, root, str(path.relative_to(root)))
        if rendered != text:
            yield path, rendered


def draw(root: Path) -> None:
    """Write the ladder's picture, once for each ending, from its figures, and that of several GPUs."""
    from accel_cli.bench.picture import drawn
    from accel_cli.bench.scaling_picture import scaling_drawn

    document = _load(root / LADDER)
    for name in PICTURES:
        (root / name).write_bytes(drawn(document, Path(name).suffix))
    if measured := [_load(root / name) for name in SCALING if (root / name).exists()]:
        (root / SCALED).write_bytes(scaling_drawn(measured, Path(SCALED).suffix))


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Rewrite or check all pages; the exit status."""
    parser = argparse.ArgumentParser(
        description="Write the tables of README.md and docs/ from docs/results/."
    )
    parser.add_argument("--pictures", action="store_true", help="draw the pictures first")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a table is stale")
    options = parser.parse_args(arguments)
    try:
        if options.pictures:
            draw(root)
        found = list(stale(root))
    except MarkerError as error:
        print(f"render: {error}", file=sys.stderr)
        return 1
    for path, text in found:
        if options.check:
            print(
                f"render: {path.relative_to(root)} differs from its figures; run `make docs`", file=sys.stderr
            )
        else:
            path.write_text(text, "utf-8")
            print(f"render: wrote {path.relative_to(root)}")
    return 1 if options.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
