"""Where what lies in a checkpoint folder.

    <root>/<job>/00000000000000000007/MANIFEST                  names and seals all of checkpoint 7
                                     /window_2.3.1/state        node window_2, task 3, attempt 1
                /shared/<content>-<bytes>-<crc32c>              immutable files by their content
                /sinks/...                                      what sinks have to publish

One job: names. Jobs, nodes and contents may be any text, folders may not: what has a letter that
some file system treats as another one gets a digest of itself appended.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

MANIFEST, ASIDE, SHARED, SINKS = "MANIFEST", "MANIFEST.new", "shared", "sinks"
_PLAIN = re.compile(r"[a-z0-9_\-]{1,100}")
_OTHER = re.compile(r"[^a-z0-9_\-]")
_SHARED = re.compile(r"(.+)-(\d+)-([0-9a-f]{8})")


def plain(text: str) -> str:
    """A name for a folder that no other text gets.

    >>> plain("window_2"), plain("Enrich/Join")
    ('window_2', 'enrich_join~dc3c816e479a12e0')
    """
    if _PLAIN.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_OTHER.sub('_', text.lower())[:80]}~{digest}"


def checkpoint_folder(root: Path, job: str, checkpoint: int) -> Path:
    """The folder of one checkpoint; names sort as numbers do."""
    return root / plain(job) / f"{checkpoint:020}"


def sinks_folder(root: Path, job: str) -> Path:
    """Where sinks put aside what a complete checkpoint publishes: files of theirs alone."""
    return root / plain(job) / SINKS


def task_folder(node: str, task: int, attempt: int) -> str:
    """The name of a task's folder in that of a checkpoint."""
    return f"{plain(node)}.{task}.{attempt}"


def checkpoints_among(names: list[str]) -> list[int]:
    """The checkpoints whose folders are among `names`, rising."""
    return sorted(int(name) for name in names if len(name) == 20 and name.isdecimal())


def shared_name(content: str, n_bytes: int, crc32c: int) -> str:
    """The name of an immutable file; it says what is in it."""
    return f"{plain(content)}-{n_bytes}-{crc32c:08x}"


def parse_shared(name: str) -> tuple[str, int, int] | None:
    """The plain content, bytes and checksum of a name that `shared_name` made.

    >>> parse_shared(shared_name("db1-000012", 5, 7))
    ('db1-000012', 5, 7)
    """
    found = _SHARED.fullmatch(name)
    return (found[1], int(found[2]), int(found[3], 16)) if found else None
