"""What `accel bench --json` measured, as a plan needs it: from a file in the page cache to rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from accel_cli.errors import InputError


@dataclass(frozen=True)
class Figures:
    """How fast one device, or all cores of one machine, turned text into rows.

    Rates are sentences a second: `rate` of the middle repeat, `slowest` and `fastest` of all, `from_ids` the
    best warm rate from token ids on. `core_seconds` is the CPU time of the host a sentence.
    """

    file: str
    suite: str
    machine: str
    on_cpu: bool
    cores: int
    commit: str
    date: str
    rate: float
    slowest: float
    fastest: float
    from_ids: float
    core_seconds: float
    load_seconds: float
    sentence_bytes: float | None

    @property
    def unit(self) -> str:
        """What the plan counts, and what a price is paid for."""
        return "core" if self.on_cpu else "GPU"


def load_figures(path: str) -> Figures:
    """Read a file of `accel bench --json`. InputError if it is none, or lacks a figure."""
    try:
        document = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; name a file that accel bench --json wrote") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON ({error}); name a file that accel bench --json wrote") from error
    try:
        return _figures(path, document)
    except (KeyError, TypeError, IndexError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise InputError(
            f"{path} has not the figures of a plan ({type(error).__name__}: {error}); name a file that"
            " accel bench --json wrote, without --serve, --ladder and --suite"
        ) from error


def _figures(path: str, document: dict[str, Any]) -> Figures:
    rows = [row for row in document["rows"] if row["program"] == "accel" and row["warm"]]
    whole = next((row for row in rows if (row["clock"], row["input"]) == ("file", "text")), None)
    if whole is None:
        raise ValueError("no warm row of accel by the clock `file`")
    machine, sentences = document["machine"], document["sentences"]
    size = sentences.get("bytes")
    return Figures(
        file=path,
        suite=str(document["suite"]),
        machine=str((machine["gpu"] or {}).get("name", machine["cpu"])),
        on_cpu=document["device"] == "cpu",
        cores=int(_positive(machine["cores"])),
        commit=str(document["commit"]),
        date=str(document["date"]),
        rate=_positive(whole["sentences_per_s"]),
        slowest=_positive(whole["slowest"]),
        fastest=_positive(whole["fastest"]),
        from_ids=max(_positive(row["sentences_per_s"]) for row in rows if row["input"] == "ids"),
        core_seconds=_positive(median(whole["cpu_repeats"])) / _positive(whole["n"]),
        load_seconds=_positive(document["load_seconds"]),
        sentence_bytes=None if size is None else _positive(size) / _positive(sentences["count"]),
    )


def _positive(value: Any) -> float:
    """A figure, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e18:
        raise ValueError(f"{value!r} is no positive number")
    return float(value)
