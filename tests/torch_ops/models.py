"""Small networks."""

from __future__ import annotations

from typing import Any

SIZES: dict[str, Any] = {
    "vocabulary_size": 40,
    "embedding": 12,
    "widths": (3, 5),
    "filters": 10,
    "experts": 3,
    "expert_hidden": 6,
    "fully_connected": (7, 5, 2),
}
