"""Hugging Face's tokenizers before the folded network in PyTorch: a file of text -> a file of labels."""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from accel_cli.batches import TokenBatch
from accel_cli.bench.peers import PyTorch
from accel_cli.bench.text_files import TextFile, new_file
from accel_cli.bench.text_ways import Way
from accel_cli.model.config import ModelSpec
from accel_cli.text.vocabulary import PAD, SPECIAL, UNKNOWN, Vocabulary

_CHUNK = 2 << 20  # bytes of text that become tokens at once
_AHEAD = 2  # chunks that become tokens while another one is classified

# docs/tokenizer.md in characters: bytes that are no UTF-8 come as U+FFFD, and all letters become lower-case.
_WORD = "[a-z0-9\u0080-\u1fff\u3000-\uffff]"
_SYMBOL = "[\u2000-\u2fff\U00010000-\U0010ffff]"
_SUFFIX = f"'(?:s|re|ve|ll|d|m)(?!{_WORD})"
_NOT = f"n't(?!{_WORD})"
_TOKEN = f"{_SUFFIX}|{_WORD}+(?:'(?!(?:s|re|ve|ll|d|m)(?!{_WORD})){_WORD}+)*|[!-~]|{_SYMBOL}"


class HuggingFace:
    """Threads make tokens, each on all cores, while this one sorts, pads, and has the network classify."""

    def __init__(
        self,
        spec: ModelSpec,
        vocabulary: Vocabulary,
        network: PyTorch,
        error: float,
        names: Sequence[bytes],
        place: Path,
    ) -> None:
        tokenizers = importlib.import_module("tokenizers")
        self.versions: tuple[str, ...] = (f"tokenizers {tokenizers.__version__}", network.version)
        self._least, self._network, self._error = spec.min_tokens, network, error
        self._names, self._output = names, place / "hugging-face.tsv"
        self._tokenizer = _tokenizer(tokenizers, vocabulary, spec.max_tokens)

    def way(self, text: TextFile) -> Way:
        """How it classifies a text."""
        return Way(
            f"{self.versions[0]}, {self._network.name}",
            "accel's",
            "label",
            text,
            partial(self._run, text.path),
            (self._output,),
            self._names,
            self._error,
        )

    def _run(self, path: Path) -> None:
        pending: deque[Future[TokenBatch]] = deque()
        with (
            path.open("rb") as file,
            new_file(self._output, "rows") as output,
            ThreadPoolExecutor(_AHEAD) as threads,
        ):
            while chunk := file.read(_CHUNK) + file.readline():
                pending.append(threads.submit(self.tokens, chunk))
                if len(pending) > _AHEAD:
                    self._write(output, pending.popleft().result())
            for last in pending:
                self._write(output, last.result())

    def tokens(self, chunk: bytes) -> TokenBatch:
        """Whole lines as token ids."""
        lines = chunk.decode("utf-8", "replace").removesuffix("\n").split("\n")
        found = self._tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        ids = [encoding.ids for encoding in found]
        rows = [row if len(row) >= self._least else row + [PAD] * (self._least - len(row)) for row in ids]
        offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int32)
        return TokenBatch(np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets)

    def _write(self, output: BinaryIO, batch: TokenBatch) -> None:
        names = [name + b"\n" for name in self._names]
        output.write(b"".join([names[label] for label in self._network.labels(batch).tolist()]))


def _tokenizer(tokenizers: Any, vocabulary: Vocabulary, most: int) -> Any:
    """Ours in its terms."""
    words = {word.decode("utf-8", "replace"): number for word, number in vocabulary.items()}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token=SPECIAL[UNKNOWN].decode()))
    normalizers = tokenizers.normalizers
    made.normalizer = normalizers.Sequence(
        [
            normalizers.Lowercase(),
            normalizers.Replace("\u2019", "'"),
            normalizers.Replace(tokenizers.Regex(_NOT), " n't"),
        ]
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(_TOKEN), "removed", invert=True)
    made.enable_truncation(most)
    return made
