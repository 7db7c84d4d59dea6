"""Shards: what they are made of, and their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_cli.errors import UsageError
from accel_cli.shards import shard as module
from accel_cli.shards.shard import Shard, shards_of
from accel_cli.text.readers import Source
from accel_cli.text.span import Span


def test_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"12345\n" * 3)
    (tmp_path / "a.csv").write_bytes(b"text\nx\n")
    names = [str(tmp_path / "b.txt"), str(tmp_path / "a.csv")]
    found = shards_of(map(Source, names), 8)
    assert found == [
        Shard(0, names[0], "text", None, Span(0, 12)),
        Shard(1, names[0], "text", None, Span(12, 18)),
        Shard(2, names[1], "csv"),
    ]
    assert [str(one).removeprefix(str(tmp_path)) for one in found] == [
        "/b.txt, bytes 0 to 11",
        "/b.txt, bytes 12 to 17",
        "/a.csv",
    ]


@pytest.mark.parametrize(
    ("kind", "span", "place"),
    [
        ("text", None, "line 3"),
        ("text", Span(0, 9), "line 3"),
        ("text", Span(9, 20), "line 3 there"),
        ("csv", None, "record 3"),
        pytest.param("parquet", Span(1, 2), "record 3 there", marks=pytest.mark.extras),
    ],
)
def test_why_it_failed_beside_its_name(tmp_path: Path, kind: str, span: Span | None, place: str) -> None:
    path = tmp_path / "a (1).x"
    path.touch()
    shard = Shard(0, str(path), kind, None, span)
    assert shard.within(f"{shard.source().at(3)}: bad") == f"{place}: bad"
    assert shard.within(f"cannot read {path}: bad") == "cannot read it: bad"
    assert shard.within(f"{path}: bad") == "bad"
    assert shard.within(f"{path}x: bad") == f"{path}x: bad"


def test_secrets_of_a_url_are_not_named() -> None:
    shard = Shard(0, "https://me:mine@host/a.txt?key=mine", "text", None, Span(5, 9))
    assert str(shard) == "https://host/a.txt, bytes 5 to 8"
    assert shard.within("https://host/a.txt, bytes 5 to 8, line 3 there: bad") == "line 3 there: bad"


def test_sizes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text\nx\n")
    sizes = [Shard(0, "a.txt", "text", None, Span(5, 9)).size, Shard(1, str(tmp_path / "a.csv"), "csv").size]
    assert [*sizes, Shard(2, "a.parquet", "parquet", None, Span(0, 3)).size] == [4, 7, None]


def test_a_shard_reads_its_span(lines: Path) -> None:
    chunks = [
        chunk for one in shards_of([Source(str(lines))], 64) for chunk in one.source().chunks(9, (1, None))
    ]
    texts = [text for chunk in chunks for text in chunk.texts]  # type: ignore[union-attr]
    assert texts == [b"%d a film" % number for number in range(100)]


def test_too_many(lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 99)
    with pytest.raises(UsageError, match="--shard-size 1 makes 100 shards of this input, over 99; raise it"):
        shards_of([Source(str(lines))], 1)
