"""What users will feed `accel run` by mistake: each gets one line with the cause and the remedy."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Accel, command

from accel_cli.commands import cli
from accel_cli.errors import (
    AccelError,
    ConfigError,
    DeviceError,
    InputError,
    RecordError,
    UsageError,
    WeightsError,
)

Here = Callable[..., bytes]


def refused(result: subprocess.CompletedProcess[bytes], code: int, *words: str) -> None:
    """One line that holds the words, on stderr, and no traceback."""
    text = result.stderr.decode()
    assert result.returncode == code, text
    assert "Traceback" not in text
    errors = [line for line in text.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, text
    for word in words:
        assert word in errors[0]


def failure(run_here: Here, kind: type[AccelError], *arguments: str | Path) -> str:
    with pytest.raises(kind) as caught:
        run_here(*arguments)
    return str(caught.value)


def test_missing_empty_and_folder(accel_here: Accel, tmp_path: Path) -> None:
    missing = tmp_path / "none.txt"
    refused(
        accel_here("run", "--input", missing), 1, f"cannot read {missing}: No such file or directory; check"
    )
    refused(accel_here("run", "--input", tmp_path), 1, f"{tmp_path} holds no file to read; check its name")
    refused(accel_here("run", "--input", ""), 2, "the name of an input is empty; name a file, or - for stdin")
    (tmp_path / "empty.txt").write_bytes(b"")
    result = accel_here("run", "--input", tmp_path / "empty.txt")
    assert (result.returncode, result.stdout) == (0, b"")
    assert b"accel: 0 sentences in " in result.stderr


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_that_cannot_be_read(accel_here: Accel) -> None:
    refused(
        accel_here("run", "--input", "/proc/self/mem"), 1, "cannot read /proc/self/mem: Input/output error"
    )


def test_all_inputs_are_looked_at_before_any_work(run_here: Here, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\n")
    failure(run_here, InputError, "--input", tmp_path / "a.txt", "--input", tmp_path / "none.txt")
    assert not (tmp_path / "rows.out").exists()


def test_utf16_before_and_after_a_gunzip(run_here: Here, tmp_path: Path) -> None:
    data = "A good film, by and large.\n".encode("utf-16")
    (tmp_path / "a.txt").write_bytes(data)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(data))
    for name in ("a.txt", "a.txt.gz"):
        found = failure(run_here, InputError, "--input", tmp_path / name)
        assert "is UTF-16; accel reads UTF-8: convert it with `iconv -f UTF-16 -t UTF-8`" in found


def test_a_mark_and_crlf_change_nothing(run_here: Here, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good film\nbad\n")
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfgood film\r\nbad")
    assert run_here("--input", tmp_path / "a.txt") == run_here("--input", tmp_path / "b.txt")


def test_bytes_that_are_not_utf8_can_be_refused(run_here: Here, tmp_path: Path) -> None:
    lines = [b"good", "gut – schlecht".encode(), b"caf\xe9 \xff", b"\xfe"]
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines))
    (tmp_path / "a.csv").write_bytes(b'text\n"good\nfilm"\ncaf\xe9\n')
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
    (tmp_path / "half.jsonl").write_bytes(b'{"text": "\\ud800"}\n')
    pair = " or repair half a surrogate pair (\\ud800)"
    for name, place, also in (
        ("a.txt", ":3: 2 bytes", ""),
        ("a.csv", ", record 2: 1 bytes", ""),
        ("a.jsonl", ":2: 1 bytes", pair),
        ("half.jsonl", ":1: 3 bytes", pair),
    ):
        remedy = f"convert the file with iconv{also}, or say --on-error replace"
        for batch in ("1", "100"):
            asked = ("--on-error", "fail", "--batch", batch)
            found = failure(run_here, RecordError, "--input", tmp_path / name, *asked)
            assert found == f"{tmp_path / name}{place} are not UTF-8; {remedy}"
    assert run_here("--input", tmp_path / "a.txt", "--fields", "text", "--on-error", "replace").decode() == (
        "good\ngut – schlecht\ncaf\ufffd \ufffd\n\ufffd\n"
    )


def test_rows_before_a_bad_record_are_written(accel: Accel, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a"}\n' * 6 + b"{\n" + b'{"text": "a"}\n')
    result = accel("run", "--input", path, "--batch", "2")
    remedy = "repair it, or say --on-error replace to give such rows an empty label"
    refused(result, 1, f"{path}:7: not valid JSON", remedy)
    assert len(result.stdout.splitlines()) == 6


def test_a_column_that_is_not_there(run_here: Here, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,sentence\n1,good\n2\n")
    found = failure(run_here, InputError, "--input", tmp_path / "a.csv", "--column", "x")
    assert "has no column 'x'; its columns: id, sentence" in found
    found = failure(run_here, UsageError, "--input", tmp_path / "a.csv")
    assert "say with --column which of the columns id, sentence to classify" in found
    found = failure(run_here, InputError, "--input", tmp_path / "a.csv", "--column", "sentence")
    assert (
        "a.csv:3: the record has 1 fields, the column 'sentence' is number 2; repair it, or say --on-e"
        in found
    )
    asked = ("--column", "sentence", "--on-error", "replace", "--fields", "text,label")
    assert run_here("--input", tmp_path / "a.csv", *asked).split(b"\n")[1:] == [b"\t", b""]


def test_a_broken_gzip(run_here: Here, tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(os.urandom(1000))[:-20])
    found = failure(run_here, InputError, "--input", tmp_path / "a.txt.gz")
    assert "a.txt.gz is not a whole gzip file" in found
    assert "fetch or pack it again" in found


def test_a_line_of_100_megabytes(tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("wb") as file:
        file.write(b"good\n")
        file.seek(100_000_000, os.SEEK_CUR)
        file.write(b"\nbad\n")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))

    result = subprocess.run(
        command("run", "--input", path),
        cwd=ROOT,
        env={**os.environ, "ACCEL_CONFIG": str(tiny_path)},
        capture_output=True,
        preexec_fn=limit,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 3
    assert b"truncated 1, blank 1," in result.stderr


def test_fields(run_here: Here, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\n")
    path = ("--input", tmp_path / "a.txt")
    found = failure(run_here, UsageError, *path, "--fields", "label,wit")
    assert found == "--fields: 'wit' is not one of text, label, score, scores, logits"
    assert "a field is named twice" in failure(run_here, UsageError, *path, "--fields", "label,label")
    assert "'' is not one of" in failure(run_here, UsageError, *path, "--fields", "")
    assert run_here(*path, "--fields", " text , label ").startswith(b"good\t")


# The rest of the machine


def test_an_unwritable_cache_is_done_without_and_said_once(accel: Accel) -> None:
    result = accel("run", stdin=b"good\n", environment={"ACCEL_CACHE_DIR": "/proc/nope"})
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 1)
    assert result.stderr.count(b"accel: the generated weights are not kept: cannot write /proc/nope") == 1


def test_a_gpu_that_is_not_there(accel_here: Accel) -> None:
    for device in ("cuda", "cuda:3"):
        result = accel_here("run", "--device", device, stdin=b"good\n")
        refused(
            result, DeviceError.exit_code, f"--device {device}: no NVIDIA driver", "or use `--device cpu`"
        )
        assert result.stdout == b""
    assert accel_here("run", "--device", "auto", stdin=b"good\n").stderr.startswith(b"accel: device=cpu ")


def with_weights(tiny_path: Path, tmp_path: Path, content: bytes | None, model: str = "") -> Path:
    """A configuration beside the tiny one whose weights are a file."""
    if content is not None:
        (tmp_path / "model.safetensors").write_bytes(content)
    path = tmp_path / "own.yaml"
    path.write_text(f"extends: {tiny_path}\nmodel:\n  weights: model.safetensors\n{model}")
    return path


@pytest.fixture(scope="module")
def weights(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    line = ["weights", "init", "--config", str(tiny_path), "--output", str(path)]
    cli.main(line, standalone_mode=False)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: None, "no weights file"),
        (lambda data: b"", "is damaged or not a safetensors file"),
        (lambda data: b"PK\x03\x04 a zip file, or so", "is damaged or not a safetensors file"),
        (lambda data: data[:-100], "is damaged or not a safetensors file"),
        (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "is damaged: sha256 is"),
    ],
    ids=["missing", "empty", "foreign", "cut", "flipped bit"],
)
def test_weights_that_cannot_be_used(
    run_here: Here,
    tiny_path: Path,
    tmp_path: Path,
    weights: bytes,
    damage: Callable[[bytes], bytes],
    words: str,
) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\n")
    config = with_weights(tiny_path, tmp_path, damage(weights))
    found = failure(run_here, WeightsError, "--config", config, "--input", tmp_path / "a.txt")
    assert words in found
    assert str(tmp_path / "model.safetensors") in found
    assert not (tmp_path / "rows.out").exists()


def test_weights_of_another_shape(run_here: Here, tiny_path: Path, tmp_path: Path, weights: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\n")
    config = with_weights(tiny_path, tmp_path, weights, "  filters: 11\n")
    found = failure(run_here, WeightsError, "--config", config, "--input", tmp_path / "a.txt")
    assert (
        "does not fit the configuration: convolution.3.weight has shape [10, 12, 3], expected [11, 12, 3]"
        in found
    )


def test_configurations_that_cannot_be(run_here: Here, tiny_path: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\n")
    path = ("--input", tmp_path / "a.txt", "--config")
    assert "packaged" in failure(run_here, ConfigError, *path, "sentimental")
    assert "no configuration file" in failure(run_here, ConfigError, *path, tmp_path / "none.yaml")
    config = tmp_path / "own.yaml"
    config.write_text(f"extends: {tiny_path}\nmodel:\n  filtres: 3\n")
    assert "filters" in failure(run_here, ConfigError, *path, config)  # the nearest valid key


def test_the_pointers_to_help(accel_here: Accel) -> None:
    result = accel_here("run", "--device", "gpu", stdin=b"good\n")
    assert result.returncode == 2
    assert b"'gpu' is not one of auto, cpu, cuda, cuda:N" in result.stderr
