"""The part files of an output folder, and beside them, in a hidden folder, what was counted for each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from accel_cli.pipeline import Summary
from accel_cli.text.writers import beside

HIDDEN = ".accel"  # dataset readers and `cat folder/*` pass over it


class Parts:
    """Part files by the numbers of their shards. `folder` and the hidden folder in it exist."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.folder = folder
        self._layout = layout

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"part-{number:06d}.{self._layout}"

    def counts(self, number: int) -> Path:
        """The file that says what was counted."""
        return self.folder / HIDDEN / f"part-{number:06d}.json"

    def keep_counts(self, number: int, summary: Summary, size: int) -> None:
        """Write down what was counted for a part of `size` bytes that is about to get its name."""
        text = json.dumps({"bytes": size, **asdict(summary)}, ensure_ascii=False)
        with beside(str(self.counts(number)), overwrite=True) as temporary:
            Path(temporary).write_text(text, "utf-8")

    def summary(self, number: int) -> Summary | None:
        """What was counted for a part, or None if it is not there as it was written."""
        try:
            found = json.loads(self.counts(number).read_text("utf-8"))
            whole = self.path(number).stat().st_size == found.pop("bytes")
            return Summary(**found) if whole else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def sync(folder: Path) -> None:
    """Make the names in a folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def total(summaries: Mapping[int, Summary]) -> Summary:
    """The sums over parts by their numbers; of failures, the first one."""
    result = Summary()
    for _, summary in sorted(summaries.items()):
        for field in fields(Summary):
            setattr(result, field.name, _sum(getattr(result, field.name), getattr(summary, field.name)))
    return result


def _sum(one: Any, other: Any) -> Any:
    if isinstance(other, dict):
        return {key: one.get(key, 0) + count for key, count in other.items()}
    return one + other if isinstance(other, int | float) else one or other
