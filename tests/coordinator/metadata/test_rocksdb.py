"""RocksDB on a bad disk: flipped bytes, missing files, torn ends, no room; and who may open it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fabric.coordinator.metadata.log_check import is_cut_short
from fabric.coordinator.metadata.own_files import OwnFiles
from fabric.coordinator.metadata.rocksdb import RocksStore
from fabric.coordinator.metadata.store import TABLES, Write
from fabric.errors import StorageError
from tests.support.disk import mounted

SOAK = bool(os.environ.get("FABRIC_SOAK"))
OURS = ("held", "LOCK", "IDENTITY", "rocksdict-config.json")
Files = dict[str, bytes]


def files(folder: Path) -> Files:
    """All that holds data; RocksDB's own log of what it did does not."""
    found = (p for p in folder.iterdir() if not p.name.startswith(("LOG", "OPTIONS")))
    return {p.name: p.read_bytes() for p in found if p.name not in OURS}


def contents(store: RocksStore) -> dict[str, list[tuple[str, bytes]]]:
    return {table: list(store.scan(table)) for table in TABLES}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a coordinator that was killed: tables on the disk, and a log beside them."""
    live = tmp_path_factory.mktemp("live")
    store = RocksStore(live)
    store.next_epoch()
    for start in range(0, 60, 20):
        noise = [os.urandom(4000) for _ in range(20)]
        store.apply([Write("jobs", f"job-{start + i:04}", each) for i, each in enumerate(noise)])
    store._database.flush()
    for number in range(8):
        store.apply([Write("jobs", "job-0000", b"newer"), Write("events", f"{number}", b"e" * 50)])
    copy = tmp_path_factory.mktemp("killed") / "store"
    shutil.copytree(live, copy)
    store.close()
    return copy


def refusal(folder: Path) -> str:
    """What an opening is refused with, "" when it is not."""
    try:
        RocksStore(folder).close()
    except StorageError as error:
        return str(error)
    return ""


def copied(killed: Path, to: Path) -> Path:
    return Path(shutil.copytree(killed, to / "copy", dirs_exist_ok=True))


def test_what_was_acknowledged_is_there_after_a_kill(killed: Path, tmp_path: Path) -> None:
    store = RocksStore(copied(killed, tmp_path))
    found = contents(store)
    assert found["jobs"][0] == ("job-0000", b"newer")
    assert (len(found["jobs"]), len(found["events"])) == (60, 8)
    assert store.next_epoch() == 2
    store.close()


@pytest.mark.parametrize("kind", [".sst", ".log", "MANIFEST", "CURRENT"])
def test_a_flipped_byte_is_named_refused_and_left_alone(
    killed: Path, tmp_path: Path, kind: str
) -> None:
    whole = RocksStore(copied(killed, tmp_path))
    expected = contents(whole)
    whole.close()
    shutil.rmtree(tmp_path / "copy")
    (name, data), *_ = ((n, d) for n, d in files(killed).items() if kind in n and d)
    step = 1 if SOAK and len(data) < 10_000 else max(1, len(data) // 40)
    refused = 0
    for place in range(0, len(data), step):
        folder = copied(killed, tmp_path)
        path = folder / name
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x5A]) + data[place + 1 :])
        before = files(folder)
        if said := refusal(folder):
            refused += 1
            assert "is damaged" in said
            assert kind in said
            assert files(folder) == before
        else:  # a byte that nothing depends on
            store = RocksStore(folder)
            assert contents(store) == expected, place
            store.close()
        shutil.rmtree(folder)
    assert refused > len(range(0, len(data), step)) * 0.9


def test_a_log_that_ends_in_the_middle_of_a_write_is_taken_up_to_there(
    killed: Path, tmp_path: Path
) -> None:
    """Cut anywhere: what is read is a beginning of what was written."""
    ((name, data),) = ((n, d) for n, d in files(killed).items() if n.endswith(".log") and d)
    found = set()
    for end in range(0, len(data) + 1, 1 if SOAK else 23):
        folder = copied(killed, tmp_path)
        (folder / name).write_bytes(data[:end])
        store = RocksStore(folder)
        events = [key for key, _ in store.scan("events")]
        assert events == [str(number) for number in range(len(events))]
        found.add(len(events))
        store.close()
        shutil.rmtree(folder)
    assert found >= set(range(8))


def test_a_damaged_length_is_not_taken_for_a_torn_end(killed: Path, tmp_path: Path) -> None:
    ((name, data),) = ((n, d) for n, d in files(killed).items() if n.endswith(".log") and d)
    assert not is_cut_short(killed / name)
    at, n = 0, 0
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 6], "little")
        folder = copied(killed, tmp_path)
        (folder / name).write_bytes(data[: at + 5] + b"\x70" + data[at + 6 :])
        assert is_cut_short(folder / name)
        with pytest.raises(StorageError, match=rf"is damaged: a record in .*{name} has lost"):
            RocksStore(folder)
        at, n = at + 7 + length, n + 1
        shutil.rmtree(folder)
    assert n >= 8


@pytest.mark.parametrize("kind", [".sst", "MANIFEST", "CURRENT"])
def test_a_missing_file_is_refused_and_nothing_begun_anew(
    killed: Path, tmp_path: Path, kind: str
) -> None:
    folder = copied(killed, tmp_path)
    for path in folder.glob(f"*{kind}*"):
        path.unlink()
    before = files(folder)
    with pytest.raises(StorageError, match=r"is damaged: .*(missing|No such file)"):
        RocksStore(folder)
    assert files(folder) == before


def test_a_second_coordinator_is_refused_also_from_another_process(tmp_path: Path) -> None:
    first = RocksStore(tmp_path)
    first.next_epoch()
    with pytest.raises(StorageError, match="in use by another coordinator"):
        RocksStore(tmp_path)
    code = (
        "import sys; from pathlib import Path\n"
        "from fabric.coordinator.metadata.rocksdb import RocksStore\n"
        "from fabric.errors import StorageError\n"
        "try: RocksStore(Path(sys.argv[1]))\n"
        "except StorageError as error: print(error)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    )
    assert "in use by another coordinator" in other.stdout
    first.apply([Write("jobs", "a", b"")])
    first.close()
    RocksStore(tmp_path).close()


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't be opened"):
        RocksStore(tmp_path / "file")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """A disk of 1 MB."""
    with mounted(tmp_path / "disk", "size=1m") as folder:
        yield lambda: folder


def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(
    small_disk: Callable[[], Path],
) -> None:
    disk = small_disk()
    store = RocksStore(disk / "m")
    store.next_epoch()
    acknowledged: list[str] = []
    said = ""
    while not said and len(acknowledged) < 10_000:
        try:
            store.apply([Write("jobs", f"{len(acknowledged):05}", os.urandom(5000))])
            acknowledged.append(f"{len(acknowledged):05}")
        except StorageError as error:
            said = str(error)
    assert said == (
        "the disk of the metadata store is full; make room and start the coordinator again"
    )
    with pytest.raises(StorageError):  # and it stays so, until there is room
        store.apply([Write("jobs", "x", os.urandom(5000))])
    assert [key for key, _ in store.scan("jobs")][: len(acknowledged)] == acknowledged
    store.close()
    subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
    again = RocksStore(disk / "m")
    again.next_epoch()
    again.apply([Write("jobs", "after", b"")])
    found = [key for key, _ in again.scan("jobs")]
    assert set(found) >= {*acknowledged, "after"}
    assert len(found) <= len(acknowledged) + 2  # the one that failed may have been made
    again.close()


def replaced(path: Path) -> None:
    """The same bytes, in another file or folder."""
    copy = path.with_name("copy")
    if path.is_dir():
        shutil.copytree(path, copy)
        path.rename(path.with_name("before"))
    else:
        shutil.copy(path, copy)
    copy.rename(path)


@pytest.mark.parametrize("ask", ["apply", "check"])
@pytest.mark.parametrize(
    ("what", "pattern", "said"),
    [
        (shutil.rmtree, "", "the folder is gone"), (replaced, "", "another folder is in its place"),
        (os.remove, "CURRENT", "CURRENT is gone"), (replaced, "CURRENT", "another CURRENT"),
        (os.remove, "MANIFEST-*", "is gone"), (replaced, "MANIFEST-*", "another MANIFEST-"),
        (os.remove, "*.log", "its log is gone"), (replaced, "*.log", "another 0"),
        (os.remove, "LOCK", "LOCK is gone"), (os.remove, "held", "held is gone"),
    ],
)  # fmt: skip
def test_nothing_is_acknowledged_once_files_are_gone(
    tmp_path: Path, what: Callable[[Path], None], pattern: str, said: str, ask: str
) -> None:
    store = RocksStore(folder := tmp_path / "store")
    store.next_epoch()
    store.apply([Write("jobs", "job-1", b"here")])
    store.check()
    (path,) = folder.glob(pattern) if pattern else (folder,)
    what(path)
    call = store.check if ask == "check" else lambda: store.apply([Write("jobs", "job-2", b"x")])
    with pytest.raises(StorageError, match=f"removed or replaced while it was in use: .*{said}"):
        call()
    store.close()


def test_a_table_that_is_gone_is_noticed(killed: Path, tmp_path: Path) -> None:
    store = RocksStore(Path(shutil.copytree(killed, tmp_path / "store")))
    store.check()
    next((tmp_path / "store").glob("*.sst")).unlink()
    with pytest.raises(StorageError, match=r"\d+.sst is gone"):
        store.check()
    store.close()


def test_what_the_store_does_itself_is_no_loss(tmp_path: Path) -> None:
    """Logs and tables come and go, and so may the manifest."""
    store = RocksStore(tmp_path / "store")
    store.next_epoch()
    before = {path.name for path in (tmp_path / "store").iterdir()}
    for n in range(150):
        store.apply([Write("jobs", f"job-{n % 10}", os.urandom(20_000))])
        if n % 50 == 0:
            store._database.compact_range(None, None)
        store.check()
    assert before - {path.name for path in (tmp_path / "store").iterdir()}, "its first log"
    store.close()


def test_a_table_that_a_compaction_removes_amid_a_check_is_no_loss(tmp_path: Path) -> None:
    store = RocksStore(folder := tmp_path / "store")
    store.next_epoch()
    files, told = OwnFiles(folder.resolve()), [_compacted(store)]

    def tables() -> set[str]:
        """As the store tells them; right after it, the one it told is compacted away."""
        told.append(_compacted(store))
        return told[-2]

    assert files.missed(tables) == ""
    assert len(set.union(*told)) == len(told) == 3, "one table each time, and never the same"
    store.close()


def _compacted(store: RocksStore) -> set[str]:
    """The one table of a store that has compacted all it has, and one write more."""
    store.apply([Write("jobs", "job-1", os.urandom(20_000))])
    store._database.compact_range(None, None)
    return store._tables()
