"""Vocabularies counted over text: the model's own, and with `--school` the benchmark network's.

python weights/train/vocabulary.py --school --data DIR
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from accel_cli import resources
from accel_cli.model.config import load_config
from accel_cli.text.tokenizer import tokens
from accel_cli.text.vocabulary import SPECIAL, save_vocabulary

UNLABELLED = "imdb_sentences.unlabelled.txt.gz"


def count_words(lines: Iterable[bytes]) -> Counter[bytes]:
    """How often each token occurs in the lines."""
    lines = iter(lines)
    counts: Counter[bytes] = Counter()
    while some := list(islice(lines, 10_000)):
        counts.update(tokens(b"\n".join(some)))
    del counts[b"\n"]
    return counts


def most_frequent(counts: Counter[bytes], size: int) -> list[bytes]:
    """The words of a vocabulary of `size` without its special ones: most frequent first, then by bytes."""
    words = [word for word in counts if word not in SPECIAL and _is_text(word)]
    words.sort(key=lambda word: (-counts[word], word))
    return words[: size - len(SPECIAL)]


def _is_text(word: bytes) -> bool:
    try:
        word.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the vocabulary of the school network.")
    parser.add_argument(
        "--school", action="store_true", required=True, help="which vocabulary: the only choice"
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with the training data")
    data = parser.parse_args().data
    spec = load_config("school").model
    with gzip.open(data / UNLABELLED, "rb") as lines:
        words = most_frequent(count_words(lines), spec.vocabulary_size)
    path = resources.WEIGHTS / "school" / "vocabulary.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_vocabulary(path, words)
    print(f"{path}: {len(words) + len(SPECIAL)} words")


if __name__ == "__main__":
    main()
