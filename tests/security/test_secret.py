from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from fabric.errors import AuthError, StorageError
from fabric.security.secret import load, load_or_create, write_private


def test_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    secret = load_or_create(path)
    assert len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_create(path) == load(path) == secret
    assert os.listdir(path.parent) == ["secret"]


def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(load_or_create(tmp_path / "secret")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_refuses_what_others_can_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    load_or_create(path)
    path.chmod(mode)
    with pytest.raises(AuthError, match=f"mode {mode:04o}; run: chmod 600"):
        load_or_create(path)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_refuses_a_folder_that_others_can_write(tmp_path: Path, mode: int) -> None:
    """They could put a secret of theirs in the place of it."""
    path = tmp_path / "home" / "secret"
    load_or_create(path)
    path.parent.chmod(mode)
    for use in (load, load_or_create):
        with pytest.raises(AuthError, match=f"mode {mode:04o}.*run: chmod go-w .*/home$"):
            use(path)
    path.parent.chmod(0o755)
    load(path)


def test_refuses_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "home" / "secret"
    load_or_create(path)
    if os.geteuid() == 0:
        os.chown(path.parent, 4711, -1)
        with pytest.raises(AuthError, match=r"belongs to user 4711.*chown -R 0 .*/home$"):
            load(path)
        os.chown(path.parent, 0, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4712)  # who has the folder of root, as ssh has it
    if path.parent.stat().st_uid == 0:
        load(path)
    else:
        with pytest.raises(AuthError, match="to user 4712; run the fabric as its owner"):
            load(path)


@pytest.mark.parametrize("text", ["", "zz", "ab" * 31, "ab" * 33, "\x00" * 64])
def test_refuses_a_damaged_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(AuthError, match="64 hex digits"):
        load_or_create(path)


def test_refuses_links_and_folders(tmp_path: Path) -> None:
    load_or_create(tmp_path / "secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(StorageError, match="can't read the secret"):
        load_or_create(tmp_path / "link")
    with pytest.raises(AuthError, match="must be a plain file"):
        load_or_create(tmp_path)


def test_writing_is_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, "one")
    write_private(path, "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StorageError, match="can't write"):
        write_private(path / "below", "x")
    assert os.listdir(tmp_path) == ["token"]
