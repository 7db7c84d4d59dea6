"""Inputs in S3, from a real server on loopback."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import texts_of

from accel_cli.errors import InputError
from accel_cli.text import remote
from accel_cli.text.inputs import expanded
from accel_cli.text.readers import Source
from accel_cli.text.spans import spans

moto = pytest.importorskip("moto.server", reason="needs moto[server]")
boto3 = pytest.importorskip("boto3", reason="needs moto[server]")
pytest.importorskip("s3fs", reason="needs the extra `remote`")
pytestmark = pytest.mark.extras


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """A bucket `data` in a store that the environment names, and a client for it."""
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        }.items():
            patch.setenv(name, value)
        patch.setattr(remote, "BLOCK", 1000)
        patch.setattr(remote, "_PAUSES", ())
        client = boto3.client("s3")
        client.create_bucket(Bucket="data")
        yield client
    server.stop()


def put(store: Any, name: str, data: bytes) -> str:
    store.put_object(Bucket="data", Key=name, Body=data)
    return f"s3://data/{name}"


@settings(max_examples=15)
@given(
    st.lists(st.binary(max_size=300).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    st.integers(1, 999),
)
def test_spans_hold_every_line_once(store: Any, lines: list[bytes], size: int) -> None:
    url = put(store, "spans.txt", b"begin\n" + b"\n".join(lines))
    source = Source(url)
    whole = texts_of(source)
    assert source.done == source.size
    assert [text for span in spans(source, size) for text in texts_of(Source(url, span=span))] == whole


def test_an_empty_object(store: Any) -> None:
    url = put(store, "empty.txt", b"")
    assert texts_of(Source(url)) == []
    assert [text for span in spans(Source(url), 10) for text in texts_of(Source(url, span=span))] == []


def test_a_packed_object(store: Any) -> None:
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(b"".join(b"%d\n" % i for i in range(5000))) + packer.flush()
    assert len(texts_of(Source(put(store, "a.txt.gz", data)))) == 5000
    with pytest.raises(InputError, match=r"s3://data/cut\.txt\.gz is not a whole gzip file"):
        texts_of(Source(put(store, "cut.txt.gz", data[:-10])))


def test_patterns_and_folders(store: Any) -> None:
    for name in ("b.txt", "a.txt", "deep/c.csv", "deep/notes.md", "_hidden/d.txt", "x[1].txt"):
        put(store, f"names/{name}", b"x\n")
    assert expanded(["s3://data/names/*.txt"]) == [
        f"s3://data/names/{name}.txt" for name in ("a", "b", "x[1]")
    ]
    assert expanded(["s3://data/names/**/*.csv"]) == ["s3://data/names/deep/c.csv"]
    everything = [f"s3://data/names/{name}" for name in ("a.txt", "b.txt", "deep/c.csv", "x[1].txt")]
    assert expanded(["s3://data/names/"]) == everything
    assert expanded(["s3://data/names/x[1].txt"]) == ["s3://data/names/x[1].txt"]
    assert expanded(["s3://data/names/missing.txt"]) == ["s3://data/names/missing.txt"]
    with pytest.raises(InputError, match=r"no file matches s3://data/names/\*\.none; check the pattern"):
        expanded(["s3://data/names/*.none"])
    with pytest.raises(InputError, match=r"s3://data/nothing/ holds no file to read; check its name"):
        expanded(["s3://data/nothing/"])


def test_what_is_not_there(store: Any) -> None:
    put(store, "folder/a.txt", b"x")
    for name in ("data/missing.txt", "no-bucket/a.txt"):
        with pytest.raises(
            InputError, match=rf"cannot read s3://{name}: there is nothing of that name; check it"
        ):
            Source(f"s3://{name}")
    with pytest.raises(
        InputError, match="s3://data/folder is a folder; end its name with / to read what is below"
    ):
        Source("s3://data/folder")


def test_an_object_that_is_replaced_while_it_is_read(store: Any) -> None:
    url = put(store, "changing.txt", b"old\n" * 10_000)
    chunks = Source(url).chunks(300, (1, None))
    next(chunks)
    put(store, "changing.txt", b"new\n" * 10_000)
    with pytest.raises(InputError, match=r"s3://data/changing\.txt.* changed while it was read.*; run again"):
        list(chunks)


def test_an_object_that_was_replaced_since_it_was_looked_at(store: Any) -> None:
    source = Source(put(store, "replaced.txt", b"old\n"))
    put(store, "replaced.txt", b"new\n")
    with pytest.raises(InputError, match="changed while it was read"):
        texts_of(source)


def test_a_store_that_denies_access(store: Any) -> None:
    url = put(store, "denied.txt", b"text\n")
    core = pytest.importorskip("moto.core")

    @core.set_initial_no_auth_action_count(0)
    def ask() -> None:
        Source(url)

    with pytest.raises(
        InputError, match=r"s3://data/denied\.txt: access is denied; check the credentials in the env"
    ):
        ask()
