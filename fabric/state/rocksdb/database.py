"""RocksDB as states want it: options, opening, writes that never block, and its errors as ours.

One job: `open_database`, `open_for_reading`, `taken` and `failed`. Nothing is logged ahead (WAL):
what a crash loses comes back from the last snapshot, which is where the sources go on, too.

Where RocksDB's buffers wait for a flush it lets a writer wait inside, with the GIL held, and on a
full disk until somebody makes room: the whole process would stand still. So every write is one that
may not wait (`impatient`), and `taken` repeats it until there is room.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteOptions,
)

from fabric.errors import StorageError

CACHE_BYTES = 64 << 20
READ_CACHE_BYTES = 32 << 20
BUFFER_BYTES = 32 << 20
"""What a snapshot has to write at once, at most: it bounds how long a barrier takes."""
_PAUSE_S, _PAUSE_MAX_S = 5e-4, 5e-3
_FULL = ("is-write-stopped", "actual-delayed-write-rate")
PATIENCE_S = 10.0
"""How long a write may find no room once a flush or a compaction has failed."""


def options(*, create: bool = False, cache: Any = None) -> Any:
    """Point look-ups of small rows, two background threads.

    What a flush writes is not compressed: a task stands still for it at each barrier, a quarter
    longer with LZ4, and the next compaction writes it anew.
    """
    found = Options(raw_mode=True)
    found.create_if_missing(create)
    found.set_paranoid_checks(True)
    found.set_keep_log_file_num(1)
    found.set_write_buffer_size(BUFFER_BYTES)
    found.set_max_write_buffer_number(3)
    found.set_max_background_jobs(2)
    found.set_compression_per_level([DBCompressionType.none()] + 6 * [DBCompressionType.lz4()])
    found.set_level_compaction_dynamic_level_bytes(True)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache or Cache(CACHE_BYTES))
    blocks.set_bloom_filter(10, False)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    found.set_block_based_table_factory(blocks)
    return found


@lru_cache(maxsize=1)
def _cache_for_reading() -> Any:
    """Blocks are known by their file, so the next snapshot with the same file finds them."""
    return Cache(READ_CACHE_BYTES)


def not_logged() -> Any:
    """How everything is written."""
    found = impatient()
    found.disable_wal = True
    return found


def open_database(folder: Path, *, create: bool) -> Any:
    """The database in `folder`; with `create` there is none yet.

    Raises
    ------
    StorageError
        If it is damaged, or in use.
    """
    if not create and not (folder / "CURRENT").exists():  # RocksDB would begin anew over the rest
        raise StorageError(damaged(folder, "CURRENT is missing"))
    try:
        return Rdict(str(folder), options=options(create=create))
    except Exception as error:  # rocksdict raises bare Exception
        raise StorageError(damaged(folder, error)) from error


def open_for_reading(folder: Path) -> Any:
    """The same without a change to it; all that are open for reading share a cache."""
    if not (folder / "CURRENT").exists():
        raise StorageError(damaged(folder, "CURRENT is missing"))
    try:
        own = options(cache=_cache_for_reading())
        own.set_allow_mmap_reads(True)  # a look-up takes half the time of one that copies blocks
        return Rdict(str(folder), options=own, access_type=AccessType.read_only(False))
    except Exception as error:  # rocksdict raises bare Exception
        raise StorageError(damaged(folder, error)) from error


def check_files(database: Any, folder: Path, wanted: Collection[str]) -> None:
    """Whether it is made of these files: a manifest that lost its end opens, with less in it."""
    found = {each["name"].lstrip("/") for each in database.live_files()}
    if found != set(wanted):
        odd = ", ".join(sorted(found ^ set(wanted))[:5])
        raise StorageError(damaged(folder, f"its manifest lost or gained {odd}"))


def damaged(folder: Path, error: object) -> str:
    """What is said of a folder that can't be opened or read."""
    text = " ".join(str(error).split())
    if "/LOCK" in text or "lock hold" in text:
        return f"the state in {folder} is in use by another task: {text}"
    return (
        f"the state in {folder} is damaged: {text}; nothing was changed: restore the last "
        "checkpoint into a new folder"
    )


def failed(folder: Path, error: Exception) -> StorageError:
    """An access that failed."""
    text = str(error)
    if "no space" in text.lower():
        return StorageError(f"the disk of the state in {folder} is full: make room")
    if is_stall(error):
        return StorageError(
            f"the state in {folder} has no room for another write, and what would make some has "
            "failed: see whether the disk is full or broken"
        )
    return StorageError(f"the state in {folder} can't be read or written: {text}")


def impatient() -> Any:
    """Options of a write that fails rather than waits."""
    found: Any = WriteOptions()  # its stub calls this a method
    found.no_slowdown = True
    return found


def taken(
    database: Any, write: Callable[[], None], pause: Callable[[float], None] = time.sleep
) -> None:
    """Call `write` until `database` takes it; it makes its batch anew, so room is seen first.

    Raises
    ------
    Exception
        What RocksDB refused it with: that it has no room only where it will not have any.
    """
    waited_s, pause_s = 0.0, _PAUSE_S
    while True:
        try:
            return write()
        except Exception as error:  # rocksdict raises bare Exception
            if not is_stall(error):
                raise
            has_room = False
            while not has_room:
                if waited_s >= PATIENCE_S and _ask(database, "background-errors"):
                    raise
                pause(pause_s)
                waited_s, pause_s = waited_s + pause_s, min(2 * pause_s, _PAUSE_MAX_S)
                has_room = not any(_ask(database, name) for name in _FULL)


def is_stall(error: Exception) -> bool:
    """Whether RocksDB had no room, as opposed to an error of the disk.

    >>> is_stall(Exception("Result incomplete: Write stall")), is_stall(Exception("No space left"))
    (True, False)
    """
    return "Write stall" in str(error)


def _ask(database: Any, name: str) -> int:
    return database.property_int_value(f"rocksdb.{name}") or 0
