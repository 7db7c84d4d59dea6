"""Fill the measured part of the model card from the logs of students; the first is the one that ships.

python weights/train/card.py weights/train/log.json [LOG ...]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CARD = Path(__file__).parent.parent / "MODEL_CARD.md"
BEGIN, END = "<!-- measured: begin, by weights/train/card.py -->", "<!-- measured: end -->"


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown; the columns after the first are numbers."""
    names = head.split("|")
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows]
    return "\n".join(f"| {' | '.join(str(cell).strip() for cell in line)} |" for line in lines)


def measured(logs: list[dict[str, Any]]) -> str:
    """The measured part of the card."""
    shipped = logs[0]["stages"]
    export, teacher, device = shipped["export"], shipped["label"], shipped["device"]
    dev = [
        (name, value, teacher["dev"].get(name, ""), export["calibration"][name])
        for name, value in export["dev"].items()
    ]
    kinds = [
        (kind, count, passed, teacher["behaviours"].get(kind, [""])[0])
        for kind, (passed, count) in export["behaviours"].items()
    ]
    curve = [curve_row(log["stages"]) for log in logs]
    parts = [
        f"Trained on {device['name']}, PyTorch {device['torch']}; texts: {shipped['distil']['rows']:,}."
        f" Weights and vocabulary: {export['bytes'] / 2**20:.1f} MiB.",
        "Dev sets (those of other sources than SST-2 up to 4,000 rows), accuracy in %:",
        table("set | this model | its teacher | calibration error", dev),
        "Expected calibration error on every second dev row of the sets named for it in the recipe, together:"
        f" {export['calibration']['together']:.3f}; temperature {export['temperature']:.2f} was fitted on"
        f" the others. SST-2 dev by accel's own float64 reference: {export['reference']['sst2']} %.",
        "Behaviours (`weights/train/behaviours.tsv`, written for this), how many come out right:",
        table("kind | of | this model | its teacher", kinds),
    ]
    if len(logs) > 1:
        parts += [
            "Filters per width, each trained for the same time side by side:",
            table("filters | MiB | SST-2 dev | mean of all dev sets | behaviours", sorted(curve)),
        ]
    return "\n\n".join(parts)


def curve_row(stages: dict[str, Any]) -> list[object]:
    """What a student of one size brought."""
    export = stages["export"]
    size, passed = stages["recipe"]["spec"]["filters"], "{} / {}".format(*export["behaviours"]["all"])
    return [size, f"{export['bytes'] / 2**20:.1f}", export["dev"]["sst2"], mean(export["dev"]), passed]


def mean(values: dict[str, float]) -> float:
    return round(sum(values.values()) / len(values), 2)


def fill(card: str, text: str) -> str:
    """The card with `text` between its marks."""
    before, _, rest = card.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main() -> None:
    logs = [json.loads(Path(path).read_text("utf-8")) for path in sys.argv[1:]]
    CARD.write_text(fill(CARD.read_text("utf-8"), measured(logs)), "utf-8")


if __name__ == "__main__":
    main()
