"""``fabric -A module:app worker``: what it runs, and what is wrong with a module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import fabric
from fabric.clients.cli.main import main
from fabric.clients.dataframe import session as sessions

ORDERS = """
import fabric
app = fabric.App("orders")

@app.agent(fabric.streams.generator(n_rows=100), sink="out", yields={"row": "int64"})
async def copied(events):
    async for rows in events.batches():
        yield rows.select(["row"])
"""
TWO = 'import fabric\nfirst = again = fabric.App("a")\nsecond = fabric.App("b")\n'
numbers = itertools.count()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FABRIC_ADDRESS", raising=False)
    with monkeypatch.context() as patched:  # tests before this one may have sessions open
        patched.setattr(sessions, "_open", [])
        yield tmp_path
        sessions.close_all()


def module(folder: Path, text: str) -> str:
    """A module of that text; each has a name of its own, as modules are imported once."""
    name = f"app_of_test_{next(numbers)}"
    (folder / f"{name}.py").write_text(text)
    return name


def test_it_runs_an_app_to_its_end(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = module(folder, ORDERS)
    assert main(["-A", name, "worker", "--parallelism", "1"]) == 0
    said = capsys.readouterr().out
    assert "app orders: agents copied; job job-" in said
    assert "its streams have ended" in said
    assert fabric.read_parquet(str(folder / "out")).count() == 100


WRONG = {
    "no app": ("x = 1", "{name}", 'has no App; write in it: app = fabric.App("orders")'),
    "two apps": (TWO, "{name}", "has 2 Apps: first, second; name one: fabric -A {name}:first"),
    "another name": (TWO, "{name}:x", "has no App called x; its Apps are: first, second"),
    "no module": ("", "no_such_module_here", "there is no module no_such_module_here in /"),
    "no agents": (TWO, "{name}:first", "the app a has no agents"),
    "it imports what is not there": (
        "import no_such_thing", "{name}", "can't be imported: ModuleNotFoundError: No module named",
    ),
    "it raises": ("1 / 0", "{name}", "can't be imported: ZeroDivisionError: .* (line 1 of {name}"),
    "a syntax error": ("x = = 1", "{name}", "can't be imported: SyntaxError"),
    "a file": ("", "{name}.py", "-A takes a module, not a file, got {name}.py; write: -A {name}:a"),
    "nothing": ("", "", "a worker needs the App to run; write: fabric -A orders:app worker"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    text, given, words = WRONG[case]
    name = module(folder, text)
    assert main(["-A", given.format(name=name), "worker"]) == 1
    said = capsys.readouterr().err
    for part in words.format(name=name).split(".*"):
        assert part in said
    assert said.count("\n") == 1
