"""Host twin of kernels_cu/text_lookup.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape
from accel_cli.kernels.text_common import by_tiles

KERNEL = Kernel(
    "text_lookup",
    (
        Array("text", "uint8"),
        Array("breaks", "uint32"),
        Array("starts", "uint32"),
        Array("stops", "uint32"),
        Array("lines", "int32"),
        Array("tokens", "int32"),
        Array("found", "int32"),
        Array("offsets", "int32"),
        Array("slots", "uint32"),
        Array("words", "uint8"),
        Array("ids", "int32", written=True),
        Scalar("mask", "int32"),
        Scalar("probes", "int32"),
        Scalar("longest", "int32"),
        Scalar("room", "int32"),
    ),
)


@dataclass(frozen=True)
class Tokens:
    """Where tokens lie: the marks [tiles, THREADS], and the lines and tokens [tiles] before each tile."""

    breaks: Any
    starts: Any
    stops: Any
    lines: Any
    tokens: Any


@dataclass(frozen=True)
class Words:
    """A hash table on the device, as accel_cli.text.hash_table makes it."""

    slots: Any
    words: Any
    probes: int
    longest: int


def geometry(tiles: int) -> Launch:
    """A block a tile."""
    return by_tiles(KERNEL, tiles)


def text_lookup(
    run: Runner, text: Any, tokens: Tokens, found: Any, offsets: Any, vocabulary: Words, ids: Any
) -> None:
    """ids, from offsets [room + 1] on those of each line, = the vocabulary's ids of its tokens.

    found [room] is that of text_ends, and says which tokens are of which line.
    """
    (tiles,), (room,), (slots, _) = tokens.lines.shape, found.shape, vocabulary.slots.shape
    check_shape("text_lookup starts", tokens.starts.shape, tokens.breaks.shape)
    check_shape("text_lookup stops", tokens.stops.shape, tokens.breaks.shape)
    check_shape("text_lookup tokens", tokens.tokens.shape, (tiles,))
    check_shape("text_lookup offsets", offsets.shape, (room + 1,))
    check_shape("text_lookup slots", vocabulary.slots.shape, (slots, 4))
    if slots & (slots - 1):
        raise ValueError(f"text_lookup: {slots} slots are no power of two")
    marks = (tokens.breaks, tokens.starts, tokens.stops, tokens.lines, tokens.tokens)
    table = (vocabulary.slots, vocabulary.words)
    limits = (slots - 1, vocabulary.probes, vocabulary.longest)
    run(geometry(tiles), text, *marks, found, offsets, *table, ids, *limits, room)
