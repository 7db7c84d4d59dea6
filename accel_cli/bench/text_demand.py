"""What each kernel that reads text or writes rows takes: every array once, those of lines by their number.

See the headers of kernels_cu/text_*.cu for the arrays. The text of a block fits in the level-2 cache of a
large device, so that its bytes are held against both.
"""

from __future__ import annotations

from dataclasses import dataclass

from accel_cli.bench.demand import Need
from accel_cli.bench.limits import L2, MEMORY_BYTES, PCIE_IN, PCIE_OUT

_NUMBER = 4  # bytes of an id, a place, a count
_BITS = 8  # bytes of text for a byte of marks: one bit each
_SLOT = 16  # bytes of a slot of the hash table


@dataclass(frozen=True)
class Text:
    """A block of text: its bytes, lines, tokens and labels, the bytes of its rows and of the longest one."""

    bytes: int
    lines: int
    tokens: int
    labels: int
    rows: int
    longest: int


def text_needs(text: Text) -> dict[str, Need]:
    """The needs of a block's kernels and copies by their names; `text_sums` and the network have none."""
    marks, lines, tokens = text.bytes // _BITS, _NUMBER * text.lines, _NUMBER * text.tokens
    moved = {
        "text_invalid": text.bytes,
        "text_lines": text.bytes + marks,
        "text_marks": text.bytes + 3 * marks,  # breaks, starts, stops
        "text_ends": 2 * marks + 2 * lines,
        "text_lengths": 3 * lines + text.lines * 2,  # ends, found, offsets; two flags
        "text_offsets": 3 * lines,  # found, offsets read and written
        "text_lookup": text.bytes + 3 * marks + 2 * lines + tokens + _SLOT * text.tokens,
        "text_points": 2 * text.labels * lines + 2 * lines,
        "text_rows": 2 * lines + text.rows,
    }
    return {
        "copies in": Need(0, {PCIE_IN: text.bytes}),
        **{name: Need(0, {L2: float(size), MEMORY_BYTES: float(size)}) for name, size in moved.items()},
        "copies out": Need(0, {PCIE_OUT: text.lines * text.longest}),
    }
