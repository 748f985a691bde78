"""Savepoints of each release are restored by this one, and those of any state engine by others."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import get_args

import pytest

import fabric
from fabric.checkpoint.savepoints import Savepoints
from fabric.config import StateBackend
from tests.support.sampled import SOAK

from .golden_savepoints import PROGRAMS, RELEASES, differing_after, take

ENGINES = get_args(StateBackend)
OLD = sorted(path.relative_to(RELEASES) for path in RELEASES.glob("*/*"))
RESTORED_BY: dict[str, tuple[StateBackend, ...]] = {
    "count": ("auto", "tonbo"), "session": ("arrow",), "top": ("memory",), "process": ("rocksdb",),
}  # fmt: skip
"""In `make test`, each engine once; in `make soak` every engine restores every savepoint."""
CASES = [
    (state, old) for state in ENGINES for old in OLD if SOAK or state in RESTORED_BY[old.parts[1]]
]


def test_each_release_has_its_savepoints() -> None:
    assert {path.parts[0] for path in OLD} >= {fabric.__version__}
    assert {path.parts[1] for path in OLD if path.parts[0] == fabric.__version__} == {*PROGRAMS}
    assert {old for _, old in CASES} == {*OLD}
    assert {state for state, _ in CASES} == {*ENGINES}


@pytest.mark.parametrize(("state", "old"), CASES, ids=str)
def test_a_savepoint_of_a_release_is_restored(state: StateBackend, old: Path) -> None:
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


THERE_AND_BACK = {
    "count": ("memory", "tonbo"), "session": ("memory", "arrow"), "top": ("arrow", "tonbo"),
    "process": ("memory", "rocksdb"),
}  # fmt: skip
"""`docs/state.md`: a function's state is in memory or RocksDB, all others never in RocksDB. So all
pairs of engines there are, each with one program; in `make soak` with every program."""


def pairs(kind: str) -> list[tuple[str, str]]:
    """Which engine writes, and which one reads."""
    all_of_it = SOAK and kind != "process"
    engines = ("memory", "arrow", "tonbo") if all_of_it else THERE_AND_BACK[kind]
    return list(permutations(engines, 2))


@pytest.mark.parametrize(
    ("kind", "before", "after"), [(kind, *pair) for kind in PROGRAMS for pair in pairs(kind)]
)
def test_what_one_engine_wrote_another_one_reads(
    kind: str, before: StateBackend, after: StateBackend, taken: dict[tuple[str, str], Path]
) -> None:
    folder = taken[kind, before]
    manifest = Savepoints(folder).load(str(folder / "savepoint")).manifest
    names = {file.name for task in manifest.tasks for file in task.files}
    for engines, part in ((("arrow", "tonbo"), "cold.run-"), (("rocksdb",), ".sst")):
        assert any(part in name for name in names) == (before in engines)
    assert differing_after(kind, folder, after) == ""
