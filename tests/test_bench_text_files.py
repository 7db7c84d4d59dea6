"""The texts that benchmarks write: whole lines, as many as asked for; a clear end where there is no room."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.bench.text_files import filled, new_file, repeated, text_file
from accel_cli.errors import OutputError, UsageError


@settings(max_examples=30)
@given(
    st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), min_size=1), st.integers(0, 999)
)
def test_all_lines_as_often_as_they_fit_or_else_the_first(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], more: int
) -> None:
    size = len(lines[0]) + 1 + more
    found = text_file(tmp_path_factory.getbasetemp() / "text.txt", lines, size)
    text = found.path.read_bytes()
    assert (found.bytes, found.sentences) == (len(text), text.count(b"\n"))
    assert len(text) <= size
    rows = text.split(b"\n")[:-1]
    count = max(1, len(rows) // len(lines))
    assert rows == (lines * count)[: len(rows)]
    longer = lines[len(rows)] if len(rows) < len(lines) else b"\n".join(lines)
    assert len(text) + len(longer) + 1 > size


def test_too_few_bytes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--bytes 4: the first sentence alone takes 5; say more"):
        text_file(tmp_path / "text.txt", [b"film"], 4)


@pytest.mark.parametrize(
    ("lines", "size", "block"),
    [
        ([b"one", b"two"], 8, b"one\ntwo\n"),
        ([b"one", b"two"], 20, b"one\ntwo\n" * 2),
        ([b"one", b"two"], 7, b"one\n"),
        ([b""], 3, b"\n\n\n"),
    ],
)
def test_a_block_holds_whole_lines(lines: list[bytes], size: int, block: bytes) -> None:
    assert filled(lines, size) == block


def test_no_room_for_the_text(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OutputError, match=r"cannot write 1200 bytes of text .*more room in TMPDIR"):
            repeated(tmp_path / "blocks.txt", b"film\n" * 80, 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write 5 bytes.*TMPDIR"):
        text_file(tmp_path / "nowhere" / "text.txt", [b"film"], 5)
    with pytest.raises(OutputError, match=r"cannot write rows.*TMPDIR"), new_file(tmp_path, "rows"):
        pass
