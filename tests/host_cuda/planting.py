"""Faults planted into copies of kernels that are right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from host_cuda.runner import HostRunner

Plant = Callable[[Path, str, str], HostRunner]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Gives a runner of a copy of a kernel in which `old`, found once, is `new`."""

    def planted(kernel: Path, old: str, new: str) -> HostRunner:
        for header in kernel.parent.glob("*.cuh"):
            shutil.copy(header, tmp_path)
        text = kernel.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{kernel.name} has {text.count(old)} of: {old}"
        (tmp_path / kernel.name).write_text(text.replace(old, new), encoding="utf-8")
        return HostRunner(tmp_path)

    return planted
