"""Code to copy, of `examples/` and of documents: what needs no server runs, the rest is read."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

import fabric
from tests.support.local import local_fabric

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = (
    "app", "async", "broadcast", "joins", "kafka", "latency", "object_stores", "patterns",
    "postgres", "state", "tls", "views",
)  # fmt: skip
ELSEWHERE = {"coming_from", "upstream"}
"""Tested where their libraries are: `tests/golden`, `tests/security`."""
ALONE = {
    "batch_query.py": ("JP", "258", "5873.0"),
    "keyed_state.py": ("2026-01-01 12:00:02", "9.0", "2026-01-01 12:00:01", "8.0"),
    "stream_windows.py": ("window_start", "clicks", "newest"),
    "view_by_flight.py": ("{'key': 3, 'orders': 207, 'newest': 246}", "184,209,198,207,202"),
}
"""What they print."""
WITH_SERVERS = {"kafka_copy.py", "spark_read.py"}


def names() -> list[str]:
    return sorted(path.name for path in EXAMPLES.glob("*.py"))


def test_all_are_known() -> None:
    assert set(names()) == set(ALONE) | WITH_SERVERS


@pytest.mark.parametrize("name", names())
def test_each_says_how_it_is_run(name: str) -> None:
    text = ast.get_docstring(ast.parse((EXAMPLES / name).read_text()))
    assert text is not None
    assert f"python examples/{name}" in text


@pytest.mark.parametrize("name", sorted(ALONE))
def test_it_prints_what_it_should(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, text=True, capture_output=True,
        env={**os.environ, "FABRIC_HOME": str(tmp_path / "home")}, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    missing = [words for words in ALONE[name] if words not in done.stdout]
    assert missing == [], done.stdout


@pytest.mark.parametrize("name", sorted(WITH_SERVERS))
def test_without_arguments_it_says_what_it_needs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], text=True, capture_output=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"usage: {name}")


def test_the_stream_of_kafka_is_planned_without_a_broker() -> None:
    counted = run_path(str(EXAMPLES / "kafka_copy.py"))["counted"]
    assert counted("127.0.0.1:1", "clicks").columns == [
        "page", "window_start", "window_end", "clicks",
    ]  # fmt: skip


def test_spark_finds_the_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    write = run_path(str(EXAMPLES / "spark_read.py"))["write"]
    with local_fabric(2) as running:
        monkeypatch.setenv("FABRIC_TOKEN", running.token)
        url = f"fabric://{running.address}"
        write(url)
        with fabric.connect(url) as session:
            assert session.read_dataset("example_flights").count() == 1_000


def blocks(document: str) -> list[str]:
    """The Python of a page below `docs`."""
    return BLOCK.findall((ROOT / "docs" / f"{document}.md").read_text())


def test_all_documents_with_code_are_known() -> None:
    pages = (ROOT / "docs").rglob("*.md")
    assert {page.stem for page in pages if "```python" in page.read_text()} == (
        set(DOCUMENTS) | ELSEWHERE
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_code_of_a_document_can_be_read(document: str) -> None:
    for block in blocks(document):
        ast.parse(block)


@pytest.mark.parametrize("document", ["latency", "state"])
def test_code_of_a_document_runs(document: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks(document))], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "FABRIC_HOME": str(tmp_path / "home")},
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
