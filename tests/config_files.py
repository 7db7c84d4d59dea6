"""Configuration files that differ a little from the tiny one, and how they are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import TINY

from accel_cli.errors import ConfigError
from accel_cli.model.config import load_config

REMOVE = object()
Write = Callable[..., Path]


def write_config(folder: Path, file: str = "changed.yaml", **changes: Any) -> Path:
    """The tiny configuration with some keys changed: `section__key`; REMOVE takes one out."""
    values = yaml.safe_load(TINY)
    for name, value in changes.items():
        section, _, key = name.rpartition("__")
        target = values.setdefault(section, {}) if section else values
        if value is REMOVE:
            del target[key]
        else:
            target[key] = value
    (folder / file).write_text(yaml.safe_dump(values))
    return folder / file


def refusal(path: Path | str) -> str:
    """The one line with which a configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)
