"""What a file holds, by its name."""

from __future__ import annotations

from pathlib import PurePath

KINDS = ("text", "csv", "tsv", "jsonl", "parquet", "ids", "embeddings")
PACKED = (".gz", ".zst")
_BY_SUFFIX = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_ARRAYS = (".npy", ".bin")
FOLDER_SUFFIXES = (".txt", ".npy", *_BY_SUFFIX)


def packing(path: str) -> str | None:
    """The suffix that says how a file is packed, else None."""
    return next((suffix for suffix in PACKED if path.endswith(suffix)), None)


def suffix(path: str) -> str:
    """The suffix, in lower case, that says what a file holds, whether it is packed or not."""
    return PurePath(path.removesuffix(packing(path) or "")).suffix.lower()


def named_kind(path: str) -> str | None:
    """The kind that a name says; None for arrays, of which the file itself says what they hold."""
    return None if suffix(path) in _ARRAYS else _BY_SUFFIX.get(suffix(path), "text")


def read_in_folders(path: str) -> bool:
    """Whether a file is read when its folder is the input: its name must say what it holds."""
    return suffix(path) in FOLDER_SUFFIXES
