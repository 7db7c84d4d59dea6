"""What `accel bench --suite text` does: a text file -> rows, by accel and by other programs, in turns."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from accel_cli.batches import Ints, Predictions, TokenBatch
from accel_cli.bench import measure, text_fasttext
from accel_cli.bench.check import Truth, truth
from accel_cli.bench.inputs import TOKENS, Sentences, obtain_sentences
from accel_cli.bench.peers import peers
from accel_cli.bench.text_fasttext import fasttext
from accel_cli.bench.text_files import TextFile, new_file, text_file
from accel_cli.bench.text_hugging_face import HuggingFace
from accel_cli.bench.text_report import Row, TextReport
from accel_cli.bench.text_ways import Peer, Way, share
from accel_cli.classifier import Classifier
from accel_cli.errors import AccelError
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.pipeline import Pipeline
from accel_cli.text.chunks import TextChunk
from accel_cli.text.readers import Source
from accel_cli.text.rows import TextFormatter
from accel_cli.validation import TOLERANCE

PEERS = ("torch-folded", "fasttext")
_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}  # of the text, if nothing else is said
_SAMPLE = 16384  # sentences on which the network in PyTorch is checked and finds its batch size


@dataclass(frozen=True)
class Job:
    """What to measure: `count` sentences, repeated into `size` bytes of text; `peers` are some of PEERS."""

    count: int
    repeats: int
    size: int | None = None
    path: str | None = None
    tokens: int = TOKENS
    peers: tuple[str, ...] = ()


def run(config: Config, device: str, job: Job, tell: Callable[[str], None]) -> TextReport:
    """Measure. Raises AccelError, before any timing, if accel's labels are not those of the reference."""
    asked = [name for name in dict.fromkeys(job.peers) if _is_here(name, tell)]
    sentences = obtain_sentences(config.model, job.path, job.count, job.tokens)
    with ExitStack() as stack:
        classifier = stack.enter_context(Classifier(config, device))
        tell(f"{classifier.plan}")
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="accel-bench-")))
        bench = _Bench(config, classifier, sentences, place, tell)
        size = job.size or _BYTES[classifier.plan.device.partition(":")[0]]
        return bench.report(size, asked, job.repeats, stack)


def _is_here(name: str, tell: Callable[[str], None]) -> bool:
    """Whether a peer can be measured here; if not, what is missing is said."""
    if name == "fasttext":
        missing = [] if text_fasttext.is_here() else ["the program fasttext, or fasttext-wheel for Python"]
    else:
        missing = [package for package in ("tokenizers", "torch") if find_spec(package) is None]
    if missing:
        tell(f"--peer {name} is left out, because it needs {' and '.join(missing)}; install that to have it")
    return not missing


class _Bench:
    """One plan and its sentences, with all that is measured on them."""

    def __init__(
        self,
        config: Config,
        classifier: Classifier,
        sentences: Sentences,
        place: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._config, self._classifier, self._sentences = config, classifier, sentences
        self._place, self._tell = place, tell
        self._names = written_labels(classifier.labels)
        self._weights = obtain_weights(config.model)  # its own copy, which no engine has touched
        batch = self._sample(classifier.plan.batch)
        self._truth: Truth = truth(config.model, self._weights, classifier.plan, batch)
        logits = measure.predict(classifier.engine, [batch.rows(0, len(self._truth))]).logits
        self._error = self._truth.error(
            f"accel on {classifier.plan.device}", logits, classifier.plan.precision
        )

    def report(self, size: int, asked: Sequence[str], repeats: int, stack: ExitStack) -> TextReport:
        """Write a text of `size` bytes, check what accel says of it, prepare the peers, then measure."""
        text = text_file(self._place / "text.txt", self._sentences.lines, size)
        self._tell(f"a text of {text.bytes} bytes, {text.sentences} sentences; warming up and checking")
        ours = [self._way(text, self._place / "accel.tsv"), self._way(text, None)]
        for way in ours:
            way.run()
        labels = ours[0].labels()
        self._check(labels, text)
        checked = min(len(self._truth), text.sentences)
        self._tell(f"checked {checked} labels against float64: largest error {self._error:.1e}")
        theirs: list[Way] = []
        programs: list[str] = []
        for name in asked:
            self._tell(f"preparing {name}")
            folder = self._place / name
            folder.mkdir()
            peer = self._peer(name, labels, folder, stack)
            theirs.append(share(peer, folder, self._sentences.lines, text))
            programs += peer.versions
        ways = ours + theirs
        agree = [None] * len(ours) + [_agreement(way, labels) for way in theirs]
        self._tell(f"timing {len(ways)} ways in turns, {repeats} times")
        seconds = _in_turns(ways, repeats)
        rows = [Row(*each) for each in zip(ways, seconds, agree, strict=True)]
        for row in rows:
            if max(row.seconds) > measure.QUIET * min(row.seconds):
                what = f"{row.way.program}, rows to {row.way.output}"
                self._tell(
                    f"{what}: repeats differ by more than {measure.QUIET} times; something else was running"
                )
        return TextReport(
            config=self._config.name,
            plan=self._classifier.plan,
            origin=self._sentences.origin,
            sentences=len(self._sentences),
            checked=checked,
            rows=rows,
            gpu=getattr(self._classifier.engine, "device", None),
            programs=tuple(programs),
        )

    def _sample(self, count: int) -> TokenBatch:
        """The first sentences as tokens."""
        return self._classifier.tokenizer.encode(self._sentences.lines[:count]).batch

    def _way(self, text: TextFile, output: Path | None) -> Way:
        """The pipeline of `accel run`, into a file or nowhere."""
        formatter = TextFormatter("tsv", ["label", "score"], self._classifier.labels)

        def run() -> None:
            with new_file(output or Path(os.devnull), "rows") as file:
                Pipeline(self._classifier, formatter, file.write).run([Source(str(text.path), "text")])

        return Way(
            "accel",
            "accel's",
            "label, score",
            text,
            run,
            outputs=(output,) if output else (),
            names=self._names,
            max_error=self._error,
        )

    def _check(self, labels: Ints, text: TextFile) -> None:
        """AccelError unless there is a right row for each line, and always the same for the same line."""
        if len(labels) != text.sentences:
            raise AccelError(
                f"not timed, because {text.sentences} lines gave {len(labels)} rows; please report this"
            )
        wrong = first_wrong(labels, self._truth, TOLERANCE[self._classifier.plan.precision])
        if wrong is not None:
            raise AccelError(
                f"not timed, because row {wrong + 1} has another label than the float64 reference. Run"
                " `accel validate` to see the first layer that differs"
            )
        lines = min(len(self._sentences), text.sentences)
        differs = labels.reshape(-1, lines) != labels[:lines]
        if differs.any():
            row = int(differs.argmax())
            raise AccelError(
                f"not timed, because row {row + 1} differs from row {row % lines + 1}, though both are of the"
                " same sentence; please report this"
            )

    def _peer(self, name: str, labels: Ints, folder: Path, stack: ExitStack) -> Peer:
        spec, plan, lines = self._config.model, self._classifier.plan, self._sentences.lines
        if name == "fasttext":
            return stack.enter_context(fasttext(lines, labels, len(self._names), folder))
        *_, network = peers(name, spec, self._weights, plan, self._sample(_SAMPLE), self._tell)
        error = self._truth.error(network.name, network.logits(), network.plan.precision)
        vocabulary = self._classifier.tokenizer.vocabulary
        return HuggingFace(spec, vocabulary, network, error, self._names, folder)


def written_labels(labels: Sequence[str]) -> list[bytes]:
    """The labels as they stand in rows."""
    nothing = np.zeros((len(labels), len(labels)), dtype=np.float32)
    each = Predictions(nothing, nothing, np.arange(len(labels), dtype=np.int32))
    return TextFormatter("tsv", ["label"], labels).rows(TextChunk([], 1), each).splitlines()


def first_wrong(labels: Ints, truth: Truth, tolerance: float) -> int | None:
    """The first row whose label is not the reference's; either will do where two logits are too near."""
    for row, (label, logits) in enumerate(zip(labels, truth.logits, strict=False)):
        best = logits.max()
        allowed = tolerance * (max(1, abs(best)) + max(1, abs(logits[label])))
        if label < 0 or best - logits[label] > allowed:
            return row
    return None


def _agreement(way: Way, labels: Ints) -> float:
    """The share of a way's labels that equal accel's; AccelError if it does not have one for each line."""
    found = way.labels()
    if len(found) != way.text.sentences:
        raise AccelError(
            f"not timed, because {way.text.sentences} lines gave {len(found)} rows by {way.program}"
        )
    return float(np.mean(found == labels[: len(found)]))


def _in_turns(ways: Sequence[Way], repeats: int) -> list[tuple[float, ...]]:
    """The seconds of each way's repeats; files of an earlier one are removed while no clock runs."""
    seconds: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats):
        for way, its in zip(ways, seconds, strict=True):
            way.clear()
            its.append(measure.timed(way.run)[0])
    return [tuple(its) for its in seconds]
