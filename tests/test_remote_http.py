"""Inputs over HTTP, from a server that keeps to the rules and from those that do not."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator

import pytest
from http_files import Files, served
from records import texts_of

from accel_cli.errors import InputError, UsageError
from accel_cli.text import remote, urls
from accel_cli.text.inputs import expanded
from accel_cli.text.readers import Source
from accel_cli.text.spans import spans

pytest.importorskip("fsspec", reason="needs the extra `remote`")
pytest.importorskip("aiohttp", reason="needs the extra `remote`")
pytestmark = pytest.mark.extras

LINES = [b"line %d" % number for number in range(2000)]
TEXT = b"\n".join(LINES) + b"\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    monkeypatch.setattr(remote, "BLOCK", 1000)
    monkeypatch.setattr(remote, "_PAUSES", (0.01, 0.01))
    with served() as files:
        files.files["a.txt"] = TEXT
        yield files


@pytest.mark.parametrize("manner", ["good", "no-ranges", "no-length", "flaky"])
def test_every_line_comes_once(server: Files, manner: str) -> None:
    source = Source(server.url(manner, "a.txt"))
    assert texts_of(source) == LINES
    assert source.done == len(TEXT)
    assert source.size == (None if manner == "no-length" else len(TEXT))


def test_blocks_are_asked_for_once_each(server: Files) -> None:
    texts_of(Source(server.url("good", "a.txt")))
    blocks = {f"bytes={start}-{min(start + 1000, len(TEXT)) - 1}": 1 for start in range(0, len(TEXT), 1000)}
    assert server.ranges == {**blocks, f"bytes={len(TEXT) - 1}-{len(TEXT) - 1}": 1}  # and whether it can


def test_spans(server: Files) -> None:
    url = server.url("good", "a.txt")
    found = spans(Source(url), 3000)
    assert len(found) == -(-len(TEXT) // 3000)
    assert [text for span in found for text in texts_of(Source(url, span=span))] == LINES


@pytest.mark.parametrize("manner", ["no-ranges", "no-length"])
def test_a_server_without_ranges_gives_a_file_as_a_whole(server: Files, manner: str) -> None:
    assert spans(Source(server.url(manner, "a.txt")), 3000) == [None]


@pytest.mark.parametrize("manner", ["good", "no-ranges"])
def test_packed_files_and_queries(server: Files, manner: str) -> None:
    server.files["a.csv.gz"] = gzip.compress(b"text\n" + TEXT)
    source = Source(server.url(manner, "a.csv.gz") + "?token=secret")
    assert texts_of(source) == LINES
    assert source.place == server.url(manner, "a.csv.gz")


def test_an_empty_file(server: Files) -> None:
    server.files["empty.txt"] = b""
    assert texts_of(Source(server.url("good", "empty.txt"))) == []


def test_a_url_is_one_input(server: Files) -> None:
    assert expanded([server.url("good", "a.txt?b=*")]) == [server.url("good", "a.txt?b=*")]


@pytest.mark.parametrize(
    ("manner", "name", "reason"),
    [
        ("good", "none.txt", r"there is nothing of that name; check it"),
        ("denied", "a.txt", r"access is denied; check the credentials in the environment"),
    ],
)
def test_what_is_refused_is_seen_at_once(server: Files, manner: str, name: str, reason: str) -> None:
    with pytest.raises(InputError, match=rf"cannot read {server.url(manner, name)}: {reason}"):
        Source(server.url(manner, name) + "?token=secret")


def test_no_server() -> None:
    with pytest.raises(InputError, match=r"cannot read http://127\.0\.0\.1:1/a\.txt: .+; check the network"):
        Source("http://127.0.0.1:1/a.txt")


@pytest.mark.parametrize("manner", ["short", "broken"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_body_that_ends_too_early(server: Files, name: str, manner: str) -> None:
    server.files["a.txt.gz"] = gzip.compress(TEXT)
    url = server.url(manner, name)
    with pytest.raises(InputError, match=rf"cannot read {url}: .+; check the network and run again"):
        texts_of(Source(url))


def test_no_answer_in_time(server: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "_READ", 0.1)
    monkeypatch.setattr(remote, "_PAUSES", ())
    with pytest.raises(
        InputError, match=r"/silent/a\.txt: no answer in time; check the network and run again"
    ):
        texts_of(Source(server.url("silent", "a.txt")))


def test_an_object_that_changed_meanwhile(server: Files) -> None:
    with pytest.raises(
        InputError, match=r"/changing/a\.txt changed while it was read \(.+, then .+\); run again"
    ):
        texts_of(Source(server.url("changing", "a.txt")))


def test_arrays_are_not_fetched(server: Files) -> None:
    with pytest.raises(UsageError, match="arrays are mapped into memory, not fetched; copy the file here"):
        Source(server.url("good", "a.npy"))


def test_no_url() -> None:
    with pytest.raises(UsageError, match=r"http://\[::1/a\.txt is no URL \(.+\); check it"):
        Source("http://[::1/a.txt?token=secret")


def test_what_is_read_no_further_ends_at_once(server: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for what would be tried again."""
    monkeypatch.setattr(remote, "_PAUSES", (600,))
    source = Source(server.url("flaky", "a.txt"))
    source.file.ranged = True  # type: ignore[misc, union-attr]
    server.ranges["bytes=0-999"] = 1  # the first range comes at once, the others would after a pause
    with source.opened() as stream:
        assert stream.read1(10) == TEXT[:10]  # type: ignore[attr-defined]


def test_user_and_password_are_not_shown() -> None:
    assert urls.shown("https://me:secret@host:1/a.txt?key=secret#x") == "https://host:1/a.txt"
    assert urls.shown("s3://bucket/a?b") == "s3://bucket/a?b"


def test_parquet(server: Files) -> None:
    arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    parquet = pytest.importorskip("pyarrow.parquet")
    sink = io.BytesIO()
    parquet.write_table(arrow.table({"text": LINES}), sink, row_group_size=300)
    server.files["a.parquet"] = sink.getvalue()
    url = server.url("good", "a.parquet")
    assert texts_of(Source(url)) == LINES
    assert [text for span in spans(Source(url), 1) for text in texts_of(Source(url, span=span))] == LINES
    with pytest.raises(
        InputError, match="its server reads no ranges, which Parquet needs; copy the file here"
    ):
        texts_of(Source(server.url("no-ranges", "a.parquet")))
    with pytest.raises(
        InputError, match=r"cannot read .*/short/a\.parquet: .+; check the network and run again"
    ):
        texts_of(Source(server.url("short", "a.parquet")))
    server.files["a.parquet"] = sink.getvalue()[:-1]
    with pytest.raises(InputError, match=r"/good/a\.parquet is not a whole Parquet file"):
        texts_of(Source(url))
