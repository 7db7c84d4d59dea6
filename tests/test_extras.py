"""What is said where a package of an extra is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from records import write

from accel_cli.errors import AccelError
from accel_cli.text.extras import imported
from accel_cli.text.readers import Source


def test_a_module_that_is_there() -> None:
    assert imported("json", "parquet", "x").loads("1") == 1


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("a.parquet", "pyarrow", "parquet"),
        ("a.txt.zst", "backports", "zstd"),
        ("s3://bucket/a.txt", "fsspec", "remote"),
    ],
)
def test_a_module_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
) -> None:
    for known in [known for known in sys.modules if known.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    if module == "backports":
        monkeypatch.setitem(sys.modules, "compression", None)
    path = name if "://" in name else str(write(tmp_path, name, "x"))
    with pytest.raises(
        AccelError, match=rf"needs the extra `{extra}` \(.*{module}.*\); in a checkout, say pip install"
    ):
        Source(path)
