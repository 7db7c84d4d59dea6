"""A real Ray cluster of two nodes on this machine; without Ray nothing here is collected.

Each needs a core and half a minute: run these files by themselves, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = ["test_*.py"] if find_spec("ray") is None else []

if not collect_ignore_glob:
    from cluster.nodes import Nodes

    @pytest.fixture(scope="package")
    def nodes() -> Iterator[Nodes]:
        """The cluster; a test that loses a node adds one again."""
        with Nodes.started() as found:
            yield found
