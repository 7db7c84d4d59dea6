"""JSON Lines: an object a line, one of whose values is the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from accel_cli.text.chunks import TextChunk
from accel_cli.text.lines import LINE_LIMIT, cut

LIMIT = 64 << 20  # bytes of a record; of a longer one, a little more than that is to be given


def json_chunks(lines: Iterable[list[bytes]], column: str, at: Callable[[int], str]) -> Iterator[TextChunk]:
    """The texts of lists of lines, list by list; `at` says where a record stands that has none."""
    first = 1
    for some in lines:
        texts, failed = [], {}
        for place, line in enumerate(some):
            try:
                texts.append(cut(_text(line, column), LINE_LIMIT))
            except ValueError as error:
                failed[place] = f"{at(first + place)}: {error}"
                texts.append(b"")
        yield TextChunk(texts, first, failed)
        first += len(some)


def _text(line: bytes, column: str) -> bytes:
    """The text of one JSON record; ValueError says what is wrong with it."""
    if len(line) > LIMIT:
        raise ValueError(f"the record is longer than {LIMIT >> 20} MiB")
    try:
        record = json.loads(line.decode("utf-8", "surrogateescape"))
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("not readable JSON: nested too deeply") from None
    except ValueError:
        raise ValueError("not readable JSON: a number has more than 4300 digits") from None
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object, got {type(record).__name__}")
    if column not in record:
        raise ValueError(f"no key {column!r}; its keys: {', '.join(record) or 'none'}")
    value = record[column]
    if not isinstance(value, str):
        raise ValueError(f"{column!r} is {type(value).__name__}, not a string")
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
