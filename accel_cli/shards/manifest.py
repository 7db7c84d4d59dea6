"""The manifest of an output folder: all that its rows depend on, so that a run goes on only with its like."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from accel_cli import __version__
from accel_cli.errors import OutputError, WeightsError
from accel_cli.model.config import ModelSpec
from accel_cli.shards.files import replace_text
from accel_cli.shards.job import Job
from accel_cli.shards.shard import MOST
from accel_cli.text.formatters import LAYOUTS
from accel_cli.text.readers import Source
from accel_cli.text.urls import is_url

_OF_FILES = ("vocabulary", "weights")  # of a model: what they hold counts, not where they lie
_STRICTNESS = ("replace", None, "fail")
_ABSENT = "nothing"
_OPTIONS = {"layout": "--format"}


@dataclass(frozen=True)
class Manifest:
    """What the rows of a folder were, or will be, made of. Whatever JSON can say."""

    accel: str
    layout: str
    fields: list[str]
    kept: list[str]
    on_error: str | None
    embeddings: bool
    precision: str
    shard_size: int
    shards: int
    model: dict[str, Any]
    inputs: list[dict[str, Any]]

    @classmethod
    def of(cls, job: Job, sources: Sequence[Source], shard_size: int, shards: int) -> Manifest:
        """The manifest of a job over some inputs. Raises InputError, WeightsError if they cannot be read."""
        return cls(
            accel=__version__,
            layout=job.layout,
            fields=list(job.fields),
            kept=list(job.kept),
            on_error=job.on_error,
            embeddings=job.embeddings,
            precision=job.config.plan.precision,
            shard_size=shard_size,
            shards=shards,
            model=_model(job.config.model),
            inputs=[input_of(source) for source in sources],
        )

    @classmethod
    def read(cls, path: Path) -> Manifest | None:
        """The manifest in a file, None if there is no such file. Raises OutputError if it is damaged."""
        try:
            found = cls(**json.loads(path.read_text("utf-8")))
            found._check()
            return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise OutputError(
                f"{path} cannot be read as a manifest ({error}); name another folder, or remove this one"
            ) from error

    def _check(self) -> None:
        """ValueError if this says what no run would have written, in what a folder is treated by."""
        sizes = (self.shard_size, self.shards)
        whole = all(type(size) is int and size > 0 for size in sizes) and self.shards <= MOST
        if not whole or self.layout not in LAYOUTS or self.on_error not in _STRICTNESS:
            raise ValueError("a field has a value that none has")
        list(_flat(asdict(self)))  # RecursionError where it is too deep to be compared

    def write(self, path: Path) -> None:
        """Write it, whole or not at all."""
        replace_text(path, json.dumps(asdict(self), indent=1) + "\n")

    def difference(self, other: Manifest) -> str | None:
        """The first field in which `other` would make other rows, with both values; None if there is none.

        Bad records may be treated more leniently by `other`: a part that is whole had none that mattered.
        """
        mine = self
        if _STRICTNESS.index(other.on_error) <= _STRICTNESS.index(self.on_error):
            mine = replace(self, on_error=other.on_error)
        before, now = dict(_flat(asdict(mine))), dict(_flat(asdict(other)))
        for name in (*now, *before):
            old, new = before.get(name, _ABSENT), now.get(name, _ABSENT)
            if old != new:
                return f"{_OPTIONS.get(name, name)} was {old}, and is now {new}"
        return None


def _model(spec: ModelSpec) -> dict[str, Any]:
    """What a network computes: its shape, and the contents of its files."""
    values = {key: value for key, value in asdict(spec).items() if key != "golden"}
    for key in _OF_FILES:
        if isinstance(path := values[key], Path):
            values[key] = f"sha256 {_digest(path)}"
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise WeightsError(f"cannot read {path}: {error.strerror}") from error


def input_of(source: Source) -> dict[str, Any]:
    """What a manifest says of an input."""
    said = {"path": source.place, "kind": source.kind, "column": source.column}
    return {**said, **_address(source), **source.fingerprint()}


def _address(source: Source) -> dict[str, str]:
    """The digest of a URL with a query, which its place leaves out since it may be a secret."""
    if not is_url(source.path) or source.path == source.place:
        return {}
    parts = urlsplit(source.path)
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if url == source.place:
        return {}
    return {"url": f"sha256 {hashlib.sha256(url.encode('utf-8', 'surrogateescape')).hexdigest()}"}


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested objects and lists by dotted names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{number}]")
    else:
        yield name, value
