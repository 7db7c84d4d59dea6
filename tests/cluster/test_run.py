"""accel run on a cluster that loses nodes, workers and its driver: every row is there once, in order."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Accel

from accel_cli.shards.shard import shards_of
from accel_cli.text.readers import Source
from cluster.nodes import Nodes, begin, finish, kill, until

pytestmark = pytest.mark.extras

SHARDS = 40
FIELDS = ("--fields", "text,label")


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that makes 40 shards of 100 KiB."""
    path = tmp_path_factory.mktemp("text") / "in.txt"
    draw = random.Random(5)
    words = ["good", "bad", "film", "not", "a", "the", ".", "other", "w7"]
    lines: list[str] = []
    size = 0
    while size < SHARDS * (100 << 10) - 1000:
        lines.append(" ".join(draw.choices(words, k=draw.randrange(20))))
        size += len(lines[-1]) + 1
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def expected(text: Path, accel: Accel) -> bytes:
    """The rows that one process makes. Texts and labels: scores of a CPU depend on the batch by 1e-6."""
    done = accel("run", "--input", text, "--device", "cpu", *FIELDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def held(text: Path) -> Iterator[Path]:
    """While this file is there no run comes to its end, however fast the machine is."""
    path = Path(f"{text}.held")
    path.touch()
    yield path
    for one in (path, *waiting(path)):
        one.unlink(missing_ok=True)


def waiting(held: Path) -> list[Path]:
    """What the workers that it holds have left."""
    return list(held.parent.glob(f"{held.name}.*"))


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*"))


def rows(folder: Path) -> bytes:
    return b"".join(part.read_bytes() for part in parts(folder))


class TestWhole:
    def test_the_bytes_are_those_of_one_process(
        self, nodes: Nodes, text: Path, expected: bytes, tiny_path: Path, tmp_path: Path
    ) -> None:
        folder, merged = tmp_path / "out", tmp_path / "all.tsv"
        code, said = finish(begin(tiny_path, nodes, *_cut(text, folder), "--merge", merged))
        assert code == 0, said
        assert len(parts(folder)) == SHARDS
        assert rows(folder) == expected == merged.read_bytes()
        assert f"{expected.count(10)} sentences in" in said
        assert "Traceback" not in said

    def test_both_nodes_work(
        self, nodes: Nodes, text: Path, held: Path, tiny_path: Path, tmp_path: Path
    ) -> None:
        process = begin(tiny_path, nodes, *_cut(text, tmp_path / "out"))
        until(lambda: len(nodes.workers()) == 2)
        held.unlink()
        assert finish(process)[0] == 0


class TestLosses:
    def test_a_node(
        self, nodes: Nodes, text: Path, held: Path, expected: bytes, tiny_path: Path, tmp_path: Path
    ) -> None:
        process = begin(tiny_path, nodes, *_cut(text, tmp_path / "out"))
        until(lambda: len(parts(tmp_path / "out")) > 3)
        nodes.lose_one()
        held.unlink()
        try:
            code, said = finish(process)
        finally:
            nodes.add_one()
        assert code == 0, said
        assert rows(tmp_path / "out") == expected

    def test_a_worker(
        self, nodes: Nodes, text: Path, held: Path, expected: bytes, tiny_path: Path, tmp_path: Path
    ) -> None:
        process = begin(tiny_path, nodes, *_cut(text, tmp_path / "out"))
        until(lambda: len(parts(tmp_path / "out")) > 3)
        until(lambda: len(waiting(held)) == 2)  # each is at work on a shard
        kill(nodes.workers()[0])
        held.unlink()
        code, said = finish(process)
        assert code == 0, said
        assert rows(tmp_path / "out") == expected
        assert said.count("it is tried once more") == 1
        assert "failed (its worker died); it is tried once more" in said

    def test_the_driver(
        self, nodes: Nodes, text: Path, held: Path, expected: bytes, tiny_path: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / "out"
        process = begin(tiny_path, nodes, *_cut(text, folder))
        until(lambda: len(parts(folder)) > 3)
        kill(process.pid)
        process.wait()
        until(lambda: not nodes.workers())
        done = {part: part.stat().st_mtime_ns for part in parts(folder)}
        assert 3 < len(done) < SHARDS
        held.unlink()
        code, said = finish(begin(tiny_path, nodes, *_cut(text, folder), "--resume"))
        assert code == 0, said
        assert f"{SHARDS} shards, {len(done)} of them done before" in said
        assert rows(folder) == expected
        assert all(part.stat().st_mtime_ns == when for part, when in done.items())

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_patience(
        self, nodes: Nodes, text: Path, held: Path, tiny_path: Path, tmp_path: Path, number: int, code: int
    ) -> None:
        folder = tmp_path / "out"
        process = begin(tiny_path, nodes, *_cut(text, folder))
        until(lambda: len(waiting(held)) == 2)  # then no worker writes what nobody is there to remove
        process.send_signal(number)
        found, said = finish(process)
        assert found == code, said
        assert "--resume goes on from there" in said
        assert "received" not in said, "Ray's own handler is not asked"
        until(lambda: not nodes.workers())
        assert not list(folder.rglob(".part-*"))


class TestFailures:
    def test_a_shard_that_always_fails_is_named_and_the_rest_is_done(
        self, nodes: Nodes, tiny_path: Path, tmp_path: Path
    ) -> None:
        good = '{"text": "a good film"}\n'
        path, folder = tmp_path / "in.jsonl", tmp_path / "out"
        path.write_text(good * 1000 + "{broken\n" + good * 1000)
        shards = shards_of([Source(str(path))], 4 << 10)
        broken = next(one for one in shards if one.span and one.span.stop > 1000 * len(good))
        line = ("--input", path, "--output", f"{folder}/", "--shard-size", "4K")
        code, said = finish(begin(tiny_path, nodes, *line))
        assert code == 1
        assert len(parts(folder)) == len(shards) - 1
        assert f"{len(shards) - 1} of {len(shards)} parts in {folder} are whole" in said
        assert f"Error: failed: {broken} (line " in said
        assert "--resume --on-error replace goes on past bad records" in said
        assert "it is tried once more" not in said
        again = ("--resume", "--on-error", "replace")
        code, said = finish(begin(tiny_path, nodes, *line, *again))
        assert code == 0, said
        assert rows(folder).count(b"\n") == 2001

    def test_a_part_that_cannot_be_written_ends_the_run(
        self, nodes: Nodes, text: Path, held: Path, tiny_path: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / "out"
        process = begin(tiny_path, nodes, *_cut(text, folder))
        until(lambda: len(waiting(held)) == 2)
        (folder / "part-000023.tsv").mkdir()
        held.unlink()
        code, said = finish(process)
        assert code == 1
        there = [part for part in parts(folder) if part.is_file()]
        assert f"stopped early; {len(there)} of {SHARDS} parts in {folder} are whole" in said
        assert re.search(r"^Error: on \S+: .*/part-000023.tsv is a folder; move it away", said, re.MULTILINE)
        assert "it is tried once more" not in said
        until(lambda: not nodes.workers())
        assert not list(folder.rglob(".part-*"))

    def test_a_shard_that_kills_every_worker_is_named_and_the_rest_is_done(
        self, nodes: Nodes, tiny_path: Path, tmp_path: Path
    ) -> None:
        path, folder = tmp_path / "deadly.txt", tmp_path / "out"
        path.write_text("a good film\n" * 600)
        line = ("--input", path, "--output", f"{folder}/", "--shard-size", "1200")
        code, said = finish(begin(tiny_path, nodes, *line))
        assert code == 1
        assert f"Error: failed twice: {path}, bytes 2400 to 3599 (its worker died)" in said
        assert [part.name for part in parts(folder)] == [f"part-{n:06d}.tsv" for n in (0, 1, 3, 4, 5)]
        assert not list(folder.rglob("*tries*"))

    def test_no_gpu(self, nodes: Nodes, text: Path, tiny_path: Path, tmp_path: Path) -> None:
        line = (*_cut(text, tmp_path / "out"), "--device", "cuda")
        code, said = finish(begin(tiny_path, nodes, *line))
        assert code == 1
        assert "the cluster has no GPU" in said

    def test_a_cluster_that_is_not_there(self, text: Path, tmp_path: Path, accel: Accel) -> None:
        line = ("--engine", "ray", "--address", "127.0.0.1:1")
        done = accel("run", *line, *_cut(text, tmp_path / "out"))
        assert done.returncode == 1
        assert b"no Ray cluster at 127.0.0.1:1" in done.stderr
        assert b"Traceback" not in done.stderr


def test_a_cluster_of_its_own(text: Path, expected: bytes, accel: Accel, tmp_path: Path) -> None:
    line = ("--engine", "ray", "--address", "local", "--device", "cpu")
    done = accel("run", *line, *_cut(text, tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == expected


def _cut(text: Path, folder: Path) -> tuple[str | Path, ...]:
    return ("--input", text, "--output", f"{folder}/", "--shard-size", "100K", *FIELDS)
