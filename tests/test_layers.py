"""Who may import whom below `fabric/_cython`, where import-linter does not look: .pyx, .pxd, C++.

The layers are those of pyproject.toml; the rooms of the native code have an order of their own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "fabric" / "_cython"
FOLDERS = (NATIVE, NATIVE / "kernels", NATIVE / "shuffle")  # where #include looks
# Bottom to top; files right in `shuffle` (pool, partitioner, groups) are the room "shuffle".
ROOMS = (
    "kernels", "codecs", "kafka", "wire", "shuffle", "store", "ring", "pump", "grpc",
    "flight", "datasets", "exchange",
)  # fmt: skip

IMPORT = re.compile(r"^[ \t]*(?:c?import|from)[ \t]+([.\w]+.*)", re.M)
INCLUDE = re.compile(r'^\s*(?:#include|cdef extern from) "([^"]+)"', re.M)


def layers() -> list[set[str]]:
    """The layers of pyproject.toml, top to bottom."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rows = next(c["layers"] for c in contracts["contracts"] if c["type"] == "layers")
    return [{name.strip() for name in row.split("|")} for row in rows]


def level(module: str) -> int | None:
    """How far down `module` lies, 0 at the top; None where no layer names it."""
    found = [
        (len(name), depth)
        for depth, row in enumerate(layers())
        for name in row
        if module == name or module.startswith(f"{name}.")
    ]
    return max(found)[1] if found else None


def upward_imports(module: str, text: str) -> list[str]:
    """What `text`, the source of `module`, imports from a layer above its own."""
    own = level(module)
    assert own is not None, f"no layer names {module}"
    named = [name for line in IMPORT.findall(text) for name in imported(line)]
    return [
        name
        for name in named
        if name.startswith(".") or ((depth := level(name)) is not None and depth < own)
    ]


def imported(line: str) -> Iterator[str]:
    """Full names that the rest of a line behind ``import`` or ``from`` brings.

    >>> list(imported("fabric import errors, agent as a  # late"))
    ['fabric.errors', 'fabric.agent']
    >>> list(imported("fabric.io, os.path")), list(imported(".wire cimport x"))
    (['fabric.io', 'os.path'], ['.wire.x'])
    """
    line = line.partition("#")[0]
    package, found, names = re.sub(r"[()]", " ", line).partition("import ")
    package = package.removesuffix("c").strip() if found else ""
    for name in (names if found else line).split(","):
        if words := name.split():
            yield f"{package}.{words[0]}" if package else words[0]


def room_of(path: Path) -> str:
    """The room of a native file: the innermost folder that is one."""
    return next(part for part in reversed(path.parent.relative_to(NATIVE).parts) if part in ROOMS)


def included(path: Path, text: str) -> Iterator[Path]:
    """Files of ours that `text` includes."""
    for name in INCLUDE.findall(text):
        places = (folder / name for folder in (path.parent, *FOLDERS))
        if found := next((place for place in places if place.is_file()), None):
            yield found


def upward_includes(path: Path, text: str) -> list[str]:
    """What `text`, the native file at `path`, includes from a room above its own."""
    own = ROOMS.index(room_of(path))
    return [
        found.relative_to(NATIVE).as_posix()
        for found in included(path, text)
        if ROOMS.index(room_of(found)) > own
    ]


def native(*suffixes: str) -> list[Path]:
    """Files of ours with these suffixes, packages' own left out."""
    found = (p for suffix in suffixes for p in NATIVE.rglob(f"*{suffix}"))
    return sorted(p for p in found if p.stem != "__init__")


def name_of(path: Path) -> str:
    return path.relative_to(NATIVE).as_posix()


@pytest.mark.parametrize("path", native(".pyx", ".pxd"), ids=name_of)
def test_no_import_of_a_face_runs_up(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert upward_imports(module, path.read_text()) == []


@pytest.mark.parametrize("path", native(".hpp", ".cpp", ".pyx", ".pxd"), ids=name_of)
def test_no_include_runs_up(path: Path) -> None:
    assert upward_includes(path, path.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "    from fabric.flight.errors import told  # late",
        "from fabric.flight cimport ticket",
        "import fabric.io.files",
        "from fabric import agent",
        "import fabric.errors, fabric.agent",
        "from ....flight import errors",
        "from fabric import errors, agent",
    ],
)
def test_a_planted_import_is_found(line: str) -> None:
    text = f"from fabric.errors import DataError\n\n\ndef f():\n{line}\n"
    assert len(upward_imports("fabric._cython.shuffle.wire.faults", text)) == 1


def test_a_planted_include_is_found() -> None:
    text = '#include "take.hpp"\n#include "wire/fault.hpp"\n'
    found = upward_includes(NATIVE / "kernels" / "take.cpp", text)
    assert found == ["shuffle/wire/fault.hpp"]
