"""The unit of work: a part of one input, whose rows become one file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accel_cli.errors import UsageError
from accel_cli.text.readers import Source
from accel_cli.text.span import Span
from accel_cli.text.spans import spans
from accel_cli.text.urls import is_url, shown

MOST = 1_000_000  # shards of a run; their numbers have six digits, so that names sort as they do


@dataclass(frozen=True)
class Shard:
    """A part of one input. `number` counts the shards of a run from 0, in the order of the input.

    `kind` and `column` are those of a Source; without a `span` the shard is the whole input.
    """

    number: int
    path: str
    kind: str | None = None
    column: str | None = None
    span: Span | None = None

    def source(self, kept: Sequence[str] = ()) -> Source:
        """Its records, with the columns to keep. Raises InputError if the input cannot be read."""
        return Source(self.path, self.kind, self.column, self.span, kept)

    @property
    def size(self) -> int | None:
        """The bytes to be read, where that is cheap to know."""
        if self.span is None:
            return self.source().size
        return None if self.kind == "parquet" else self.span.stop - self.span.start

    @property
    def place(self) -> str:
        """The input's name in messages."""
        return shown(self.path) if is_url(self.path) else self.path

    def __str__(self) -> str:
        if self.span is None or self.span.start == self.span.stop:
            return self.place
        unit = "row groups" if self.kind == "parquet" else "bytes"
        return f"{self.place}, {unit} {self.span.start} to {self.span.stop - 1}"

    def within(self, reason: str) -> str:
        """Why it failed, for beside the shard's own name: the place is not said again."""
        for begin, instead in (
            (f"{self}, ", ""),
            (f"{self.place}, ", ""),
            (f"{self.place}: ", ""),
            (f"{self.place}:", "line "),
            (f"{self.place} ends ", "it ends "),
            (f"cannot read {self.place}:", "cannot read it:"),
        ):
            if reason.startswith(begin):
                return instead + reason.removeprefix(begin)
        return reason


def shards_of(sources: Iterable[Source], size: int) -> list[Shard]:
    """The shards of some inputs, of about `size` bytes each, in order. Raises InputError, UsageError."""
    parts = [(source, span) for source in sources for span in spans(source, size)]
    if len(parts) > MOST:
        raise UsageError(
            f"--shard-size {size} makes {len(parts)} shards of this input, over {MOST}; raise it"
        )
    return [
        Shard(number, source.path, source.kind, source.column, span)
        for number, (source, span) in enumerate(parts)
    ]
