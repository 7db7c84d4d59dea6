"""The same of a block of text on the device: from bytes of a file to rows, where no line meets the host."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from accel_cli import text_pipeline
from accel_cli.bench.bounds import Part, by_name, middle
from accel_cli.bench.limits import Limits
from accel_cli.bench.measure import usual
from accel_cli.bench.text_demand import Text, text_needs
from accel_cli.bench.text_files import filled, repeated
from accel_cli.classifier import Classifier
from accel_cli.pipeline import Pipeline
from accel_cli.text.readers import Source
from accel_cli.text.row_table import row_table
from accel_cli.text.rows import TextFormatter

_REPEATS = 5
_EACH = 8  # blocks of the file for each stream: what is left over at its ends counts little


def text_bounds(
    classifier: Classifier, lines: Sequence[bytes], tokens_each: float, limits: Limits
) -> Part | None:
    """The stages of a block that is filled with `lines`, as often as they fit; None if text is the host's."""
    formatter = TextFormatter("tsv", ["label", "score"], classifier.labels)
    engine, tokenizer, labels = classifier.engine, classifier.tokenizer, len(classifier.labels)
    size, streams = text_pipeline.BLOCK_BYTES, classifier.plan.streams
    with tempfile.TemporaryDirectory(prefix="accel-bench-") as folder:
        path = Path(folder) / "blocks.txt"
        with engine.text_slots(tokenizer, formatter, size) as slots:
            if not slots:
                return None
            block = filled(lines, size)
            repeated(path, block, _EACH * streams)
            host = _read_seconds(path, slots[0].memory[: len(block)])
            found = slots[0].rows(len(block))
        spans = [engine.text_times(tokenizer, formatter, size, block) for _ in range(_REPEATS)]
        wall = usual(partial(_classify, classifier, formatter, path), _REPEATS) / (_EACH * streams)
    table = row_table(formatter, labels)
    assert table is not None, "there are slots for such rows only"
    text = Text(
        bytes=len(block),
        lines=found.lines,
        tokens=round(tokens_each * found.lines),
        labels=labels,
        rows=len(found.rows),
        longest=table.longest,
    )
    stages = middle([by_name(each, lambda span: span.name) for each in spans], text_needs(text), limits)
    return Part(f"block of {len(block)} bytes", found.lines, stages, wall, streams, host, streams)


def _read_seconds(path: Path, memory: memoryview) -> float:
    """Seconds in which one thread reads a block of a file in the page cache; the memory is filled with it."""
    with path.open("rb", 0) as file:
        descriptor = file.fileno()
        return usual(lambda: os.preadv(descriptor, [memory], 0), _REPEATS)


def _classify(classifier: Classifier, formatter: TextFormatter, path: Path) -> None:
    with open(os.devnull, "wb", 0) as sink:
        Pipeline(classifier, formatter, sink.write).run([Source(str(path))])
