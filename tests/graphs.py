"""torch.compile with a backend that leaves each graph as it is and keeps it, to be counted."""

from __future__ import annotations

from typing import Any

import pytest


def compiled_graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every graph that torch.compile is to compile from now on; needs torch."""
    torch = pytest.importorskip("torch")
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compile_with = torch.compile
    monkeypatch.setattr(torch, "compile", lambda call, **rest: compile_with(call, backend=backend, **rest))
    return graphs
