"""What documents show is run, block after block, as a reader would type it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.local import LocalFabric

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "fabric://127.0.0.1:6123"
NEEDS_SPARK = "spark."
"""Blocks that begin so need a session of Spark; tests of views read them there."""
IMPORT = "from tests.support.wait import wait_until"


def blocks(name: str) -> list[str]:
    return BLOCK.findall((ROOT / "docs" / name).read_text())


def run(name: str, found: list[str]) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(found, 1):
        exec(compile(block, f"block {number} of {name}", "exec"), names)


@pytest.mark.parametrize("name", [
    "app.md", "async.md", "broadcast.md", "joins.md", "latency.md", "patterns.md", "state.md",
])  # fmt: skip
def test_documents_of_embedded_sessions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(name, blocks(name))


def test_documents_of_a_fabric(two: LocalFabric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRIC_TOKEN", two.token)
    first, *others = (b.replace(ADDRESS, f"fabric://{two.address}") for b in blocks("views.md"))
    assert two.address in first
    begun, view, rest = first.partition("view = session.view")
    waits = "wait_until(lambda: any(c.state == 'published' for c in job.checkpoints()))"
    shown = [block for block in others if not block.startswith(NEEDS_SPARK)]
    run(
        "views.md",
        [f"{IMPORT}\n{begun}{waits}\n{view}{rest}", *shown, "job.cancel(); session.close()"],
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_is_python(document: Path) -> None:
    for block in BLOCK.findall(document.read_text()):
        ast.parse(block)
