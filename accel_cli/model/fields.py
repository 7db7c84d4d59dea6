"""Reading one section of a configuration file: every value is typed, every key known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accel_cli.errors import ConfigError

SIZE = 1 << 20  # the largest size of a layer


def nearest(word: str, known: Iterable[str]) -> str:
    """How to end a message about an unknown word: the nearest known one, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _shown(value: Any) -> str:
    """A value in a message, cut; Python itself refuses to print the longest numbers."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 100 else text[:97] + "..."


class Section:
    """A mapping of a configuration file, read key by key; errors name the file and the key."""

    def __init__(self, path: Path, values: Any, prefix: str = "") -> None:
        self.path = path
        self.prefix = prefix
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"{path}: {prefix.rstrip('.') or 'the file'} must be a mapping of keys, got {_shown(values)}"
            )
        self.values = values

    def known(self, names: Sequence[str]) -> None:
        """Refuse every key that is not among `names`."""
        for key in self.values:
            if key not in names:
                raise ConfigError(f"{self.path}: unknown key {self.prefix}{key}; {nearest(str(key), names)}")

    def section(self, key: str) -> Section:
        """A mapping inside this one; empty when it is absent."""
        value = self.values.get(key)
        return Section(self.path, {} if value is None else value, f"{self.prefix}{key}.")

    def fail(self, key: str, wanted: str) -> ConfigError:
        """The error for a value of the wrong kind."""
        return ConfigError(
            f"{self.path}: {self.prefix}{key} must be {wanted}, got {_shown(self.values.get(key))}"
        )

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.fail(key, "a string")
        return value

    def integer(self, key: str, default: int | None = None, least: int = 1, most: int = SIZE) -> int:
        """A whole number from `least` to `most`."""
        value = self.values.get(key, default)
        if not _is_whole(value, least, most):
            raise self.fail(key, f"a whole number from {least} to {most}")
        return int(value)

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of positive whole numbers, at least one."""
        value = self.values.get(key)
        if not isinstance(value, list) or not value or not all(_is_whole(item, 1, SIZE) for item in value):
            raise self.fail(key, f"a list of whole numbers from 1 to {SIZE}")
        return tuple(value)

    def flag(self, key: str) -> bool:
        """True or false; false when it is absent."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, all different, at least one."""
        value = self.values.get(key)
        if not isinstance(value, list) or not value or any(not isinstance(item, str) for item in value):
            raise self.fail(key, "a list of strings")
        if len(set(value)) != len(value):
            raise self.fail(key, "a list without repetitions")
        return tuple(value)

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One word of `choices`."""
        value = self.values.get(key, default)
        if value not in choices:
            raise self.fail(key, f"one of {', '.join(choices)}")
        return str(value)

    def path_to(self, key: str) -> Path:
        """A path, relative to the file that names it."""
        return (self.path.parent / self.text(key)).resolve()
