"""The stages of the recipe; each leaves files in the run's folder, and nothing is made twice."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from augment import near_words
from data import NO_LABEL, augment, count_vocabulary, read_labelled, read_training
from export import cool, export, read, reference_logits
from fit import Resident, over_all, train
from lexicon import Lexicon
from measure import accuracy, calibration_error, passed, read_behaviours, temperature
from network import Network, initial_embedding
from ragged import Array, Rows, save_arrays
from run import BEHAVIOURS, LEXICON, SAID, Run, fresh_student, read_log, say

from accel_cli.text.vocabulary import SPECIAL

CHECKED = "sst2"  # the dev set on which the exported file is measured by accel's reference
TOLERATED = 0.5  # percentage points between it and the network
SUREST = 1e-4  # the least probability of a label
TEACHER_VECTORS = "teacher_vectors.npz"


def prepare(run: Run) -> None:
    """Read the sets; leaves `lexicon.bin`, `texts.npz` and `vocabulary.txt`."""
    path = run.out / "texts.npz"
    if not path.exists():
        lexicon, texts = read_training(run.recipe, run.data)
        lexicon.save(run.out / LEXICON)
        count_vocabulary(run.recipe, lexicon, texts, run.out / "vocabulary.txt")
        texts.save(path)
        run.note(run.out, "data", rows=len(texts), words=len(lexicon), seconds=run.elapsed())


def extend(run: Run) -> None:
    """Make the augmentations; leaves `augmented.npz`."""
    path = run.out / "augmented.npz"
    if not path.exists():
        vectors = run.data / run.recipe.vectors[0]
        lexicon = Lexicon.load(run.out / LEXICON)
        neighbours = near_words(lexicon, vectors, run.recipe.neighbours, run.device)
        rows, counts = augment(run.recipe, lexicon, run.texts, neighbours)
        save_arrays(path, {"ids": rows.ids, "offsets": rows.offsets})
        run.note(run.out, "augment", rows=counts, tokens=len(rows.ids), seconds=run.elapsed())


def teach(run: Run) -> None:
    """Fine-tune the teachers on the labels; leaves `teacher-N/teacher.pt`."""
    for number in run.members:
        if not (run.teacher(number) / "teacher.pt").exists():
            _teach(run, run.teacher(number), run.recipe.seed + number)


def _teach(run: Run, place: Path, seed: int) -> None:
    from teacher import Teacher

    begin = run.elapsed()
    place.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    teacher = Teacher(run.pretrained, len(run.recipe.spec.labels)).to(run.device)
    measured = {name: run.teacher_texts(texts.rows, teacher.pad) for name, texts in run.measured.items()}
    weights = run.texts.per_row(run.recipe, "teacher") * (run.texts.labels != NO_LABEL)
    chosen = np.flatnonzero(weights)
    resident = run.teacher_texts(run.texts.rows.take(chosen), teacher.pad)
    targets = torch.from_numpy(label_logits(run)[chosen]).to(run.device)
    report = run.reporter(place, "teacher", measured)
    fit = run.recipe.teacher.fit
    average = train(teacher, resident, weights[chosen], targets, fit, seed, report, run.seconds)
    torch.save({name: value.bfloat16() for name, value in average.state_dict().items()}, place / "teacher.pt")
    run.note(place, "teacher", rows=len(chosen), seconds=round(run.elapsed() - begin, 1))


def label_logits(run: Run) -> Array:
    """The labels as logits, moved towards "either" by their set's smoothing."""
    smoothing = np.maximum(run.texts.per_row(run.recipe, "smoothing"), SUREST)[:, None]
    count = len(run.recipe.spec.labels)
    targets: Array = np.log(np.eye(count)[run.texts.labels] * (1 - smoothing) + smoothing / count)
    return targets.astype(np.float32)


def label(run: Run) -> None:
    """Let the teachers label every text; leaves `teacher-N/labels-NNN.npz` and word vectors of the first."""
    for number in run.members:
        if not all(path.exists() for path in run.shards(run.teacher(number))):
            _label(run, run.teacher(number))


def _label(run: Run, place: Path) -> None:
    from teacher import Teacher, principal

    start = time.monotonic()
    exact = torch.bfloat16 if run.device.type == "cuda" else torch.float32
    teacher = Teacher(run.pretrained, len(run.recipe.spec.labels)).to(run.device, exact)
    teacher.load_state_dict(torch.load(place / "teacher.pt", map_location=run.device))
    budget = run.recipe.teacher.budget
    if place == run.teacher(0):
        words = (run.out / "vocabulary.txt").read_bytes().splitlines()[len(SPECIAL) :]
        numbers = np.array([run.lexicon[word] for word in words], np.int32)
        alone = run.teacher_texts(Rows(numbers, np.arange(len(numbers) + 1)), teacher.pad)
        vectors = principal(over_all(teacher, alone, teacher.pooled, budget), run.recipe.teacher.vectors)
        names = np.array([word.decode() for word in words])
        save_arrays(run.out / TEACHER_VECTORS, {"words": names, "vecs": vectors})
    measured = {name: run.teacher_texts(texts.rows, teacher.pad) for name, texts in run.measured.items()}
    said = say(teacher, measured)
    save_arrays(place / SAID, said)
    run.note(place, "label", **judged(run, said))
    rows = 0
    for number, path in enumerate(run.shards(place)):
        if path.exists():
            continue
        if number and time.monotonic() - start > run.seconds:
            break
        first, last = number * run.recipe.shard, min((number + 1) * run.recipe.shard, len(run.every_text))
        texts = run.teacher_texts(run.every_text.take(np.arange(first, last)), teacher.pad)
        logits = over_all(teacher, texts, teacher, budget)
        save_arrays(path, {"logits": logits.half().cpu().numpy()})
        rows += last - first
    seconds = time.monotonic() - start
    run.note(place, "label", rows=last, seconds=round(seconds, 1), rows_a_second=round(rows / seconds))


def judged(run: Run, said: dict[str, Array]) -> dict[str, object]:
    """The accuracy of logits on everything that is measured, and the behaviours by kind."""
    kinds, labels, _ = read_behaviours()
    dev = {name: accuracy(logits, run.measured[name].labels) for name, logits in said.items()}
    return {"dev": dev, "behaviours": passed(said[BEHAVIOURS], kinds, labels)}


def distil(run: Run) -> None:
    """Train the student on what the teachers say together; leaves `NAME/student.pt`."""
    path = run.student / "student.pt"
    if path.exists():
        return
    recipe = run.recipe
    targets = torch.from_numpy(run.labels()).to(run.device)
    rows = run.every_text.take(np.arange(len(targets)))
    weights = np.concatenate(
        (run.texts.per_row(recipe, "student"), np.ones(len(run.every_text) - len(run.texts)))
    )
    network = fresh_student(recipe)
    words = (run.out / "vocabulary.txt").read_bytes().splitlines()
    places = [run.out / name if name == TEACHER_VECTORS else run.data / name for name in recipe.vectors]
    network.embedding.weight.data = initial_embedding(recipe.spec, words, places, recipe.seed)
    run.note(run.student, "label", rows=len(targets), **judged(run, run.teacher_said))
    report = run.reporter(run.student, "distil", run.measured_student())
    average = train(
        network.to(run.device),
        run.student_texts(rows),
        weights[: len(rows)],
        targets,
        recipe.distil,
        recipe.seed,
        report,
        run.seconds,
    )
    torch.save(average.state_dict(), path)
    run.note(run.student, "distil", rows=len(rows), seconds=run.elapsed())


def ship(run: Run) -> None:
    """Calibrate, export and measure the student; leaves `NAME/model.safetensors` and its vocabulary."""
    spec, measured = run.recipe.spec, run.measured_student()
    network = fresh_student(run.recipe).to(run.device)
    network.load_state_dict(torch.load(run.student / "student.pt", map_location=run.device))
    said = say(network, measured)
    fitted = [(said[name][::2], run.measured[name].labels[::2]) for name in run.recipe.calibration]
    heat = temperature(*map(np.concatenate, zip(*fitted, strict=True)))
    cool(network, heat)
    path, vocabulary = run.student / "model.safetensors", run.student / "vocabulary.txt"
    export(path, spec, network)
    vocabulary.write_bytes((run.out / "vocabulary.txt").read_bytes())
    facts = report_on(run, read(path, spec).to(run.device), measured)
    lines, labels = read_labelled(next(run.data.glob(f"{CHECKED}.dev.tsv*")))
    reference = accuracy(reference_logits(path, vocabulary, spec, lines), np.array(labels))
    size = path.stat().st_size + vocabulary.stat().st_size
    for name, stage in read_log(run.out)["stages"].items():
        run.note(run.student, name, **stage)
    for place in run.teachers:
        run.note(run.student, place.name, **read_log(place)["stages"])
    run.note(run.student, "recipe", **run.recipe.plain())
    run.note(run.student, "export", temperature=heat, bytes=size, reference={CHECKED: reference}, **facts)
    if abs(reference - facts["dev"][CHECKED]) > TOLERATED:
        raise SystemExit(
            f"{path}: {reference} % on {CHECKED} by the reference, {facts['dev'][CHECKED]} % here"
        )


def report_on(run: Run, network: Network, measured: dict[str, Resident]) -> dict[str, dict[str, object]]:
    """Accuracy and calibration error of every dev set, that of the rows on which no temperature was fitted
    together, and the behaviours."""
    said = say(network, measured)
    kinds, labels, _ = read_behaviours()
    behaviours = passed(said.pop(BEHAVIOURS), kinds, labels)
    dev = {name: accuracy(logits, run.measured[name].labels) for name, logits in said.items()}
    errors = {name: calibration_error(logits, run.measured[name].labels) for name, logits in said.items()}
    unseen = [(said[name][1::2], run.measured[name].labels[1::2]) for name in run.recipe.calibration]
    errors["together"] = calibration_error(*map(np.concatenate, zip(*unseen, strict=True)))
    return {"dev": dev, "calibration": errors, "behaviours": behaviours}


STAGES = {
    "data": prepare,
    "augment": extend,
    "teacher": teach,
    "label": label,
    "distil": distil,
    "export": ship,
}
