"""Scaling as a picture: the steady rates of one device and of more. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

_OURS, _RAY, _WHOLE = "#1f6f8b", "#b8b0a4", "#a63d2f"


def scaling_drawn(documents: Sequence[dict[str, Any]], ending: str) -> bytes:
    """The figures of JSON files, one beside the other, as the content of a `.png` or `.svg` file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(
        {"svg.hashsalt": "accel", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure = Figure(figsize=(5 * len(documents), 4), layout="constrained")
        for axes, document in zip(
            figure.subplots(1, len(documents), squeeze=False)[0], documents, strict=True
        ):
            _rates(axes, document)
        content = io.BytesIO()
        undated = {"Date": None} if ending == ".svg" else {}
        figure.savefig(content, format=ending[1:], dpi=150, metadata=undated)
        return content.getvalue()


def _rates(axes: Any, document: dict[str, Any]) -> None:
    """Steady sentences a second, each with its slowest and fastest repeat, over the number of devices."""
    rows = document["rows"]
    for engine, colour in (("processes", _OURS), ("Ray", _RAY)):
        some = [row for row in rows if row["engine"] == engine]
        if not some:
            continue
        rates = [row["steady_sentences_per_s"] for row in some]
        below = [row["steady_sentences_per_s"] - row["steady_slowest"] for row in some]
        above = [row["steady_fastest"] - row["steady_sentences_per_s"] for row in some]
        counts = [row["count"] for row in some]
        axes.errorbar(counts, rates, (below, above), fmt="o", color=colour, capsize=3, label=engine)
        for count, rate in zip(counts, rates, strict=True):
            axes.annotate(f"{rate:,.0f}", (count, rate), (6, -3), textcoords="offset points", size=7)
    most, first = max(row["count"] for row in rows), rows[0]["steady_sentences_per_s"]
    axes.plot([0, most], [0, most * first], color=_WHOLE, lw=1, ls="--", label="one device's rate for each")
    gpu = (document["machine"].get("gpu") or {}).get("name") or "CPU, workers"
    axes.set_title(f"{document['config']}, {gpu}")
    axes.set_xlabel("devices")
    axes.set_ylabel("sentences/s, steady")
    axes.set_xticks(range(most + 1))
    axes.set_xlim(0, most + 0.6)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", frameon=False)
