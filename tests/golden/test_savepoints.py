"""Savepoints of each release are restored by this one, and those of any state engine by others."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import get_args

import pytest

import fabric
from fabric.checkpoint.savepoints import Savepoints
from fabric.config import StateBackend

from .golden_savepoints import PROGRAMS, RELEASES, differing_after, take

ENGINES = get_args(StateBackend)
OLD = sorted(path.relative_to(RELEASES) for path in RELEASES.glob("*/*"))


def test_each_release_has_its_savepoints() -> None:
    assert {path.parts[0] for path in OLD} >= {fabric.__version__}
    assert {path.parts[1] for path in OLD if path.parts[0] == fabric.__version__} == {*PROGRAMS}


@pytest.mark.parametrize("old", OLD, ids=str)
@pytest.mark.parametrize("state", ENGINES)
def test_a_savepoint_of_a_release_is_restored(old: Path, state: StateBackend) -> None:
    assert differing_after(old.parts[1], RELEASES / old, state) == ""


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Savepoints by program and engine, as they are needed."""

    class Taken(dict[tuple[str, str], Path]):
        def __missing__(self, key: tuple[str, str]) -> Path:
            kind, state = key
            self[key] = folder = tmp_path_factory.mktemp(f"{kind}-{state}")
            take(kind, folder, state)  # type: ignore[arg-type]
            return folder

    return Taken()


WINDOWS = [
    (kind, *pair) for kind in PROGRAMS if kind != "process"
    for pair in permutations(("memory", "arrow", "tonbo"), 2)
]  # fmt: skip
FUNCTIONS = [("process", *pair) for pair in permutations(("memory", "rocksdb"), 2)]
"""`docs/state.md`: a function's state is in memory or RocksDB, all others never in RocksDB."""


@pytest.mark.parametrize(("kind", "before", "after"), WINDOWS + FUNCTIONS)
def test_what_one_engine_wrote_another_one_reads(
    kind: str, before: StateBackend, after: StateBackend, taken: dict[tuple[str, str], Path]
) -> None:
    folder = taken[kind, before]
    manifest = Savepoints(folder).load(str(folder / "savepoint")).manifest
    names = {file.name for task in manifest.tasks for file in task.files}
    for engines, part in ((("arrow", "tonbo"), "cold.run-"), (("rocksdb",), ".sst")):
        assert any(part in name for name in names) == (before in engines)
    assert differing_after(kind, folder, after) == ""
