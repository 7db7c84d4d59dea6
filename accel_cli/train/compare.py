"""`accel train` against fastText on files of one's own; writes what docs/training.md shows.

python -m accel_cli.train.compare --fasttext PYTHON --json FILE name=train.tsv,dev.tsv ...

PYTHON is an interpreter with fastText. Both learn from the same rows, in the same random order, and
are judged by the same dev file, which neither sees before. fastText gets accel's tokens, and of its
settings below the one that does best on the dev file itself: a choice that accel does not have.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from accel_cli.provenance import provenance
from accel_cli.text.labelled import Labelled, Row
from accel_cli.text.tokenizer import tokens

RATES, EPOCHS, NGRAMS = (0.1, 0.5), (5, 25), (1, 2)  # fastText's defaults, and its tutorial's advice
_FASTTEXT = """
import fasttext, json, sys
train, dev, rate, epochs, ngrams = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
model = fasttext.train_supervised(
    train, lr=rate, epoch=int(epochs), wordNgrams=int(ngrams), thread=2, verbose=0
)
print(json.dumps(model.test(dev)[1]))
"""


@click.command()
@click.option("--fasttext", help="An interpreter that has fastText; without it, accel alone is measured.")
@click.option("--json", "report", required=True, help="The file to write.")
@click.option("--base", "bases", multiple=True, default=("none", "sentiment"), show_default=True)
@click.argument("sets", nargs=-1, required=True)
def main(fasttext: str | None, report: str, bases: tuple[str, ...], sets: tuple[str, ...]) -> None:
    """Compare on SETS, each name=train,dev."""
    document: dict[str, Any] = {**provenance(), "rows": []}
    with tempfile.TemporaryDirectory() as place:
        for number, entry in enumerate(sets):
            name, _, paths = entry.partition("=")
            train, dev = (list(Labelled(path).rows()) for path in paths.split(","))
            random.Random(number).shuffle(train)
            folder = Path(place) / name
            folder.mkdir()
            facts = {
                "set": name,
                "labels": len({row.label for row in train}),
                "n": len(train),
                "dev": len(dev),
            }
            for found in (*_fasttext(fasttext, folder, train, dev), *_accel(bases, folder, train, dev)):
                document["rows"].append({**facts, **found})
                click.echo(json.dumps(document["rows"][-1]), err=True)
            Path(report).write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def _fasttext(python: str | None, folder: Path, train: list[Row], dev: list[Row]) -> Iterator[dict[str, Any]]:
    if python is None:
        return
    paths = [folder / "train.txt", folder / "dev.txt"]
    for path, rows in zip(paths, (train, dev), strict=True):
        lines = [b"__label__%s %s\n" % (row.label.encode(), b" ".join(tokens(row.text))) for row in rows]
        path.write_bytes(b"".join(lines))
    found = []
    for rate in RATES:
        for epochs in EPOCHS:
            for ngrams in NGRAMS:
                settings = (str(rate), str(epochs), str(ngrams))
                out, seconds, cpu = _run(python, "-c", _FASTTEXT, *map(str, paths), *settings)
                found.append((json.loads(out), -seconds, -cpu, settings))
    accuracy, seconds, cpu, settings = max(found)
    chosen = "rate {}, {} epochs, {}-grams".format(*settings)
    yield {
        "program": "fastText",
        "settings": chosen,
        "accuracy": accuracy,
        "seconds": -seconds,
        "cpu_s": -cpu,
    }


def _accel(
    bases: tuple[str, ...], folder: Path, train: list[Row], dev: list[Row]
) -> Iterator[dict[str, Any]]:
    paths = [folder / "train.jsonl", folder / "dev.jsonl"]
    for path, rows in zip(paths, (train, dev), strict=True):
        records = [{"label": row.label, "text": row.text.decode("utf-8", "replace")} for row in rows]
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    for base in bases:
        model, figures = folder / base, folder / f"{base}.json"
        accel = (sys.executable, "-m", "accel_cli")
        line = ("train", "--input", str(paths[0]), "--base", base, "--output", str(model), "--device", "cpu")
        _, seconds, cpu = _run(*accel, *line)
        _run(*accel, "eval", "--input", str(paths[1]), "--config", str(model), "--json", str(figures))
        judged = json.loads(figures.read_text("utf-8"))["rows"][0]
        yield {
            "program": "accel",
            "settings": f"--base {base}",
            "accuracy": judged["accuracy"],
            "calibration_error": judged["calibration_error"],
            "seconds": seconds,
            "cpu_s": cpu,
        }


def _run(*command: str) -> tuple[str, float, float]:
    """What a program prints, and its seconds by the clock and by the processor."""
    used, begin = _used(), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode(), time.perf_counter() - begin, _used() - used


def _used() -> float:
    """Processor seconds of all programs started from here that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
