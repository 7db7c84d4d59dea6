"""The tokenizer on a CUDA device: bytes to token ids, as text.lines and text.tokenizer do it on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.cuda.buffers import empty, zero
from accel_cli.cuda.device import cupy
from accel_cli.kernels.base import Runner
from accel_cli.kernels.text_common import MOST_BYTES, THREADS, Count, tiles
from accel_cli.kernels.text_ends import text_ends
from accel_cli.kernels.text_invalid import text_invalid
from accel_cli.kernels.text_lengths import blocks_of, text_lengths
from accel_cli.kernels.text_lines import text_lines
from accel_cli.kernels.text_lookup import Tokens, Words, text_lookup
from accel_cli.kernels.text_marks import text_marks
from accel_cli.kernels.text_offsets import text_offsets
from accel_cli.kernels.text_sums import text_sums
from accel_cli.text.hash_table import hash_table
from accel_cli.text.tokenizer import BYTES_PER_TOKEN
from accel_cli.text.vocabulary import PAD, Vocabulary


@dataclass(frozen=True)
class DeviceTokens:
    """Arrays on the device, valid until the tokenizer's next call. `counts` says how much of each is in use.

    `ids` are end to end, sentence i from `offsets[i]` to `offsets[i + 1]`; `truncated` and `blank` are uint8
    flags of lines; `counts` is int32, a place for each `Count`. If it has more lines than there is room for,
    the others hold the first of them.
    """

    ids: Any
    offsets: Any
    truncated: Any
    blank: Any
    counts: Any


class DeviceTokenizer:
    """Turns a chunk of at most `size` bytes and `lines` lines into sentences, as Tokenizer.encode does.

    A chunk ends behind a newline or where the text ends: whoever cuts a text looks for the last newline. Of a
    line longer than a chunk the bytes behind the first 64 x `max_tokens` + 2 may be left out, which changes
    nothing but the count of invalid bytes. For the results of text.lines, a byte order mark is to be removed
    before, and what lies beyond LINE_LIMIT of a line. ValueError if what a chunk may hold does not fit int32.
    """

    def __init__(
        self, words: Words, min_tokens: int, max_tokens: int, run: Runner, size: int, lines: int
    ) -> None:
        most = size + lines * min_tokens
        if min(size, lines) < 1 or most > MOST_BYTES:
            raise ValueError(
                f"{size} bytes in {lines} lines may be {most} tokens, and must be 1 to {MOST_BYTES}"
            )
        self._run, self._size, self._room = run, size, lines
        self._sizes = (min_tokens, max_tokens, min(BYTES_PER_TOKEN * max_tokens, MOST_BYTES))
        self._words = words
        count = tiles(size)
        self._breaks, self._starts, self._stops = (empty(count, THREADS, dtype="uint32") for _ in range(3))
        self._lines, self._tokens = (empty(count, dtype="int32") for _ in range(2))
        self._ends, self._found = (empty(lines, dtype="int32") for _ in range(2))
        self._blocks = empty(blocks_of(lines), dtype="int32")
        self._tokenized = DeviceTokens(
            empty(most, dtype="int32"),
            empty(lines + 1, dtype="int32"),
            empty(lines, dtype="uint8"),
            empty(lines, dtype="uint8"),
            empty(len(Count), dtype="int32"),
        )

    def __call__(self, text: Any, size: int) -> DeviceTokens:
        """Enqueue what turns the first `size` bytes of text, uint8 on the device, into sentences."""
        if size > self._size:
            raise ValueError(f"a chunk of {size} bytes; there is room for {self._size}")
        run, out, (least, most, limit) = self._run, self._tokenized, self._sizes
        marks = self._marks(tiles(size))
        room = min(self._room, max(size, 1))  # a line has a byte at least
        ends, found, blocks = self._ends[:room], self._found[:room], self._blocks[: blocks_of(room)]
        offsets = out.offsets[: room + 1]

        zero(out.counts)
        text_invalid(run, text, size, out.counts)
        text_lines(run, text, size, marks.breaks, marks.lines)
        text_sums(run, marks.lines, out.counts, Count.LINES)
        text_marks(run, text, size, marks.breaks, marks.starts, marks.stops, marks.tokens, limit)
        text_sums(run, marks.tokens, out.counts, Count.FOUND)
        text_ends(run, marks.breaks, marks.starts, marks.lines, marks.tokens, ends, found)
        flags = (out.truncated[:room], out.blank[:room])
        text_lengths(run, text, ends, found, out.counts, offsets, blocks, *flags, (least, most, limit))
        text_sums(run, blocks, out.counts, Count.TOKENS)
        text_offsets(run, found, out.counts, blocks, offsets, out.ids, least, PAD)
        text_lookup(run, text, marks, found, offsets, self._words, out.ids)
        return out

    def _marks(self, count: int) -> Tokens:
        """Those of the first tiles."""
        return Tokens(
            *(array[:count] for array in (self._breaks, self._starts, self._stops, self._lines, self._tokens))
        )


def words_of(vocabulary: Vocabulary) -> Words:
    """A vocabulary on the device, for any number of tokenizers."""
    module, table = cupy(), hash_table(vocabulary)
    return Words(module.asarray(table.slots), module.asarray(table.words), table.probes, table.longest)
