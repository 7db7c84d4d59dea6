"""What every worker of a run must know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from accel_cli.model.config import Config
from accel_cli.text.formatters import formatter_of
from accel_cli.text.readers import Source
from accel_cli.text.rows import Formatter


@dataclass(frozen=True)
class Job:
    """How shards become part files. It can be pickled; paths in it must mean the same to every worker.

    `config` holds the plan that was asked for, `output` is the folder of the parts, `kept` names
    columns of the input that go into the rows, `on_error` is as in `Pipeline`, and `embeddings` says that
    the inputs are embeddings.
    """

    config: Config
    output: Path
    layout: str = "tsv"
    fields: tuple[str, ...] = ("label", "score")
    kept: tuple[str, ...] = ()
    on_error: str | None = None
    embeddings: bool = False

    def formatter(self, sources: Iterable[Source]) -> Formatter:
        """What makes the rows of one file of some sources. Raises AccelError; see `formatter_of`."""
        return formatter_of(self.layout, self.fields, self.config.model.labels, sources)
