"""The formatter of a layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accel_cli.text.readers import Source
from accel_cli.text.rows import FORMATS, Formatter, TextFormatter

LAYOUTS = (*FORMATS, "parquet")


def formatter_of(
    layout: str, fields: Sequence[str], labels: Sequence[str], sources: Iterable[Source]
) -> Formatter:
    """What makes the rows of some sources, with the columns that they keep if they are Parquet.

    Raises AccelError if the layout needs an extra that is missing, InputError if the kept columns of
    the sources differ.
    """
    if layout == "parquet":
        from accel_cli.text.parquet_rows import parquet_formatter

        return parquet_formatter(fields, labels, sources)
    return TextFormatter(layout, fields, labels)
