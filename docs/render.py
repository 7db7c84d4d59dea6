"""Write the tables of README.md and docs/*.md from the figures in docs/results/.

python docs/render.py            rewrite what stands between the markers
python docs/render.py --check    exit 1 and name the files that differ from their figures

A marker is one line, and all between it and the line `<!-- end -->` is rewritten as a table:

    <!-- results docs/results/sentiment-cpu.json -->
    <!-- results docs/results/a.json,docs/results/b.json clock=host,file warm=true | plan: Plan | n: n -->

First word: `results` for the rows of a file, `stages` for its stages. Then the file, or several with
commas, from the top of the repository. Then filters: key=value, or key=one,other. Then the columns,
each as key: heading; without any, the usual ones. A key that a row lacks is looked up in the whole
file, with dots: `machine.cpu`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LISTS = {"results": "rows", "stages": "stages"}
USUAL = {
    "results": "program: Program | clock: Clock | input: Input | warm: Warm | n: n"
    " | sentences_per_s: Sentences/s | slowest: Slowest | fastest: Fastest | x_peer: x peer"
    " | max_error: Largest error",
    "stages": "stage: Stage | seconds: Seconds | percent: % | gflop_per_s: GFLOP/s | gb_per_s: GB/s",
}
END = "<!-- end -->"
# at the beginning of a line: a marker that is only quoted, in backticks or indented, is text
_MARKER = re.compile(r"^<!-- (results|stages) (.*) -->$")


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
                out += [*table(marker[1], marker[2], root), END]
            except MarkerError as error:
                raise MarkerError(f"{place}:{number + 1}: {error}") from None
            number = end
        number += 1
    return "\n".join(out)


def _closes(line: str) -> bool:
    """Whether a line ends the search for `END`: the next marker does so too, before its table is lost."""
    return line == END or _MARKER.match(line) is not None


def table(kind: str, body: str, root: Path) -> list[str]:
    """The lines of one table, in Markdown."""
    choice, *columns = [part.strip() for part in body.split("|")]
    files, *filters = choice.split()
    columns = columns or USUAL[kind].split("|")
    pairs = [tuple(part.strip() for part in column.partition(":")[::2]) for column in columns]
    if any(not heading for _, heading in pairs):
        raise MarkerError("a column has no heading; write ` | key: Heading` for each")
    wanted = [part.partition("=")[::2] for part in filters]
    rows = [
        [_value(key, row, document) for key, _ in pairs]
        for document in (_load(root / name) for name in files.split(","))
        for row in document[LISTS[kind]]
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


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Rewrite or check all pages; the exit status."""
    parser = argparse.ArgumentParser(
        description="Write the tables of README.md and docs/ from docs/results/."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a table is stale")
    options = parser.parse_args(arguments)
    try:
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
