"""Files packed with zstd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from records import texts

from accel_cli.errors import InputError
from accel_cli.text.readers import Source
from accel_cli.text.spans import spans

zstd = pytest.importorskip(
    "compression.zstd" if __import__("sys").version_info >= (3, 14) else "backports.zstd",
    reason="needs the extra `zstd`",
)
pytestmark = pytest.mark.extras


def packed(folder: Path, name: str, *frames: bytes) -> Path:
    path = folder / name
    path.write_bytes(b"".join(map(zstd.compress, frames)))
    return path


def test_every_kind(tmp_path: Path) -> None:
    assert texts(packed(tmp_path, "a.txt.zst", b"a\nb")) == [b"a", b"b"]
    assert texts(packed(tmp_path, "a.csv.zst", b"text\na\n")) == [b"a"]
    assert texts(packed(tmp_path, "a.jsonl.zst", b'{"text": "a"}\n')) == [b"a"]
    assert texts(packed(tmp_path, "empty.zst", b"")) == []


def test_several_frames(tmp_path: Path) -> None:
    assert texts(packed(tmp_path, "a.zst", b"a\nhalf ", b"", b"and half\n", b"c")) == [
        b"a",
        b"half and half",
        b"c",
    ]


def test_it_is_read_as_a_whole_and_counted_as_it_lies(tmp_path: Path) -> None:
    path = packed(tmp_path, "a.zst", b"a\n" * 100_000)
    source = Source(str(path))
    assert spans(source, 10) == [None]
    assert source.plain is None
    assert sum(len(chunk) for chunk in source.chunks(1000, (1, None))) == 100_000
    assert source.done == source.size == path.stat().st_size


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"no zstd at all",
        lambda data: data[:-3],
        lambda data: data[:5],
        lambda data: data + b"garbage",
        lambda data: data[:20] + bytes(40) + data[60:],
    ],
    ids=["foreign", "cut", "header alone", "garbage behind", "overwritten"],
)
def test_damage(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    data = zstd.compress(b"".join(b"%d\n" % (i * i) for i in range(1000)))
    path = tmp_path / "a.zst"
    path.write_bytes(damage(data))
    with pytest.raises(
        InputError, match=r"a\.zst is not a whole zstd file with windows of at most 128 MiB \(.+\)"
    ):
        texts(path)


def test_a_huge_window_is_refused(tmp_path: Path) -> None:
    """It would take as much memory as whoever packed the file liked."""
    options = {
        zstd.CompressionParameter.window_log: 28,
        zstd.CompressionParameter.enable_long_distance_matching: 1,
    }
    packer = zstd.ZstdCompressor(options=options)
    path = tmp_path / "a.zst"
    path.write_bytes(packer.compress(b"text\n" * 1000) + packer.flush())
    with pytest.raises(
        InputError, match=r"windows of at most 128 MiB \(.*memory.*\); fetch it again, or pack it"
    ):
        texts(path)
