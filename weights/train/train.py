"""Train the sentiment model: an ensemble on labels, then one network on what the ensemble says.

python weights/train/train.py --data DIR --out DIR [--device cuda] [--limit-seconds N]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from data import NO_LABEL, Array, Texts, prepare, save_arrays
from export import export, reference_accuracy
from fit import Resident, planned_steps, probabilities, train
from network import Network, initial_embedding
from recipe import Fit, Recipe, load_recipe

STAGES = ("ensemble", "ensemble,distil")
RESERVED = 0.9  # of the time limit goes to training, the rest to labelling, measuring and writing
CHECKED = "sst2"  # the dev set on which the exported file is measured
TOLERATED = 0.5  # percentage points between it and the network, for float16 and bfloat16


class Run:
    """One call of the recipe: the data on the device, the files in `out`, the log and the clock."""

    def __init__(self, recipe: Recipe, data: Path, out: Path, device: torch.device, seconds: float) -> None:
        self.start, self.seconds = time.monotonic(), seconds
        self.recipe, self.data, self.out, self.device = recipe, data, out, device
        self.log_path = out / "log.json"
        self.log: dict[str, Any] = {"recipe": _plain(asdict(recipe)), "epochs": [], "stages": {}}
        if self.log_path.exists():
            self.resume(json.loads(self.log_path.read_text("utf-8")))
        self.texts, self.dev_texts = prepare(recipe, data, out)
        self.resident = Resident(self.texts, device)
        self.dev = {name: Resident(texts, device) for name, texts in self.dev_texts.items()}
        self.words = (out / "vocabulary.txt").read_bytes().splitlines()
        self.weights = np.array([source.weight for source in recipe.sources.values()])[self.texts.sources]
        self.labelled = np.where(self.texts.labels == NO_LABEL, 0.0, self.weights)
        self.note("data", rows=len(self.texts), tokens=len(self.texts.ids), seconds=self.elapsed())

    def resume(self, log: dict[str, Any]) -> None:
        """Go on with an earlier call's log."""
        if log["recipe"] != self.log["recipe"]:
            raise SystemExit(f"{self.out} holds the results of another recipe; choose another --out")
        self.log = log

    def elapsed(self) -> float:
        return round(time.monotonic() - self.start, 1)

    def note(self, stage: str, **facts: Any) -> None:
        """Keep what a stage found in the log, and say it."""
        self.log["stages"].setdefault(stage, {}).update(facts)
        self.save_log(f"{stage}: {facts}")

    def save_log(self, message: str) -> None:
        self.log_path.write_text(json.dumps(self.log, indent=1) + "\n", "utf-8")
        print(f"[{self.elapsed():6.1f} s] {message}", flush=True)

    def fit(
        self, stage: str, fit: Fit, weights: Array, targets: torch.Tensor, member: int, later: int
    ) -> Network:
        """Train one network; `later` is the number of steps that must find time after it."""
        seed = self.recipe.seed + member
        torch.manual_seed(seed)
        spec = self.recipe.spec
        network = Network(spec, fit.embedding_dropout, fit.feature_dropout)
        vectors = [self.data / name for name in self.recipe.vectors]
        network.embedding.weight.data = initial_embedding(spec, self.words, vectors, seed)

        def report(epoch: int, steps: int, loss: float, average: Network) -> None:
            row = {
                "stage": stage,
                "member": member,
                "epoch": epoch + 1,
                "steps": steps,
                "loss": round(loss, 4),
            }
            row |= {"dev": self.accuracies(average), "seconds": self.elapsed()}
            self.log["epochs"].append(row)
            self.save_log(" ".join(f"{key} {value}" for key, value in row.items()))

        steps = planned_steps(weights, fit)
        left = RESERVED * self.seconds - self.elapsed()
        budget = max(left, 1.0) * steps / (steps + later)
        return train(
            network.to(self.device), self.resident, weights, targets, fit, seed, report, seconds=budget
        )

    def accuracies(self, network: Network) -> dict[str, float]:
        """The accuracy in % on every dev set."""
        return {name: self.accuracy(name, probabilities(network, texts)) for name, texts in self.dev.items()}

    def accuracy(self, name: str, scores: torch.Tensor) -> float:
        """The accuracy in % of scores for a dev set."""
        return round(100 * float((scores.argmax(1).cpu().numpy() == self.dev_texts[name].labels).mean()), 2)


def _plain(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe as JSON gives it back; where its files lie is of no interest."""
    sizes = {key: value for key, value in recipe["spec"].items() if not isinstance(value, Path)}
    plain: dict[str, Any] = json.loads(json.dumps({**recipe, "spec": sizes}))
    return plain


def hard_targets(recipe: Recipe, texts: Texts) -> Array:
    """The labels as probabilities, moved towards "either" by their set's smoothing; without a label, even."""
    smoothing = np.array([source.smoothing for source in recipe.sources.values()])[texts.sources]
    smoothing[texts.labels == NO_LABEL] = 1
    count = len(recipe.spec.labels)
    return np.eye(count)[texts.labels] * (1 - smoothing)[:, None] + (smoothing / count)[:, None]


def ensemble(run: Run, afterwards: int) -> Array:
    """What the ensemble says of every text, the mean of its members, whose opinions are kept in `out`.

    `afterwards` is the number of steps of training that must find time after it.
    """
    fit = run.recipe.ensemble
    targets = torch.from_numpy(hard_targets(run.recipe, run.texts)).float().to(run.device)
    labelling = len(run.texts) // (3 * fit.batch)  # counted in steps, which cost three forward passes
    steps = planned_steps(run.labelled, fit) + labelling
    total = np.zeros(targets.shape, np.float32)
    dev = {name: torch.zeros(()) for name in run.dev}
    for member in range(fit.members):
        path = run.out / f"member-{member}.npz"
        if not path.exists():
            later = (fit.members - member - 1) * steps + labelling + afterwards
            network = run.fit("ensemble", fit, run.labelled, targets, member, later)
            said = {
                name: probabilities(network, texts) for name, texts in {"": run.resident, **run.dev}.items()
            }
            save_arrays(path, {f"said_{name}": value.cpu().numpy() for name, value in said.items()})
        with np.load(path) as file:
            total += file["said_"]
            dev = {name: value + torch.from_numpy(file[f"said_{name}"]) for name, value in dev.items()}
    run.note("ensemble", dev={name: run.accuracy(name, scores) for name, scores in dev.items()})
    return total / fit.members


def distil(run: Run, opinions: Array) -> None:
    """Train the network that ships on the ensemble's opinions, and export it."""
    trust = np.array([source.trust for source in run.recipe.sources.values()])[run.texts.sources]
    trust[run.texts.labels == NO_LABEL] = 0
    mixed = trust[:, None] * hard_targets(run.recipe, run.texts) + (1 - trust)[:, None] * opinions
    targets = torch.from_numpy(mixed).float().to(run.device)
    member = run.recipe.ensemble.members
    network = run.fit("distil", run.recipe.distil, run.weights, targets, member, 0)
    path = run.out / "model.safetensors"
    export(path, run.recipe.spec, network)
    dev = run.accuracies(network)
    exported = round(100 * reference_accuracy(path, run.recipe.spec, run.dev_texts[CHECKED]), 2)
    run.note("distil", dev=dev, exported={CHECKED: exported})
    if abs(exported - dev[CHECKED]) > TOLERATED:
        raise SystemExit(
            f"{path}: {exported} % on {CHECKED}, but the network that it holds has {dev[CHECKED]} %"
        )


def main() -> None:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the training data")
    parser.add_argument(
        "--out", type=Path, required=True, help="where results go; finished parts there are not redone"
    )
    parser.add_argument("--config", type=Path, default=here / "sentiment.yaml", help="the recipe")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--stages", choices=STAGES, default=STAGES[-1], help="the first alone, or both")
    parser.add_argument(
        "--limit-seconds", type=float, default=math.inf, help="shorten the training to fit in"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    recipe = load_recipe(options.config)
    device = torch.device(options.device)
    run = Run(recipe, options.data, options.out, device, options.limit_seconds)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    run.note("run", device=name, torch=torch.__version__)
    if options.stages == "ensemble":
        ensemble(run, 0)
    else:
        distil(run, ensemble(run, planned_steps(run.weights, recipe.distil)))
    run.note("run", seconds=run.elapsed())


if __name__ == "__main__":
    main()
