"""What inputs are meant: patterns, folders and URLs become the names of files, in a stable order."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from accel_cli.errors import InputError
from accel_cli.text.kinds import FOLDER_SUFFIXES, read_in_folders
from accel_cli.text.urls import file_system, is_url, named_errors

MANIFEST = os.path.join(".accel", "manifest.json")  # a folder that holds it is an output of accel


def expanded(inputs: Sequence[str]) -> list[str]:
    """Every file that the inputs name, those of a pattern or a folder sorted; InputError if one has none.

    A name that exists is that file or folder, also if it looks like a pattern. Of a folder, at any
    depth, files are taken whose names say what they hold; hidden ones (`.name`, `_name`) are not, nor
    are the parts in output folders of accel below it.
    In s3:// and gs:// a folder is a name that ends with `/`; an http(s):// URL is one file.
    """
    return [path for name in inputs for path in _expanded(name)]


def _expanded(name: str) -> list[str]:
    if is_url(name):
        return [name] if name.startswith("http") else _stored(name)
    if os.path.isdir(name):
        return _readable(name, [os.path.relpath(path, name) for path in _below(name)])
    if os.path.lexists(name) or not glob.has_magic(name):
        return [name]
    return _matching(name, [path for path in glob.glob(name, recursive=True) if not os.path.isdir(path)])


def _stored(url: str) -> list[str]:
    """The objects of a store that a URL names."""
    if not url.endswith("/") and not glob.has_magic(url):
        return [url]
    store, scheme = file_system(url), url.partition("://")[0]
    with named_errors(url):
        if url.endswith("/"):
            root = store._strip_protocol(url)
            return _readable(url, [path.removeprefix(root).lstrip("/") for path in store.find(root)])
        if store.isfile(url):
            return [url]
        found = store.glob(url, detail=True)
    return _matching(url, [f"{scheme}://{path}" for path, info in found.items() if info["type"] == "file"])


def _matching(pattern: str, found: list[str]) -> list[str]:
    if not found:
        raise InputError(f"no file matches {pattern}; check the pattern, and quote it against the shell")
    return sorted(set(found))


def _readable(folder: str, names: list[str]) -> list[str]:
    """The files to read of those below a folder, which are named from there."""
    found = sorted(name for name in names if read_in_folders(name) and not _hidden(name))
    if not names:
        raise InputError(f"{folder} holds no file to read; check its name")
    if not found:
        others = f"{len(names)} other{'s' * (len(names) > 1)}"
        raise InputError(
            f"{folder} holds no file that accel reads by its name, but {others}; names end in"
            f" {', '.join(FOLDER_SUFFIXES)}, or these and .gz or .zst; name other files one by one"
        )
    return [os.path.join(folder, name) for name in found]


def _below(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not os.path.exists(os.path.join(parent, name, MANIFEST))]
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path):  # no pipes, no sockets, no broken links
                yield path


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in PurePath(name).parts)
