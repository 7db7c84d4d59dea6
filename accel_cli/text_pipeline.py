"""Text on the device: blocks of bytes -> slots of the engine -> rows, in order, several under way at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue

from accel_cli.classifier import Classifier
from accel_cli.engines.base import TextRows, TextSlot
from accel_cli.text.blocks import Block, Blocks, FileBlocks, StreamBlocks
from accel_cli.text.readers import Source
from accel_cli.text.rows import Formatter

BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class TextBlock:
    """A block that is done, and its lines if some are not UTF-8 and they were asked for."""

    found: TextRows
    invalid: list[bytes]


class TextPipeline:
    """Takes sources through text slots, with as many threads, each of which fills one and waits for it.

    This thread finds out where blocks end, or reads streams, and gets the results: it can be interrupted.
    """

    def __init__(self, slots: Sequence[TextSlot], threads: ThreadPoolExecutor, *, keep_invalid: bool) -> None:
        self._threads, self._keep_invalid = threads, keep_invalid
        self._count = len(slots)
        self._free: SimpleQueue[TextSlot] = SimpleQueue()
        for slot in slots:
            self._free.put(slot)

    def run(self, source: Source) -> Generator[TextBlock, None, None]:
        """The blocks of a source in order; what fails is raised behind all that came before it."""
        with source.opened() as stream:
            plain = source.plain  # what says that it is empty may still hold something
            if plain is not None and plain[0] < plain[1]:
                yield from self._run(FileBlocks(stream.fileno(), *plain, source.place, count=source.count))
            else:
                within = source.span is not None and source.span.start > 0
                yield from self._run(StreamBlocks(stream, source.place, within=within))

    def _run(self, blocks: Blocks) -> Iterator[TextBlock]:
        pending: deque[Future[TextBlock]] = deque()
        try:
            while True:
                slot = self._free.get()
                try:
                    block = blocks.next(slot.memory)
                except Exception:
                    self._free.put(slot)
                    yield from _finished(pending, 0)
                    raise
                if block is None:
                    self._free.put(slot)
                    break
                pending.append(self._threads.submit(self._take, slot, block))
                # a short block: the input pauses, and whoever feeds it may wait for the answer
                yield from _finished(pending, 0 if block.short else self._count)
            yield from _finished(pending, 0)
        finally:
            wait(pending)  # they read from what is closed after this

    def _take(self, slot: TextSlot, block: Block) -> TextBlock:
        """In a thread: what becomes of a block."""
        try:
            size = block.fill(slot.memory)
            found = slot.rows(size)
            kept = self._keep_invalid and found.invalid > 0
            return TextBlock(found, bytes(slot.memory[:size]).split(b"\n") if kept else [])
        finally:
            self._free.put(slot)


def _finished(pending: deque[Future[TextBlock]], under_way: int) -> Iterator[TextBlock]:
    """The oldest results, until `under_way` are left."""
    while len(pending) > under_way:
        found = pending[0].result()
        pending.popleft()  # only now: whoever is interrupted above waits for it
        yield found


@contextmanager
def text_pipeline(
    classifier: Classifier, formatter: Formatter, *, keep_invalid: bool
) -> Iterator[TextPipeline | None]:
    """One for the rows of a formatter, or None if they need the host; `keep_invalid` as in TextBlock."""
    with classifier.engine.text_slots(classifier.tokenizer, formatter, BLOCK_BYTES) as slots:
        if not slots:
            yield None
            return
        with ThreadPoolExecutor(len(slots), thread_name_prefix="accel-text") as threads:
            yield TextPipeline(slots, threads, keep_invalid=keep_invalid)
