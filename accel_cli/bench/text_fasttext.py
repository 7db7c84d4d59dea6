"""fastText on all cores: trained on accel's own labels, then a process a core, each with a part of a file."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from importlib import metadata
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from accel_cli.batches import Ints
from accel_cli.bench.text_files import TextFile, new_file
from accel_cli.bench.text_ways import Way
from accel_cli.engines.planner import cores
from accel_cli.errors import AccelError

_TRAINED = 200_000  # sentences at most
_SETTINGS = {"dim": 10, "wordNgrams": 2, "epoch": 2, "lr": 0.5}
_LABEL = "__label__"
_LINES = 8192  # that the module is given at once


def is_here() -> bool:
    """Whether there is the program, or the Python module."""
    return shutil.which("fasttext") is not None or importlib.util.find_spec("fasttext") is not None


class FastText:
    """A model of its own, and an executor of a task a core that predicts a part."""

    def __init__(
        self,
        version: str,
        labels: int,
        place: Path,
        executor: Executor,
        predict: Callable[[Path, Path], None],
    ) -> None:
        self.versions: tuple[str, ...] = (version,)
        self._names = [f"{_LABEL}{label}".encode() for label in range(labels)]
        self._place, self._executor, self._predict = place, executor, predict

    def way(self, text: TextFile) -> Way:
        """How it classifies a text, which is cut into parts here."""
        parts = list(_parts(text, self._place))
        outputs = tuple(part.with_suffix(".labels") for part in parts)

        def run() -> None:
            try:
                list(self._executor.map(self._predict, parts, outputs))
            except BrokenExecutor as error:
                raise AccelError(
                    f"a process of {self.versions[0]} ended early ({error}); leave --peer fasttext out"
                ) from error

        return Way(self.versions[0], "its own", "label", text, run, outputs, self._names)


@contextmanager
def fasttext(lines: Sequence[bytes], labels: Ints, count: int, place: Path) -> Iterator[FastText]:
    """Trained on the first of `lines`, whose labels of `count` are given; the program, or else the module."""
    text, model = place / "fasttext-train.txt", place / "fasttext-model.bin"
    with new_file(text, "a text") as file:
        for line, label in islice(zip(lines, labels.tolist(), strict=False), _TRAINED):
            file.write(f"{_LABEL}{label} ".encode() + line + b"\n")
    if program := shutil.which("fasttext"):
        settings = [word for name, value in _SETTINGS.items() for word in (f"-{name}", str(value))]
        base = str(model.with_suffix(""))
        _call(program, "supervised", "-input", str(text), "-output", base, "-thread", str(cores()), *settings)
        with ThreadPoolExecutor(cores()) as threads:
            yield FastText("fasttext program", count, place, threads, partial(_by_program, program, model))
        return
    module = importlib.import_module("fasttext")
    module.train_supervised(str(text), thread=cores(), verbose=0, **_SETTINGS).save_model(str(model))
    name, *_ = metadata.packages_distributions()["fasttext"]
    version = f"{name} {metadata.version(name)}"
    spawn = get_context("spawn")  # a process forked beside CUDA's threads may hang
    with ProcessPoolExecutor(cores(), spawn) as processes:
        yield FastText(version, count, place, processes, partial(_by_module, model))


def _parts(text: TextFile, place: Path) -> Iterator[Path]:
    """The text as a file a core, of about the same number of lines each, or fewer if it has so few."""
    each = -(-text.sentences // cores())
    with text.path.open("rb") as file:
        for number in range(-(-text.sentences // each)):
            path = place / f"fasttext-{number}.txt"
            with new_file(path, "a text") as part:
                part.writelines(islice(file, each))
            yield path


def _by_program(program: str, model: Path, part: Path, output: Path) -> None:
    with new_file(output, "rows") as rows:
        _call(program, "predict", str(model), str(part), stdout=rows)


def _call(*line: str, stdout: Any = subprocess.DEVNULL) -> None:
    done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise AccelError(
            f"{' '.join(line[:2])} ended with {done.returncode}: {last}; leave --peer fasttext out"
        )


def _by_module(model: Path, part: Path, output: Path) -> None:
    """In a process of the executor."""
    with part.open("rb") as file, new_file(output, "rows") as rows:
        while lines := list(islice(file, _LINES)):
            texts = b"".join(lines).decode("utf-8", "replace").removesuffix("\n").split("\n")
            found, _ = _loaded(model).predict(texts)
            rows.write("".join([f"{labels[0] if labels else ''}\n" for labels in found]).encode())


@cache
def _loaded(model: Path) -> Any:
    with contextlib.redirect_stderr(io.StringIO()):  # it tells of a change of 2019
        return importlib.import_module("fasttext").load_model(str(model))
