"""The ladder as a picture: sentences/s of each rung, and each rung under the roofline. Needs matplotlib."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np

from accel_cli.errors import AccelError, UsageError

ENDINGS = (".png", ".svg")
_OURS, _IDS, _PEER, _ROOF = "#1f6f8b", "#9cc5d3", "#b8b0a4", "#a63d2f"
_CLOSE = 0.22  # decades between dots whose labels would touch
_KINDS = {"embeddings": _OURS, "ids": _IDS}


def require_matplotlib(paths: tuple[str, ...]) -> None:
    """AccelError unless matplotlib is here, UsageError for a file of no known kind; said before measuring."""
    for path in paths:
        if Path(path).suffix not in ENDINGS:
            raise UsageError(f"--picture {path}: expected a name that ends in {' or '.join(ENDINGS)}")
    if paths and importlib.util.find_spec("matplotlib") is None:
        raise AccelError(
            '--picture: matplotlib is not installed here; run `pip install ".[plot]"`, or leave --picture out'
        )


def drawn(document: dict[str, Any], ending: str) -> bytes:
    """The figures of a ladder's JSON as the content of a `.png` or `.svg` file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(
        {"svg.hashsalt": "accel", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure = Figure(figsize=(12, 5), layout="constrained")
        bars, roof = figure.subplots(1, 2, width_ratios=(3, 2))
        rows = [row for row in document["rows"] if row["regime"] == "many"]
        _bars(bars, rows, document)
        _roofline(roof, rows, document)
        gpu = (document["machine"].get("gpu") or {}).get("name") or "CPU alone"
        figure.suptitle(f"Ladder, {gpu}, {document['flop_per_sentence'] / 1e9:.3g} GFLOP a sentence")
        content = io.BytesIO()
        undated = {"Date": None} if ending == ".svg" else {}
        figure.savefig(content, format=ending[1:], dpi=150, metadata=undated)
        return content.getvalue()


def _bars(axes: Any, rows: list[dict[str, Any]], document: dict[str, Any]) -> None:
    """Sentences a second on a log scale, both kinds of input side by side."""
    names = list(dict.fromkeys((row["rung"], row["name"]) for row in rows))
    upright = {"textcoords": "offset points", "ha": "center", "size": 6, "rotation": 90}
    upright["bbox"] = {"fc": "white", "ec": "none", "pad": 0.2}  # not struck through by the ceiling
    for number, kind in enumerate(_KINDS):
        found = [row for row in rows if row["input"] == kind]
        places = [names.index((row["rung"], row["name"])) + (number - 0.5) * 0.4 for row in found]
        colours = [_KINDS[kind] if row["rung"] is not None else _PEER for row in found]
        rates = [row["sentences_per_s"] for row in found]
        axes.bar(places, rates, 0.38, color=colours, label=f"{kind} in, logits out")
        for place, rate in zip(places, rates, strict=True):
            text = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
            axes.annotate(text, (place, rate), (0, 2), **upright)
    if document["ceiling"]:
        bound = 1e12 * document["ceiling"]["tflop_per_s"] / document["flop_per_sentence"]
        label = f"direct network at {document['ceiling']['program']}'s rate: {bound:,.0f}"
        axes.axhline(bound, color=_ROOF, lw=1, ls="--", label=label)
    axes.set_yscale("log")
    axes.set_ylabel("sentences/s, warm")
    labels = [f"PyTorch {name}" if rung is None else f"{name} {rung}" for rung, name in names]
    axes.set_xticks(range(len(names)), labels, size=7, rotation=45, ha="right", rotation_mode="anchor")
    axes.margins(y=0.15)
    axes.legend(loc="upper left", frameon=False)


def _roofline(axes: Any, rows: list[dict[str, Any]], document: dict[str, Any]) -> None:
    """FLOP a second over FLOP a byte; the work counted is the direct network's, the bytes are the plan's."""
    places = [row for row in rows if row["rung"] is not None and row["input"] == "embeddings"]
    if document["ceiling"]:
        flop, memory = document["ceiling"]["tflop_per_s"], document["ceiling"]["gb_per_s"] / 1e3
        left = min([1.0, *(row["flop_per_byte"] for row in places)])
        x = np.geomspace(left, max([1e4, *(2 * row["flop_per_byte"] for row in places)]), 200)
        axes.plot(x, np.minimum(memory * x, flop), color=_ROOF, lw=1)
        near = {"textcoords": "offset points", "size": 7}
        ceilings = {f"{flop:.1f} TFLOP/s": flop}
        for precision, rate in document["ceiling"].get("tensor_tflop_per_s", {}).items():
            axes.plot(x, np.minimum(memory * x, rate), color=_ROOF, lw=0.6, ls=":")
            ceilings[f"{precision}: {rate:.0f} TFLOP/s"] = rate
        for text, rate in ceilings.items():  # left of the roof's edge, where no rung can be
            axes.annotate(text, (rate / memory, rate), (-2, 2), ha="right", **near)
        axes.annotate(f"{memory:.2f} TB/s", (left, memory * left), (7, -6), **near)
    for rungs in _neighbours(places):
        for row in rungs:
            axes.plot(row["flop_per_byte"], row["tflop_per_s"], "o", color=_OURS, ms=5)
        place = max(row["flop_per_byte"] for row in rungs), min(row["tflop_per_s"] for row in rungs)
        text = ", ".join(str(row["rung"]) for row in rungs)
        axes.annotate(text, place, (4, -2), textcoords="offset points", size=8, va="top")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP of the direct network a byte that the plan must move")
    axes.set_ylabel("TFLOP/s")


def _neighbours(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rungs, those together whose dots lie so close that one label names them all."""
    groups: list[list[dict[str, Any]]] = []
    for row in rows:
        near = (group for group in groups if _is_near(row, group[0]))
        if (group := next(near, None)) is None:
            groups.append(group := [])
        group.append(row)
    return groups


def _is_near(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(abs(np.log10(one[key] / other[key])) < _CLOSE for key in ("flop_per_byte", "tflop_per_s"))
