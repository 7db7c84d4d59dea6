"""The part files of an output folder, and beside them, in a hidden folder, what was counted for each."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from accel_cli.pipeline import Summary
from accel_cli.shards.files import replace_text

HIDDEN = ".accel"  # dataset readers and `cat folder/*` pass over it


class Parts:
    """Part files by the numbers of their shards. `folder` and the hidden folder in it exist.

    Counts of other labels than `labels` are damaged; with None, labels are whatever they are.
    """

    def __init__(self, folder: Path, layout: str, labels: Collection[str] | None = None) -> None:
        self.folder = folder
        self._layout = layout
        self._labels = labels

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"part-{number:06d}.{self._layout}"

    def counts(self, number: int) -> Path:
        """The file that says what was counted."""
        return self.folder / HIDDEN / f"part-{number:06d}.json"

    def keep_counts(self, number: int, summary: Summary, size: int) -> None:
        """Write down what was counted for a part of `size` bytes that is about to get its name."""
        replace_text(self.counts(number), json.dumps({"bytes": size, **asdict(summary)}))

    def summary(self, number: int) -> Summary | None:
        """What was counted for a part, or None if it is not there as it was written."""
        path = self.path(number)
        try:
            found = json.loads(self.counts(number).read_text("utf-8"))
            whole = path.is_file() and path.stat().st_size == found.pop("bytes")
            return _counted(found, self._labels) if whole else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def there(self, shards: int) -> list[Path]:
        """What is in the places of the first `shards` parts, whole or not, in order."""
        return _numbered(self.folder, self._layout, shards)

    def counts_there(self, shards: int) -> list[Path]:
        """The files of counts of the first `shards` parts."""
        return _numbered(self.folder / HIDDEN, "json", shards)


def _numbered(folder: Path, suffix: str, shards: int) -> list[Path]:
    name = re.compile(rf"part-([0-9]{{6}})\.{re.escape(suffix)}")
    found = ((path, name.fullmatch(path.name)) for path in folder.iterdir())
    return sorted(path for path, match in found if match and int(match[1]) < shards)


def _counted(found: dict[str, Any], labels: Collection[str] | None) -> Summary:
    """The summary that was written down so. Raises TypeError, ValueError if none was."""
    summary = Summary(**found)
    numbers = [summary.sentences, summary.truncated, summary.blank, summary.replaced_bytes, summary.failed]
    numbers += summary.labels.values()
    sound = (
        len(found) == len(fields(Summary))
        and all(type(number) is int and number >= 0 for number in numbers)
        and (labels is None or summary.labels.keys() <= set(labels))
        and isinstance(summary.seconds, int | float)
        and isinstance(summary.first_failure, str | None)
    )
    if not sound:
        raise ValueError("a count has a value that none has")
    return summary


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
