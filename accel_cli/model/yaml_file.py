"""Reading YAML: safe values only, every key once, and one line for whatever is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from accel_cli.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """The safe loader, which takes the last one of equal keys, made strict."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse a key that stands twice in one mapping."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value} stands twice; keep one", problem_mark=key.start_mark
                    )
                seen.add((key.tag, key.value))
        return node


def read_yaml(path: Path) -> Any:
    """The value in a file, or ConfigError."""
    try:
        return yaml.load(path.read_text("utf-8"), _Loader)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except RecursionError:
        raise ConfigError(f"{path}: not readable YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: bytes that are not UTF-8, a date of month 13
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0].partition(";")[0]
        raise ConfigError(f"{place}: not valid YAML: {problem}") from error
