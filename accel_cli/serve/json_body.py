"""Reading JSON from strangers: bounded in depth and in the number of values, before anything is built."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from accel_cli.serve.limits import Limits
from accel_cli.serve.refusals import invalid, malformed

_STRING = re.compile(rb'"[^"]*"?')
_LEAF = re.compile(rb"\[\]|\{\}")
_DIGITS = 1000  # of a whole number
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number has more than {_DIGITS} digits")
    return int(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_without_doubles, parse_constant=_no_number, parse_int=_whole)


def read_json(body: bytes, limits: Limits) -> dict[str, Any]:
    """The JSON object that a body is, or a Refusal."""
    _check_structure(body, limits)
    try:
        value = _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise malformed(f"the body is not UTF-8 at byte {error.start}; send JSON in UTF-8") from error
    except RecursionError:
        raise malformed("the body is nested too deeply") from None
    except ValueError as error:
        raise malformed(f"the body is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise malformed('the body must be a JSON object, such as {"inputs": "some text"}')
    return value


def _check_structure(body: bytes, limits: Limits) -> None:
    """Refuse what would take long or much memory to build. A short look suffices for small bodies."""
    if _values(body) <= limits.max_nesting:
        return
    # without what is escaped, every quote begins or ends a string
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    few = plain.count(b'"') <= 2 * limits.max_values
    structure = _STRING.sub(b"", plain) if few else b""
    if not few or _values(structure) > limits.max_values:
        raise invalid(
            f"the body holds more than {limits.max_values} lists, objects and values; a request takes at"
            f" most {limits.max_client_batch} texts"
        )
    brackets = structure.translate(None, _NO_BRACKETS)
    for _ in range(limits.max_nesting):
        outer = _LEAF.sub(b"", brackets)
        if outer == brackets:  # nothing is left, or what is left is no JSON
            return
        brackets = outer
    if brackets:
        raise malformed(f"the body is nested deeper than {limits.max_nesting} levels")


def _values(text: bytes) -> int:
    """About how many values JSON holds."""
    return text.count(b"[") + text.count(b"{") + text.count(b",")
