from __future__ import annotations

from pathlib import Path

import pytest

from fabric.agent.folder import AgentFolder
from fabric.errors import ConfigError, StorageError


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
