"""Inputs in Google Cloud Storage, from an emulator on loopback."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from records import texts_of

from accel_cli.errors import InputError
from accel_cli.text import remote
from accel_cli.text.inputs import expanded
from accel_cli.text.readers import Source
from accel_cli.text.spans import spans

emulator = pytest.importorskip("gcp_storage_emulator.server", reason="needs gcp-storage-emulator")
pytest.importorskip("gcsfs", reason="needs the extra `gs`")
pytestmark = pytest.mark.extras

LINES = [b"line %d" % number for number in range(1000)]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The folder of a store that the environment names, with two objects in it."""
    server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="data")
    server.start()
    port = server._api._httpd.server_port
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(remote, "BLOCK", 1000)
    for name in ("in/a.txt", "in/notes.md"):
        url = f"http://127.0.0.1:{port}/upload/storage/v1/b/data/o?uploadType=media&name={name}"
        urllib.request.urlopen(url, b"\n".join(LINES)).close()
    yield "gs://data/in/"
    server.stop()


def test_an_object_as_a_whole_and_in_spans(store: str) -> None:
    [url] = expanded([store])
    assert url == expanded([f"{store}*.txt"])[0] == "gs://data/in/a.txt"
    assert texts_of(Source(url)) == LINES
    found = spans(Source(url), 3000)
    assert len(found) > 1
    assert [text for span in found for text in texts_of(Source(url, span=span))] == LINES
    with pytest.raises(
        InputError, match=r"cannot read gs://data/in/b\.txt: there is nothing of that name; check it"
    ):
        Source("gs://data/in/b.txt")
