"""A part of an input that can be read apart from the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """From `start` up to `stop`: bytes of a text or jsonl file, or row groups of a Parquet file."""

    start: int
    stop: int
