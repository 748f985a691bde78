"""The house rules that no linter holds: sizes, folders, purity, what may not be imported where."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOP = {
    ".ci", ".gitignore", ".pre-commit-config.yaml", "ARCHITECTURE.md", "CHANGELOG.md",
    "CMakeLists.txt", "LICENSE", "Makefile", "README.md", "SECURITY.md", "bench", "clients",
    "coordinator", "docs", "examples", "fabric", "pyproject.toml", "requirements", "tests",
}  # fmt: skip
CODE = {".py", ".pyi", ".pyx", ".pxd", ".hpp", ".cpp", ".h", ".rs"}
# invariant 9: protocol cores take time, randomness and transport as arguments.
PURE = (
    "coordinator/core/",
    "coordinator/planner/",
    "coordinator/optimizer/",
    "fabric/agent/core.py",
    "fabric/plan/",
)
IMPURE = {
    "time",
    "random",
    "uuid",
    "os",
    "socket",
    "threading",
    "asyncio",
    "secrets",
    "subprocess",
    "datetime.now",
}
SHIPPED = ("fabric/", "coordinator/", "clients/")
# Functions a user sends are loaded in one place only, after their MAC was checked.
UNPICKLERS = {"pickle", "cloudpickle", "marshal", "shelve", "dill"}


@cache
def tracked() -> tuple[Path, ...]:
    """Files git knows or would add, generated code left out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (ROOT / name for name in names.splitlines() if "_pb2" not in name)
    return tuple(p for p in paths if p.is_file() and not p.is_symlink())


def code() -> list[Path]:
    """Source files, by their path from the root."""
    return [p for p in tracked() if p.suffix in CODE]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_top_level_is_as_designed() -> None:
    assert {name_of(p).split("/")[0] for p in tracked()} <= TOP


@pytest.mark.parametrize("path", code(), ids=name_of)
def test_file_and_line_sizes(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 500, f"{name_of(path)} has {len(lines)} lines; split it"
    long = [n for n, line in enumerate(lines, 1) if len(line) > 100]
    assert not long, f"{name_of(path)}: lines over 100 characters: {long[:5]}"


@pytest.mark.parametrize("path", [p for p in code() if p.suffix == ".py"], ids=name_of)
def test_function_sizes(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            assert size <= 70, f"{name_of(path)}: {node.name} has {size} lines; split it"


CIMPORT = re.compile(r"^from (\S+) cimport (.+?)$(?<!\($)|^from (\S+) cimport \(([^)]*)\)", re.M)


@cache
def cimported() -> set[str]:
    """All modules that a compiled module imports from another one at the level of C."""
    found = set[str]()
    for path in code():
        if path.suffix in (".pyx", ".pxd"):
            for one, names, other, more in CIMPORT.findall(path.read_text()):
                parts = re.findall(r"\w+", names or more)
                found |= {one or other, *(f"{one or other}.{part}" for part in parts)}
    return found


@pytest.mark.parametrize("path", [p for p in code() if p.suffix == ".pyx"], ids=name_of)
def test_compiled_modules_have_the_files_they_need(path: Path) -> None:
    """A .pyi for type checkers; a .pxd only where other modules import from it."""
    assert path.with_suffix(".pyi").exists()
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert path.with_suffix(".pxd").exists() == (module in cimported())


def imported(text: str) -> set[str]:
    """All that a source imports, each by its full name and those of the packages it lies in."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            found |= {".".join(parts[: n + 1]) for n in range(len(parts))}
    return found


def imports(path: Path) -> set[str]:
    """First names of everything a file imports."""
    return {name for name in imported(path.read_text()) if "." not in name}


def pure() -> list[Path]:
    """Modules that may not touch the world."""
    return [p for p in code() if name_of(p).startswith(PURE) and p.suffix == ".py"]


@pytest.mark.parametrize("path", pure(), ids=name_of)
def test_cores_are_pure(path: Path) -> None:
    assert not imports(path) & IMPURE


def test_what_is_shipped_needs_nothing_of_our_tests() -> None:
    """Nor of a test framework: `fabric.testing` is for users, who may have another one."""
    shipped = [p for p in code() if p.suffix in {".py", ".pyi"} and name_of(p).startswith(SHIPPED)]
    public = [p for p in shipped if name_of(p).startswith("fabric/testing/")]
    assert len(public) > 1
    assert [name_of(p) for p in shipped if imports(p) & {"tests", "bench"}] == []
    assert [name_of(p) for p in public if imports(p) & {"hypothesis", "duckdb", "pytest"}] == []
    rest = set(shipped) - set(public)
    assert [name_of(p) for p in rest if "fabric.testing" in imported(p.read_text())] == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from tests.support.wait import wait_until", "tests"),
        ("import tests.support", "tests"),
        ("from fabric import testing", "fabric.testing"),
        ("from fabric.testing.clock import ManualClock", "fabric.testing"),
    ],
)
def test_a_planted_import_is_found(line: str, name: str) -> None:
    assert name in imported(f"def f():\n    {line}\n")


def test_nothing_unpickles() -> None:
    """One module loads pickles, after a check, and one makes them (SECURITY.md)."""
    ours = [
        p for p in code() if p.suffix == ".py" and not name_of(p).startswith(("tests/", "bench/"))
    ]
    found = [name_of(p) for p in ours if imports(p) & UNPICKLERS]
    assert sorted(found) == [
        "clients/dataframe/expressions/udf.py",
        "fabric/operators/functions/trust.py",
    ]
    assert ".loads(" not in (ROOT / "clients/dataframe/expressions/udf.py").read_text()


def test_no_silent_excepts() -> None:
    silent = re.compile(r"except(?: (?:Base)?Exception)?:\s*(?:#[^\n]*)?\n?\s*pass\b")
    assert [name_of(p) for p in code() if silent.search(p.read_text())] == []


def test_documents_are_there_and_short() -> None:
    for name, most in (
        ("README.md", 200),
        ("ARCHITECTURE.md", 150),
        ("CHANGELOG.md", 400),
        ("SECURITY.md", 160),
        ("docs/coming_from.md", 400),
    ):
        assert 10 < len((ROOT / name).read_text().splitlines()) <= most, name


def test_lock_files_hold_hashes_and_no_addresses() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.lock")):
        text = lock.read_text()
        assert text.count("--hash=sha256:") >= text.count("==")
        assert "://" not in text


def test_generated_protobuf_is_current(tmp_path: Path) -> None:
    """Committed _pb2 modules are what their .proto files generate."""
    from grpc_tools import protoc

    for proto in sorted(ROOT.glob("fabric/*/*.proto")):
        assert protoc.main(["", f"-I{ROOT}", f"--python_out={tmp_path}", name_of(proto)]) == 0
        made = tmp_path / name_of(proto).replace(".proto", "_pb2.py")
        assert made.read_text() == (ROOT / made.relative_to(tmp_path)).read_text(), name_of(proto)
