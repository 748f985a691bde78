"""Where plans may not reach: the fabric's own files, and all but what its settings allow.

One job: `Places`, which say so of a path or host, and `guarding`, which has every source and sink
of this process ask them: when a plan is accepted, whenever a file is opened, and before anything is
written or removed. What counts is where a path leads, so links change nothing, not even hard ones:
the fabric's secrets are known by their places on the disk. A process that guards nothing (a client,
a Spark worker) reads and writes as its user may.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from fabric.errors import PlanError
from fabric.object_urls import ObjectUrl, is_object_url, split_url
from fabric.plan_rules import PlanRules, place_of

_SYSTEM = ("/proc", "/sys")
"""Not files of anybody: environments of processes, secrets in them, switches of the system."""


Identity = tuple[int, int]
"""Device and inode: where a file or folder lies on its disk."""


class Found(NamedTuple):
    """What lies at a path: where it leads through all links, its identity (none: it is not there
    yet), and with it those of all folders above."""

    real: str
    itself: frozenset[Identity]
    identities: frozenset[Identity]


class Places:
    """What is the fabric's own here, and what `rules` allow.

    `own` are folders and files that no plan touches, `secrets` files that are refused under any
    name; both may be made later.
    """

    def __init__(
        self, rules: PlanRules, own: Sequence[Path] = (), secrets: Iterable[Path] = ()
    ) -> None:
        self.rules, given = rules, [*secrets, *_SYSTEM]
        given += [each for each in own if not is_object_url(each)]
        self._own_urls = tuple(str(ObjectUrl.of(each)) for each in own if is_object_url(each))
        self._own = tuple(os.path.realpath(str(path)) for path in given)
        self._around = tuple({above for path in self._own for above in _upwards(path)})
        self._allowed = tuple(os.path.realpath(str(one)) for one in rules.allowed_folders)
        self._identified: tuple[int, set[Identity]] = (-1, set())

    def check_read(self, path: str, found: Found) -> None:
        """Refuse to read what was `found` at a path, or to list it, see `check_read` below."""
        self._check_own(path, found)
        if self._allowed and not any(_is_in(found.real, folder) for folder in self._allowed):
            raise self._elsewhere(path, "plans read files in")

    def check_write(self, path: str, found: Found) -> None:
        """Refuse to write or remove what was `found`, or beside it, see `check_write` below."""
        self._check_own(path, found)
        around = _identities(self._around)
        if any(_is_in(own, found.real) for own in self._own) or found.itself & around:
            raise PlanError(
                f"plans may not write {path}: the fabric's own files lie in it; write to a folder "
                "in it"
            )
        below = (found.real != one and _is_in(found.real, one) for one in self._allowed)
        if self._allowed and not any(below):
            raise self._elsewhere(path, "plans write files and folders in")

    def check_object(self, url: str, *, writes: bool = False) -> None:
        """Refuse to read an object or those below a URL, or to write there."""
        for own in self._own_urls:
            if _is_in(url, own) or (writes and _is_in(own, url)):
                raise PlanError(
                    f"plans may not touch {url}: the fabric's checkpoints lie in {own}; name a "
                    "place of your own"
                )
        self.check_url(url)

    def check_url(self, url: str) -> None:
        """Refuse any place in an object store where plans are held to folders."""
        if self.rules.allowed_folders:
            raise PlanError(
                f"plans may not touch {url}: by this fabric's settings they read and write in "
                f"{os.pathsep.join(map(str, self.rules.allowed_folders))} ([plans] "
                "allowed_folders)"
            )

    def check_host(self, uri: str) -> None:
        """Refuse to call a Flight server, see `check_host` below."""
        place = place_of(uri)
        if not self.rules.allowed_hosts or (place and self.rules.allows_host(place)):
            return
        raise PlanError(
            f"plans may not call {place or uri}: this fabric's settings allow "
            f"{', '.join(self.rules.allowed_hosts)} ([plans] allowed_hosts); a host is compared as "
            "it is written, a name is not looked up"
        )

    def _elsewhere(self, path: str, may: str) -> PlanError:
        allowed = os.pathsep.join(map(str, self.rules.allowed_folders))
        return PlanError(
            f"plans may not touch {path}: by this fabric's settings {may} {allowed} ([plans] "
            "allowed_folders); links count as what they lead to"
        )

    def _check_own(self, path: str, found: Found) -> None:
        # By a hard link, or mounted a second time, it has another path and is the same.
        own = found.identities & self._own_now()
        if own:  # what was the fabric's a moment ago may be gone, and another's in its place
            own = found.identities & _identities(self._own)
        if own or any(_is_in(found.real, one) for one in self._own):
            raise PlanError(
                f"plans may not touch {path}: it belongs to the fabric itself or to the system; "
                "name a file of your own"
            )

    def _own_now(self) -> set[Identity]:
        second, found = self._identified
        if second != _second():
            second, found = self._identified = _second(), _identities(self._own)
        return found


def of_fabric(
    home: Path, rules: PlanRules, *, own: Iterable[Path] = (), secrets: Iterable[Path] = ()
) -> Places:
    """Those of a fabric with this home folder, whose settings are a secret, too: of a database."""
    named = os.environ.get("FABRIC_CONFIG")
    known = [home / name for name in ("secret", "token", "fabric.toml")]
    return Places(rules, [home, *own], [*known, *secrets, *([Path(named)] if named else [])])


_guarding: list[Places] = []


@contextmanager
def guarding(places: Places) -> Iterator[None]:
    """Until the end of the block all sources and sinks of this process ask `places`, too."""
    _guarding.append(places)
    try:
        yield
    finally:
        _guarding[:] = [one for one in _guarding if one is not places]


def are_guarded() -> bool:
    """Whether this process works for others, who may do less than it may."""
    return bool(_guarding)


def check_read(path: str | os.PathLike[str]) -> None:
    """Refuse a file or folder that plans may not read.

    Raises
    ------
    PlanError
        It is the fabric's own, it is not in a folder that is allowed, or this is no absolute path.
    """
    if _guarding:
        text = os.fspath(path)
        found = _found(text)
        for places in [*_guarding]:
            places.check_read(text, found)


def check_write(path: str | os.PathLike[str]) -> None:
    """Refuse a file or folder that plans may not write, replace or remove; see `check_read`."""
    if _guarding:
        text = os.fspath(path)
        found = _found(text, anew=True)
        for places in [*_guarding]:
            places.check_write(text, found)


def check_input(path: str) -> None:
    """`check_read` of a path or of the URL of an object, for sources that read both."""
    if not is_object_url(path):
        check_read(path)
    elif _guarding:
        root, key = split_url(path)
        for places in [*_guarding]:
            places.check_object(f"{root}/{key}")


def check_output(path: str) -> None:
    """`check_write` of a path or of the URL of an object, for sinks that write both."""
    if not is_object_url(path):
        check_write(path)
    elif _guarding:
        root, key = split_url(path)
        for places in [*_guarding]:
            places.check_object(f"{root}/{key}", writes=True)


def check_url(url: str, own: str = "") -> None:
    """Refuse a place in an object store where plans are held to folders; not the fabric's `own`."""
    for places in [*_guarding]:
        if url != own:
            places.check_url(url)


def may_write(path: str) -> bool:
    """Whether `check_output` takes it."""
    try:
        check_output(path)
    except PlanError:
        return False
    return True


def check_opened(descriptor: int) -> None:
    """`check_read` of a file that is open: its name may lead elsewhere than a moment ago."""
    if not _guarding:
        return
    link = f"/proc/self/fd/{descriptor}"
    path = os.readlink(link)
    itself = frozenset(_identities([link]))
    found = Found(path, itself, itself | _folder(os.path.dirname(path), _second())[1])
    for places in [*_guarding]:
        places.check_read(path, found)


def check_unmoved(path: str | os.PathLike[str]) -> None:
    """`check_write` of a path without links: one that came since it was found is refused."""
    if _guarding and os.path.realpath(path) != os.fspath(path):
        raise PlanError(
            f"{path} was replaced by a link while the job ran; nothing is written there"
        )
    check_write(path)


def check_host(uri: str) -> None:
    """Refuse the address of a Flight server that plans may not call; raises `PlanError`."""
    for places in [*_guarding]:
        places.check_host(uri)


def check_functions(names: Iterable[str]) -> None:
    """Refuse Python functions where plans may have none; raises `PlanError`."""
    if all(places.rules.allow_functions for places in _guarding):
        return
    for name in names:
        raise PlanError(
            f"the function {name} is refused: by this fabric's settings plans have no Python "
            "functions ([plans] allow_functions); write it with expressions"
        )


def _found(path: str, *, anew: bool = False) -> Found:
    """Where a path leads; what is no absolute path may mean one thing here and another there."""
    if not path.startswith("/") or "\0" in path:
        raise PlanError(
            f"plans name files by absolute paths, not {path[:200]!r}: no URL, no ~, nothing "
            "relative"
        )
    folder, name = os.path.split(path)
    if name in ("", ".", "..") or os.path.islink(path):
        folder, name = os.path.split(os.path.realpath(path))
    beyond, above = _folder.__wrapped__(folder, 0) if anew else _folder(folder, _second())
    real = os.path.join(beyond, name)
    itself = frozenset(_identities([real]))
    return Found(real, itself, itself | above)


@lru_cache(maxsize=1024)
def _folder(folder: str, second: int) -> tuple[str, frozenset[Identity]]:
    """Where a folder leads, and the identities of that and of all above; looked up each `second`.

    So reading many files costs little more; `check_opened` sees a link that came meanwhile.
    """
    real = os.path.realpath(folder)
    return real, frozenset(_identities(_upwards(real)))


def _second() -> int:
    return int(time.monotonic())


def _upwards(path: str) -> list[str]:
    """A path and the folders that it is in."""
    found = [path]
    while (above := os.path.dirname(found[-1])) != found[-1]:
        found.append(above)
    return found


def _is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it; both lead through no link."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _identities(paths: Sequence[str]) -> set[Identity]:
    """Where files and folders lie on their disks; what is not there is left out."""
    found = set()
    for path in paths:
        try:
            facts = os.stat(path)
        except OSError:
            continue
        found.add((facts.st_dev, facts.st_ino))
    return found
