"""Labels as answers hold them: the same as the plain way to write them."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.serve.labels import Labels
from accel_cli.serve.tensors import joined_bytes

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=4)


@settings(max_examples=30)
@given(NAMES, st.data())
def test_ranked_is_json(names: list[str], data: st.DataObject) -> None:
    values = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=len(names))
    rows = data.draw(st.lists(values.map(lambda row: row[: len(names)]), max_size=3))
    top = data.draw(st.none() | st.integers(1, 5))
    found = Labels(names).ranked(np.array(rows, dtype=np.float32).reshape(-1, len(names)), top)
    for row, text in zip(rows, found, strict=True):
        order = sorted(range(len(names)), key=lambda place: -row[place])[:top]
        expected = [{"score": row[place], "label": names[place]} for place in order]
        assert text == json.dumps(expected)


@settings(max_examples=30)
@given(NAMES, st.data())
def test_chosen(names: list[str], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=9))
    chosen = np.array(places, dtype=np.int32)
    expected = [names[place] for place in places]
    assert Labels(names).named(chosen) == expected
    assert Labels(names).tensor(chosen) == joined_bytes([name.encode() for name in expected])
