from __future__ import annotations

import os
from pathlib import Path

import pytest

from fabric.agent.process.folders import AgentFolder, SpillFolders
from fabric.errors import ConfigError, StorageError
from fabric.testing.clock import ManualClock


def test_the_id_lives_in_the_folder(tmp_path: Path) -> None:
    with AgentFolder(tmp_path / "a") as one, AgentFolder(tmp_path / "b") as two:
        assert one.agent_id != two.agent_id
        first = one.agent_id
    with AgentFolder(tmp_path / "a") as again:
        assert again.agent_id == first


def test_only_one_agent_at_a_time(tmp_path: Path) -> None:
    with (
        AgentFolder(tmp_path),
        pytest.raises(StorageError, match=f"another agent runs in {tmp_path}"),
        AgentFolder(tmp_path),
    ):
        raise AssertionError("two agents in one folder")
    with AgentFolder(tmp_path) as free:
        assert free.agent_id


def test_a_folder_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StorageError, match=f"can't use the agent folder {file}"):
        AgentFolder(file).__enter__()
    (tmp_path / "agent-id").write_text("../../etc")
    with pytest.raises(ConfigError, match=r"agent id .* is not allowed"):
        AgentFolder(tmp_path).__enter__()
    with pytest.raises(ConfigError, match="agent id"):  # and it is not locked for good
        AgentFolder(tmp_path).__enter__()


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def left(root: Path, agent_id: str, *, locked: bool = False) -> Path:
    """What a life that was killed leaves: its lock is nobody's."""
    path = root / f"spill-{agent_id}-0badcafe"
    path.mkdir()
    if not locked:
        (path / "lock").touch()
    (path / "e0-t0-a0-1.arrows").write_bytes(b"rows")
    return path


def test_a_life_has_its_own_folder_in_each_place(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    with SpillFolders(roots, "agent-1") as first, SpillFolders(roots, "agent-2") as second:
        assert [path.parent for path in first.paths] == roots
        assert not {*first.paths} & {*second.paths}
        assert all(path.stat().st_mode & 0o077 == 0 for path in first.paths)
    assert [names(root) for root in roots] == [[], []]


def test_what_a_dead_life_left_goes_at_once(tmp_path: Path) -> None:
    left(tmp_path, "agent-1")
    other = left(tmp_path, "agent-2")
    with SpillFolders([tmp_path], "agent-1") as folders:
        assert names(tmp_path) == sorted([folders.paths[0].name, other.name])


def test_a_life_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    with SpillFolders([tmp_path], "agent-1") as first:
        (first.paths[0] / "rows").touch()
        with SpillFolders([tmp_path], "agent-1", sweep_s=0.0):
            assert (first.paths[0] / "rows").exists()


def test_what_other_agents_left_goes_when_it_is_old(tmp_path: Path) -> None:
    clock = ManualClock()
    path = left(tmp_path, "agent-2")
    no_lock = left(tmp_path, "agent-3", locked=True)
    strange = tmp_path / "spilled-milk"
    strange.mkdir()
    for each in (path, no_lock, strange):
        os.utime(each, (clock.wall_s(), clock.wall_s()))
    with SpillFolders([tmp_path], "agent-1", sweep_s=100.0, clock=clock) as folders:
        clock.advance(99.0)
        assert folders.sweep() == 0
        clock.advance(2.0)
        assert folders.sweep() == 2
        assert names(tmp_path) == sorted([folders.paths[0].name, strange.name])


def test_a_link_with_such_a_name_is_no_folder(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "spill-agent-1-00000000").symlink_to(elsewhere)
    with SpillFolders([root], "agent-1", sweep_s=0.0):
        assert elsewhere.exists()


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    good = tmp_path / "good"
    with pytest.raises(StorageError, match=r"can't spill to .*file/x: .*--spill"):
        SpillFolders([good, tmp_path / "file" / "x"], "agent-1").__enter__()
    assert names(good) == []
