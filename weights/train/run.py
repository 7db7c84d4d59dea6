"""One call of the recipe: where things lie, the clock, and the log."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import Texts, read_dev
from fit import Report, Resident, over_all
from lexicon import Lexicon, student_ids, teacher_pieces, teacher_rows
from measure import accuracy, distance, read_behaviours
from network import Network
from ragged import Array, Rows, load_arrays, stack
from recipe import Recipe
from torch import nn

from accel_cli.text.vocabulary import load_vocabulary

LEXICON = "lexicon.bin"
BEHAVIOURS = "behaviours"
SAID = "said.npz"


@dataclass
class Run:
    """Results lie in `out`, those of a student in `out/name`; `seconds` bounds each training or labelling.

    `members` are the teachers that this call trains and lets label.
    """

    recipe: Recipe
    data: Path
    out: Path
    name: str
    pretrained: Path
    device: torch.device
    seconds: float
    members: tuple[int, ...]
    start: float = field(default_factory=time.monotonic)

    @property
    def student(self) -> Path:
        """The folder of the student."""
        return self.out / self.name

    @cached_property
    def lexicon(self) -> Lexicon:
        """The words of all texts, the measured ones too."""
        return self._opened[0]

    @property
    def measured(self) -> dict[str, Texts]:
        """The dev sets and the behaviours."""
        return self._opened[1]

    @cached_property
    def _opened(self) -> tuple[Lexicon, dict[str, Texts]]:
        lexicon = Lexicon.load(self.out / LEXICON)
        _, labels, lines = read_behaviours()
        behaviours = Texts(lexicon.rows(lines), labels, np.zeros(len(lines), np.int8))
        return lexicon, {**read_dev(self.recipe, self.data, lexicon), BEHAVIOURS: behaviours}

    @cached_property
    def texts(self) -> Texts:
        """The training texts as they are."""
        return Texts.load(self.out / "texts.npz")

    @cached_property
    def every_text(self) -> Rows:
        """The training texts, then the augmentations."""
        return stack([self.texts.rows, Rows(**load_arrays(self.out / "augmented.npz"))])

    def teacher(self, number: int) -> Path:
        """The folder of a teacher."""
        return self.out / f"teacher-{number}"

    @property
    def teachers(self) -> list[Path]:
        """The folders of all."""
        return [self.teacher(number) for number in range(self.recipe.teacher.count)]

    def shards(self, teacher: Path) -> list[Path]:
        """The files of a teacher's labels, for `recipe.shard` texts each."""
        count = -(-len(self.every_text) // self.recipe.shard)
        return [teacher / f"labels-{number:03}.npz" for number in range(count)]

    def labels(self) -> Array:
        """The mean of the teachers' logits for the texts that all have labelled."""
        parts = []
        for shards in zip(*map(self.shards, self.teachers), strict=True):
            if not all(shard.exists() for shard in shards):
                break
            said = [load_arrays(shard)["logits"].astype(np.float32) for shard in shards]
            parts.append(np.mean(said, axis=0))
        return np.concatenate(parts).astype(np.float16)

    def measured_student(self) -> dict[str, Resident]:
        """What is measured as the student reads it."""
        return {name: self.student_texts(texts.rows) for name, texts in self.measured.items()}

    def student_texts(self, rows: Rows) -> Resident:
        """Texts as the student reads them."""
        spec = self.recipe.spec
        vocabulary = load_vocabulary(self.out / "vocabulary.txt", spec.vocabulary_size)
        ids = student_ids(self.lexicon, vocabulary)[rows.ids]
        return Resident(Rows(ids, rows.offsets), self.device, least=spec.min_tokens, most=spec.max_tokens)

    @cached_property
    def pieces(self) -> tuple[Rows, Rows]:
        """The teacher's word pieces for the lexicon, and those that begin and end a text."""
        return teacher_pieces(self.lexicon, self.pretrained / "tokenizer.json")

    def teacher_texts(self, rows: Rows, pad: int) -> Resident:
        """Texts as the teacher reads them."""
        return Resident(teacher_rows(rows, *self.pieces, self.recipe.teacher.max_tokens), self.device, pad)

    @property
    def teacher_said(self) -> dict[str, Array]:
        """The mean of the teachers' logits for what is measured; nothing before all have labelled."""
        paths = [teacher / SAID for teacher in self.teachers]
        if not all(path.exists() for path in paths):
            return {}
        said = [load_arrays(path) for path in paths]
        return {name: np.mean([one[name] for one in said], axis=0) for name in said[0]}

    def elapsed(self) -> float:
        return round(time.monotonic() - self.start, 1)

    def note(self, place: Path, stage: str, **facts: Any) -> None:
        """Keep what a stage found in the log of `place`, and say it."""
        log = read_log(place)
        log.setdefault("stages", {}).setdefault(stage, {}).update(facts)
        self._save(place, log, f"{stage}: {facts}")

    def reporter(self, place: Path, stage: str, measured: dict[str, Resident]) -> Report:
        """Writes a row for each epoch: the accuracy on everything that is measured, and the distance to
        the teacher once that has said its own, which tells more than the few rows' labels do."""

        def report(epoch: int, steps: int, loss: float, average: nn.Module) -> None:
            said = say(average, measured)
            dev = {name: accuracy(logits, self.measured[name].labels) for name, logits in said.items()}
            row = {"stage": stage, "epoch": epoch + 1, "steps": steps, "loss": round(loss, 4)}
            row |= {"dev": dev, "seconds": self.elapsed()}
            row["distance"] = {name: distance(said[name], own) for name, own in self.teacher_said.items()}
            log = read_log(place)
            log.setdefault("epochs", []).append(row)
            self._save(place, log, json.dumps(row))

        return report

    def _save(self, place: Path, log: dict[str, Any], message: str) -> None:
        place.mkdir(parents=True, exist_ok=True)
        beside = place / f"log-{os.getpid()}.part"
        beside.write_text(json.dumps(log, indent=1) + "\n", "utf-8")
        beside.replace(place / "log.json")
        print(f"[{self.elapsed():6.1f} s] {message}", flush=True)


def read_log(place: Path) -> dict[str, Any]:
    """The log in a folder, empty when there is none."""
    path = place / "log.json"
    log: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return log


def say(network: nn.Module, texts: dict[str, Resident]) -> dict[str, Array]:
    """A network's logits for each of the texts."""
    return {name: over_all(network, some, network).cpu().numpy() for name, some in texts.items()}


def fresh_student(recipe: Recipe) -> Network:
    """A network of the shipped shape."""
    torch.manual_seed(recipe.seed)
    return Network(recipe.spec, recipe.distil.embedding_dropout, recipe.distil.feature_dropout)
