"""Toom-Cook convolution: all windows of up to 16 tokens from as many products as there are points.

A convolution of k taps over n tokens has T = n - k + 1 outputs, y[t] = sum_j w[j] x[t + j]. Read w, and any h
of T values, as polynomials: their product has n coefficients, which its values at n points determine. With L
from values to coefficients, <y, h> = <x, w h> = <L' x, (values of w) (values of h)>, and therefore

    y = A_k ((G_k w) * (B x)),   B = L' [P, n],   G_k: w -> values [P, k],   A_k = (h -> values)' [T, P].

B depends on the points only, so all widths share one transformed sentence. Real points alone are badly
conditioned: their powers differ too much. A pair of conjugate points on the unit circle stands for two real
ones and costs one product more: Re(xyz) = 4/3 sum_u Re(xu) Re(yu) Re(zu), u running over the cube roots of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.polynomial import polyfromroots

from accel_cli.batches import Doubles, Floats

MOST_TOKENS = 16  # of a chunk; longer sentences are cut into chunks that overlap

INFINITY = complex(np.inf)  # where a polynomial's value is its last coefficient
_TURNS = np.exp(2j * np.pi * np.arange(3) / 3)

# For each even number of tokens the points beside 0 and infinity: a for the real +-a and +-1/a, an angle for
# the pairs +-exp(+-i angle). Found by search: they amplify rounding least, with as few pairs as keep that
# under 20 for widths from 3.
_BEST: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = {
    2: ((), ()),
    4: ((1.0,), ()),
    6: ((0.688,), ()),
    8: ((1.0, 0.55), ()),
    10: ((0.845, 0.456), ()),
    12: ((0.873, 0.503), (np.pi / 2,)),
    14: ((0.89, 0.539), (1.22,)),
    16: ((1.0, 0.792, 0.4524), (1.242,)),
}


@dataclass(frozen=True)
class ToomCook:
    """The matrices for chunks of `tokens` tokens; the rows of `inputs` and `weights` have length 1.

    `inputs` [products, tokens] serves all widths. For each of `widths`, `weights` holds [products, width] and
    `outputs` [tokens - width + 1, products].
    """

    tokens: int
    widths: tuple[int, ...]
    inputs: Doubles
    weights: tuple[Doubles, ...]
    outputs: tuple[Doubles, ...]

    @property
    def products(self) -> int:
        """The products that give all outputs of one width."""
        return len(self.inputs)

    @property
    def step(self) -> int:
        """From one chunk of a sentence to the next: no window of the widest is left out."""
        return self.tokens - max(self.widths) + 1

    def stacked_outputs(self) -> Floats:
        """The `outputs` in one array, rows of zeros filling up: [widths, tokens, products]."""
        stacked = np.zeros((len(self.widths), self.tokens, self.products), np.float32)
        for rows, outputs in zip(stacked, self.outputs, strict=True):
            rows[: len(outputs)] = outputs
        return stacked


def toom_cook(length: int, widths: Sequence[int], points: Sequence[complex] | None = None) -> ToomCook:
    """The matrices for sentences of `length` tokens, or chunks of them; `points` are the best unless given.

    ValueError if the widest kernel does not fit into a chunk, or the points do not determine it.
    """
    tokens, widest = min(length, MOST_TOKENS), max(widths)
    if not 1 <= widest <= tokens:
        raise ValueError(
            f"a kernel of {widest} taps does not fit into a chunk of {tokens} tokens"
            f" (sentences have {length}, chunks at most {MOST_TOKENS})"
        )
    chosen = best_points(tokens) if points is None else tuple(points)
    determined = sum(2 if point.imag else 1 for point in chosen)
    if determined != tokens:
        raise ValueError(f"points for {determined} coefficients, and {tokens} tokens")
    inputs, input_size = _normalised(_interpolation(chosen))
    weights, outputs = [], []
    for width in widths:
        values, size = _normalised(_values(chosen, width))
        weights.append(values)
        outputs.append(_values(chosen, tokens - width + 1).T * size * input_size)
    return ToomCook(tokens, tuple(widths), inputs, tuple(weights), tuple(outputs))


def best_points(tokens: int) -> tuple[complex, ...]:
    """The points for a chunk; of a conjugate pair the one above the real line.

    An odd number of tokens does without infinity.
    """
    if not 1 <= tokens <= MOST_TOKENS:
        raise ValueError(f"no points for chunks of {tokens} tokens: 1 to {MOST_TOKENS} are possible")
    sizes, angles = _BEST[tokens + tokens % 2]
    reals = sorted({sign * a**power for a in sizes for sign in (-1, 1) for power in (-1, 1)})
    pairs = {round(angle, 6): complex(np.exp(1j * angle)) for a in angles for angle in (a, np.pi - a)}
    last = () if tokens % 2 else (INFINITY,)
    return (0j, *(complex(real) for real in reals), *pairs.values(), *last)


def _values(points: Sequence[complex], count: int) -> Doubles:
    """What turns `count` coefficients into values at the points, three for a pair: [products, count]."""
    rows = []
    for point in points:
        if point == INFINITY:
            rows.append(np.eye(count)[-1:])
        else:
            rows.append(_real_rows(point, point ** np.arange(count)))
    return np.concatenate(rows)


def _interpolation(points: Sequence[complex]) -> Doubles:
    """The transpose of what turns values at the points into coefficients: [products, coefficients]."""
    finite = [point for point in points if point != INFINITY]
    roots = [root for point in finite for root in ((point, point.conjugate()) if point.imag else (point,))]
    count = len(roots) + (len(finite) < len(points))
    rows = []
    for point in points:
        # One at this point and zero at the others; at infinity, zero at all the others.
        others = [root for root in roots if root != point]
        coefficients = np.zeros(count, complex)
        coefficients[: len(others) + 1] = polyfromroots(others)
        if point != INFINITY:
            coefficients /= np.prod([point - other for other in others])
        rows.append(_real_rows(point, coefficients) * (8 / 3 if point.imag else 1))
    return np.concatenate(rows)


def _real_rows(point: complex, row: np.ndarray) -> Doubles:
    """A row of a real point as it is; of a pair, its real parts after each turn."""
    turned = row * _TURNS[:, None] if point.imag else row[None, :]
    real: Doubles = turned.real
    return real


def _normalised(rows: Doubles) -> tuple[Doubles, Doubles]:
    """The rows at length 1, and the lengths that they had."""
    sizes: Doubles = np.linalg.norm(rows, axis=1)
    return rows / sizes[:, None], sizes
