"""That the few bytes around a place decide as the scan of docs/tokenizer.md does, for all short texts."""

from collections.abc import Sequence

import numpy as np
import pytest

from accel_cli.text.tokenizer import tokens
from kernels.text_marked import BYTES, all_texts, soup
from kernels.text_rule import marks, split

UNITS = [b"n", b"t", b"'", b"s", b"r", b"e", b"a", b" ", b"\xe2\x80\x99"]


def check(text: bytes) -> None:
    """The tokens of lines: the bytes up to each stop, a newline being one as well."""
    starts, stops = marks(text)
    data = np.frombuffer(text, np.uint8)
    newlines = data == ord("\n")
    out = np.stack([np.full_like(data, 0xFE), data], axis=1)  # FE comes before each token; texts have none
    kept = np.stack([starts | newlines, ~stops | starts | newlines], axis=1)
    found = out[kept].tobytes().lower().replace(b"\xe2\x80\x99", b"'")
    if found != b"\xfe" + b"\xfe".join(tokens(text)):
        for line in text.split(b"\n"):
            assert split(line) == tokens(line), line
        pytest.fail("the lines differ together, but none alone")


@pytest.mark.parametrize("length", range(1, 5))
def test_all_short_texts_of_single_bytes(length: int) -> None:
    check(all_texts(BYTES, length))


@pytest.mark.parametrize(
    ("units", "length"),
    [
        (UNITS, 5),
        ([*UNITS, b".", b"l", b"\xe2\x80\x94", b"\xf0\x9f\x98\x80", b"\xc3"], 4),
        ([b"n", b"t", b"'", b"d", b"\xe2\x80\x99"], 7),
        ([b"\xe2", b"\x80", b"\x99", b"n", b"t", b"'", b"s"], 6),
    ],
)
def test_all_longer_texts_of_what_matters(units: Sequence[bytes], length: int) -> None:
    check(all_texts(units, length))


@pytest.mark.parametrize("seed", range(4))
def test_random_texts(seed: int) -> None:
    check(soup(200_000, seed) + b"\n")
    every = np.random.default_rng(seed).integers(0, 0xFE, 200_000).astype(np.uint8)
    check(every.tobytes() + b"\n")
