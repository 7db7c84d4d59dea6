"""What `accel bench --suite shards` does: one text into one file, and into folders by workers, in turns."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import chain, zip_longest
from pathlib import Path

from accel_cli.bench.inputs import TOKENS, obtain_sentences
from accel_cli.bench.measure import in_turns
from accel_cli.bench.shards_report import Row, ShardsReport
from accel_cli.errors import AccelError
from accel_cli.model.config import Config

_PROGRAM = (sys.executable, "-m", "accel_cli", "run")
_QUIET = 1.25  # slowest by fastest repeat, beyond which something else was running


@dataclass(frozen=True)
class Job:
    """What to measure. `arguments` are those of `accel run`: model, device and plan."""

    arguments: tuple[str, ...]
    count: int
    repeats: int
    workers: int
    path: str | None = None
    tokens: int = TOKENS


@dataclass(frozen=True)
class _Way:
    """One way to run, its options, and where its rows go."""

    name: str
    options: tuple[str, ...]
    output: Path
    folder: bool

    def run(self, text: Path, arguments: tuple[str, ...]) -> None:
        """Start the command anew and wait for it. Raises AccelError with what it said if it fails."""
        if self.output.is_dir():
            shutil.rmtree(self.output)
        self.output.unlink(missing_ok=True)
        output = f"{self.output}/" if self.folder else str(self.output)
        line = [*_PROGRAM, "--input", str(text), "--output", output, *self.options, *arguments]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise AccelError(f"{self.name}: accel run ended with {done.returncode}: {last}")

    def rows(self) -> Iterator[bytes]:
        """What it wrote, in order."""
        parts = sorted(self.output.glob("part-*")) if self.folder else [self.output]
        return chain.from_iterable(part.open("rb") for part in parts)


def run(config: Config, job: Job, tell: Callable[[str], None]) -> ShardsReport:
    """Measure. Raises AccelError, before any timing, if the ways give different labels."""
    sentences = obtain_sentences(config.model, job.path, job.count, job.tokens)
    with tempfile.TemporaryDirectory(prefix="accel-bench-") as place:
        text = Path(place, "text.txt")
        text.write_bytes(b"\n".join(sentences.lines) + b"\n")
        ways = _ways(Path(place), job.workers)
        for way in ways:
            way.run(text, job.arguments)
        for way in ways[1:]:
            _check(way, ways[0])
        tell(f"the same labels by {', '.join(way.name for way in ways)}; timing them, {job.repeats} times")
        runs = {way.name: partial(way.run, text, job.arguments) for way in ways}
        timings = in_turns(runs, job.repeats)
        size = text.stat().st_size
    rows = [Row(name, timing.seconds, timings[ways[0].name].seconds) for name, timing in timings.items()]
    for row in rows:
        if max(row.seconds) > _QUIET * min(row.seconds):
            tell(f"{row.way}: repeats differ by more than {_QUIET} times; something else was running")
    return ShardsReport(config.name, job.arguments, sentences.origin, len(sentences), size, rows)


def _ways(place: Path, workers: int) -> list[_Way]:
    """The ways, the one to compare with first."""
    ways = [
        _Way("one process, one file", (), place / "rows.tsv", folder=False),
        _Way("one process, a folder", (), place / "one", folder=True),
        _Way(f"{workers} workers, a folder", ("--workers", str(workers)), place / "many", folder=True),
    ]
    if find_spec("ray") is not None:
        ways.append(
            _Way("Ray, a folder", ("--engine", "ray", "--address", "local"), place / "ray", folder=True)
        )
    return ways


def _check(way: _Way, first: _Way) -> None:
    """AccelError unless the labels are the same, line by line; scores may differ in their last digit."""
    for number, (one, other) in enumerate(zip_longest(first.rows(), way.rows(), fillvalue=b""), 1):
        if one.partition(b"\t")[0] != other.partition(b"\t")[0]:
            raise AccelError(
                f"not timed, because row {number} differs: {one!r} by {first.name}, {other!r} by {way.name}"
            )
