"""docs/pytorch.md, run as it stands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, clean_environment, command

pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.extras

PAGE = (ROOT / "docs/pytorch.md").read_text("utf-8")


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/pytorch.md", "exec"), names)  # not a page of others
    assert (tmp_path / "text-cnn" / "model.yaml").is_file()

    [(line, shown)] = re.findall(r"^    \$ (.*)\n((?:    .+\n)+)", PAGE, re.MULTILINE)
    shell = f'accel() {{ {" ".join(command())} "$@"; }}; {line} --device cpu'
    done = subprocess.run(
        ["bash", "-c", shell],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=clean_environment(tmp_path),
    )
    assert done.stdout == re.sub(r"^    ", "", shown, flags=re.MULTILINE)
