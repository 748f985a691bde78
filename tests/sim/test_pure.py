"""The simulator is deterministic because nothing in it can be otherwise."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support import sim

FORBIDDEN = {"time", "threading", "asyncio", "os", "secrets", "uuid", "socket", "datetime"}
FOLDER = Path(sim.__file__).parent


def test_no_time_threads_or_chance_of_its_own() -> None:
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text()
        assert "random.random(" not in text, path.name  # the module's own generator
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {node.module or ""}
                if node.module == "random":
                    assert [alias.name for alias in node.names] == ["Random"], path.name
            else:
                continue
            assert not names & FORBIDDEN, path.name
