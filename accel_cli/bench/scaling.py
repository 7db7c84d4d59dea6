"""What `accel bench --suite scaling` does: one text into a folder by workers on one device and on more."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain, islice, zip_longest
from pathlib import Path

import numpy as np

from accel_cli.bench.check import truth
from accel_cli.bench.inputs import TOKENS, obtain_sentences
from accel_cli.bench.measure import QUIET
from accel_cli.bench.scaling_clock import LEAST, Clock
from accel_cli.bench.scaling_report import Repeat, Row, ScalingReport
from accel_cli.bench.text_files import TextFile, text_file
from accel_cli.bench.text_suite import first_wrong, written_labels
from accel_cli.cuda.device import cupy, facts, index_of, missing
from accel_cli.engines.open import plan_for
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.shards import job as shard_job
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.manifest import Manifest
from accel_cli.shards.processes import run_processes
from accel_cli.shards.shard import Shard, shards_of
from accel_cli.text.readers import Source
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary
from accel_cli.validation import TOLERANCE

SIZE, SHARD = 4 << 30, 256 << 20  # bytes of the text and of a shard, if nothing else is said
_BLOCK = 4 << 20  # bytes compared at a time


@dataclass(frozen=True)
class Job:
    """What to measure: `count` sentences, repeated into `size` bytes of text, in shards of `shard_size`."""

    count: int
    repeats: int
    size: int = SIZE
    shard_size: int = SHARD
    path: str | None = None
    tokens: int = TOKENS


@dataclass(frozen=True)
class _Fleet:
    """Workers on `count` devices, and the folder of their parts."""

    engine: str
    devices: tuple[str, ...]
    count: int
    output: Path

    @property
    def name(self) -> str:
        """As it is called in messages."""
        return f"{self.engine} on {', '.join(self.devices)}"

    @property
    def parts(self) -> list[Path]:
        """What it wrote, in order."""
        return sorted(self.output.glob("part-*"))


def run(config: Config, devices: Sequence[str], job: Job, tell: Callable[[str], None]) -> ScalingReport:
    """Measure; `devices` are those of all workers, and one named twice has two wherever it takes part.

    Raises UsageError for a single device, and AccelError, before any timing, if a label is wrong or parts
    differ: in any byte, on a CPU in any label.
    """
    sentences = obtain_sentences(config.model, job.path, job.count, job.tokens)
    with tempfile.TemporaryDirectory(prefix="accel-bench-") as folder:
        place = Path(folder)
        fleets = _fleets(place, devices)
        text = text_file(place / "text.txt", sentences.lines, job.size)
        shards = shards_of([Source(str(text.path), "text")], job.shard_size)
        most = max(len(fleet.devices) for fleet in fleets)
        if len(shards) < LEAST * most:
            raise UsageError(
                f"--bytes {job.size} --shard-size {job.shard_size}: {len(shards)} shards for {most} workers"
                f" have no steady state; take at least {LEAST} a worker"
            )
        once = partial(_once, config, text, shards, job.shard_size)
        tell(f"{text.bytes} bytes, {text.sentences} sentences, {len(shards)} shards; warming up and checking")
        for fleet in fleets:
            once(fleet)
            if fleet is not fleets[0]:
                _check_same(fleet, fleets[0], exact=devices[0] != "cpu")
        checked = _check_labels(config, devices[0], sentences.lines, fleets[0].parts[0])
        tell(f"the same rows by all, {checked} labels as in float64; timing {len(fleets)} in turns")
        kept_on = file_system(place)
        found: dict[str, list[Repeat]] = {fleet.name: [] for fleet in fleets}
        for _ in range(job.repeats):
            for fleet in fleets:
                found[fleet.name].append(once(fleet))
    base = tuple(found[fleets[0].name])
    rows = [Row(fleet.engine, fleet.devices, fleet.count, tuple(found[fleet.name]), base) for fleet in fleets]
    for fleet, row in zip(fleets, rows, strict=True):
        rates = [repeat.steady for repeat in row.repeats]
        if max(rates) > QUIET * min(rates):
            tell(f"{fleet.name}: repeats differ by more than {QUIET} times; something else was running")
    first = devices[0]
    return ScalingReport(
        config=config.name,
        plan=str(plan_for(config, first)),
        origin=sentences.origin,
        file=text,
        shard_size=job.shard_size,
        file_system=kept_on,
        checked=checked,
        rows=rows,
        gpu=None if first == "cpu" else facts(index_of(first)),
        programs=(f"ray {version('ray')}",) if find_spec("ray") else (),
    )


def _fleets(place: Path, devices: Sequence[str]) -> list[_Fleet]:
    """One device, twice as many again and again, and all; Ray, where it is installed and these are all GPUs.

    It gives out GPUs itself.
    """
    on_cpu = devices[0] == "cpu"  # where each worker counts, since it has some cores of its own
    units = [[one] * devices.count(one) for one in dict.fromkeys(devices)]
    if on_cpu:
        units = [[one] for one in devices]
    if len(units) < 2:
        raise UsageError(
            f"--device {','.join(devices)}: scaling is that of several devices;"
            f" {missing() or 'name them, as cuda:0,1 or cuda:all'}, or say --device cpu --workers 2"
        )
    counts = [count for count in (1, 2, 4, 8, 16) if count < len(units)] + [len(units)]
    found = [
        _Fleet("processes", tuple(chain(*units[:count])), count, place / f"parts-{count}") for count in counts
    ]
    if find_spec("ray") is not None and not on_cpu and len(units) == cupy().cuda.runtime.getDeviceCount():
        found.append(_Fleet("Ray", tuple(unit[0] for unit in units), len(units), place / "parts-ray"))
    return found


def _once(config: Config, text: TextFile, shards: Sequence[Shard], size: int, fleet: _Fleet) -> Repeat:
    """All shards by new workers into a new folder; AccelError if one fails."""
    shutil.rmtree(fleet.output, ignore_errors=True)  # of the time before, while no clock runs
    job = shard_job.Job(config, fleet.output)
    sources = [Source(str(text.path), "text")]
    with OutputFolder.opened(fleet.output) as folder:
        folder.begin(Manifest.of(job, sources, size, len(shards)))
        clock, begin = Clock(len(fleet.devices)), time.perf_counter()
        if fleet.engine == "Ray":
            from accel_cli.shards.ray_cluster import Cluster
            from accel_cli.shards.ray_engine import run_on_ray

            with Cluster("local") as cluster:
                run_on_ray(job, shards, "cuda", cluster, clock)
        else:
            run_processes(job, shards, fleet.devices, clock, folder.lock)
        seconds = time.perf_counter() - begin
        clock.check()
    rows = sum(summary.sentences for summary in clock.written.values())
    if rows != text.sentences:
        raise AccelError(f"{text.sentences} lines gave {rows} rows by {fleet.name}; please report this")
    steady = clock.steady()
    if steady is None:
        raise AccelError(
            f"{fleet.name}: a worker was still at its first shard when the last one was handed out; say more"
            " --bytes, or a smaller --shard-size"
        )
    return Repeat(seconds, clock.start, steady.sentences / steady.seconds, steady.inside)


def file_system(place: Path) -> str:
    """The kind of file system that a folder lies in, as tmpfs or ext4; "unknown" where nothing says it."""
    try:
        lines = Path("/proc/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return "unknown"
    mounts = (line.split()[1:3] for line in lines)
    kinds = {Path(folder): kind for folder, kind in mounts}  # a later one hides those before it
    return next((kinds[each] for each in (place, *place.parents) if each in kinds), "unknown")


def _check_same(fleet: _Fleet, first: _Fleet, *, exact: bool) -> None:
    """AccelError unless the parts are the same files: to the byte if `exact`, else label by label."""
    names = [[path.name for path in each.parts] for each in (fleet, first)]
    if names[0] != names[1]:
        raise AccelError(f"not timed, because {fleet.name} wrote other parts than {first.name}")
    for one, other in zip(fleet.parts, first.parts, strict=True):
        if not _same_bytes(one, other) and (exact or not _same_labels(one, other)):
            raise AccelError(
                f"not timed, because {one.name} by {fleet.name} differs from that by {first.name}; please"
                " report this"
            )


def _same_bytes(one: Path, other: Path) -> bool:
    with one.open("rb") as a, other.open("rb") as b:
        while (block := a.read(_BLOCK)) == b.read(_BLOCK):
            if not block:
                return True
    return False


def _same_labels(one: Path, other: Path) -> bool:
    with one.open("rb") as a, other.open("rb") as b:
        pairs = zip_longest(a, b, fillvalue=b"")
        return all(mine.partition(b"\t")[0] == its.partition(b"\t")[0] for mine, its in pairs)


def _check_labels(config: Config, device: str, lines: list[bytes], first: Path) -> int:
    """How many labels of the first part were compared with float64; AccelError if one differs."""
    spec, plan = config.model, plan_for(config, device)
    tokenizer = Tokenizer(
        load_vocabulary(spec.vocabulary, spec.vocabulary_size), spec.min_tokens, spec.max_tokens
    )
    reference = truth(spec, obtain_weights(spec), plan, tokenizer.encode(lines[: plan.batch]).batch)
    places = {name: place for place, name in enumerate(written_labels(spec.labels))}
    with first.open("rb") as file:
        rows = [row.rstrip(b"\n").partition(b"\t")[0] for row in islice(file, len(reference))]
    labels = np.array([places.get(row, -1) for row in rows], np.int32)
    wrong = first_wrong(labels, reference, TOLERANCE[plan.precision])
    if wrong is not None:
        raise AccelError(
            f"not timed, because row {wrong + 1} has another label than the float64 reference. Run"
            " `accel validate` to see the first layer that differs"
        )
    return len(labels)
