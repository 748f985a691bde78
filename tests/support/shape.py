"""The shape of the source code in figures, of the working tree or of a commit.

    python -m tests.support.shape            what it is
    python -m tests.support.shape 20b8914    before, and what it is

One job: what tells how hard the code is to pick up: how many files one new thing touches, how the
lines are spread over files, circles of imports, arguments without a type. Sources are `fabric`,
`clients` and `coordinator`, without generated files and `fabric/testing`.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("fabric", "clients", "coordinator")
CODE = {".py", ".pyi", ".pyx", ".pxd", ".hpp", ".cpp", ".h", ".rs", ".proto"}
LONG = 400
NOUNS = frozenset({
    "ring", "encoding", "hashing", "scheduling", "string", "spring", "seed", "need", "feed",
    "speed", "bed", "embed", "thing", "king", "ping", "setting", "settings",
})  # fmt: skip
"""Modules that end like participles, but are not, and nouns of the field."""
BY_NAME, OWN_FORM = "lpad", "ltrim"
"""Scalar functions that are a method and a function of the client: Spark has the first by name, the
second needs forms of its own on Arrow and on Spark. Counted are files that name them as a text, or
define, assign or import them: `sf.lpad` is another library's."""
VERB = "list_checkpoints", "ListCheckpoints"
CITATION = re.compile(
    r"\bdesign \d+\.\d|\bdesign §|[a-z]+ note\b.*§|\b[a-z]+ note, section|\bdocument \d|"
    r"\bcomponents (note|§)|\breliability §|\bfacts §"
)


class Sources:
    """All source files below a folder, by their path from there."""

    def __init__(self, root: Path, names: list[str]) -> None:
        self._root = root
        self.paths = [
            name
            for name in names
            if name.startswith(tuple(f"{room}/" for room in ROOMS))
            and PurePosixPath(name).suffix in CODE
            and "_pb2" not in name
            and not name.startswith("fabric/testing/")
            and (root / name).is_file()
            and not (root / name).is_symlink()
        ]

    @cached_property
    def texts(self) -> dict[str, str]:
        """What each holds."""
        return {name: (self._root / name).read_text() for name in self.paths}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Those in Python, parsed."""
        return {name: ast.parse(text) for name, text in self.texts.items() if name.endswith(".py")}

    def naming(self, *words: str) -> list[str]:
        """Files in which one of these words stands."""
        found = re.compile(r"\b(" + "|".join(map(re.escape, words)) + r")\b")
        return [name for name, text in self.texts.items() if found.search(text)]

    def naming_function(self, word: str) -> list[str]:
        """Files in Python in which it is a text, is defined, assigned or imported."""
        return [name for name, tree in self.trees.items()
                if any(_names(node, word) for node in ast.walk(tree))]  # fmt: skip


def _names(node: ast.AST, word: str) -> bool:
    match node:
        case ast.Constant(value=value):
            return bool(value == word)
        case ast.Name(id=name) | ast.alias(name=name):
            return name == word
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name == word
    return False


def n_code_lines(name: str, text: str) -> int:
    """Lines that hold more than comments and docstrings."""
    if not name.endswith(".py"):
        marks = ("//", "/*", "*", "#") if not name.endswith((".pyx", ".pxd", ".pyi")) else ("#",)
        return sum(bool(line.strip()) and not line.strip().startswith(marks)
                   for line in text.splitlines())  # fmt: skip
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
               tokenize.ENCODING, tokenize.ENDMARKER}  # fmt: skip
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def participles(sources: Sources) -> list[str]:
    """Modules and folders with names in -ed or -ing."""
    stems = {name: PurePosixPath(name).stem for name in sources.trees}
    return [
        name
        for name, stem in stems.items()
        if re.search(r"(ed|ing)$", stem) and stem.split("_")[-1] not in NOUNS
    ]


def late_imports(sources: Sources, below: str) -> list[str]:
    """Imports inside functions of modules in a folder that no comment explains."""
    found = []
    for name, tree in sources.trees.items():
        if name.startswith(below):
            lines = sources.texts[name].splitlines()
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    for node in ast.walk(function):
                        if isinstance(node, ast.Import | ast.ImportFrom):
                            own = lines[node.lineno - 1]
                            if "#" not in own and "#" not in lines[node.lineno - 2]:
                                found.append(f"{name}:{node.lineno}")
    return sorted(set(found))


def circles(sources: Sources) -> list[list[str]]:
    """Modules that import each other, late imports and those of type checkers included."""
    modules = {}
    for name in sources.trees:
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for room in ("clients", "coordinator"):
            if module.split(".")[0] == room:
                module = f"fabric.{module}"
        modules[module] = name
    edges = {
        module: {
            target
            for found in _imported(sources.trees[name], module, name.endswith("__init__.py"))
            if (target := _module(found, modules)) and target != module
        }
        for module, name in modules.items()
    }
    return [sorted(each) for each in _components(edges) if len(each) > 1]


def _imported(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: len(module.split(".")) - node.level + is_package]
            start = ".".join([*base, node.module or ""] if node.level else [node.module or ""])
            yield from (f"{start}.{each.name}" for each in node.names)


def _module(found: str, modules: dict[str, str]) -> str | None:
    while found and found not in modules:
        found = found.rpartition(".")[0]
    return found or None


def _components(edges: dict[str, set[str]]) -> Iterator[list[str]]:
    """Strongly connected components, by Tarjan's algorithm without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack = set[str]()
    for root in edges:
        if root in number:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(node: str, work: list[tuple[str, Iterator[str]]] = work) -> None:
            number[node] = low[node] = len(number)
            stack.append(node)
            on_stack.add(node)
            work.append((node, iter(sorted(edges[node]))))

        enter(root)
        while work:
            node, ahead = work[-1]
            for each in ahead:
                if each not in number:
                    enter(each)
                    break
                if each in on_stack:
                    low[node] = min(low[node], number[each])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    at = stack.index(node)
                    yield stack[at:]
                    on_stack.difference_update(stack[at:])
                    del stack[at:]


def any_arguments(sources: Sources) -> list[str]:
    """Arguments of public functions of the client that may be anything."""
    found = []
    for name, tree in sources.trees.items():
        if name.startswith("clients/"):
            aliases = {"Any", "object"} | _aliases(tree)
            for node in _functions(tree):
                if node.name[0] != "_":
                    every = node.args
                    args = [*every.posonlyargs, *every.args, *every.kwonlyargs]
                    args += [arg for arg in (every.vararg, every.kwarg) if arg]
                    for arg in args:
                        if isinstance(arg.annotation, ast.Name) and arg.annotation.id in aliases:
                            found.append(f"{name}:{arg.lineno} {node.name}({arg.arg})")
    return found


def _functions(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods that others can call: none inside a function."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each
        elif isinstance(each, ast.ClassDef):
            yield from _functions(each)


def _aliases(tree: ast.Module) -> set[str]:
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name) and node.value.id in {"Any", "object"}
    }


def measures(sources: Sources) -> dict[str, int | float]:
    """Each figure by what it counts."""
    sizes = {name: text.count("\n") for name, text in sources.texts.items()}
    folders = {PurePosixPath(name).parent for name in sources.paths}
    in_circles = circles(sources)
    return {
        "source files": len(sizes),
        "lines of code": sum(n_code_lines(name, text) for name, text in sources.texts.items()),
        "median lines of a file": statistics.median(sizes.values()),
        "files of at most 60 lines": sum(size <= 60 for size in sizes.values()),
        f"files of more than {LONG} lines": sum(size > LONG for size in sizes.values()),
        "files that name TopN": len(sources.naming("TopN")),
        f"files that name {BY_NAME}": len(sources.naming_function(BY_NAME)),
        f"files that name {OWN_FORM}": len(sources.naming_function(OWN_FORM)),
        f"files that name {VERB[0]}": len(sources.naming(*VERB)),
        "modules in -ed or -ing": len(participles(sources)),
        "folders called streams": sum(folder.name == "streams" for folder in folders),
        "late imports in clients/dataframe without a comment": len(
            late_imports(sources, "clients/dataframe/")
        ),
        "circles of imports": len(in_circles),
        "modules in circles of imports": sum(map(len, in_circles)),
        "arguments of public functions of clients that are Any": len(any_arguments(sources)),
        "citations of documents that are not here": sum(
            len(CITATION.findall(text)) for text in sources.texts.values()
        ),
    }


def of_tree(root: Path = ROOT) -> Sources:
    """The working tree, with files that Git would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return Sources(root, done.stdout.splitlines())


def of_commit(commit: str, folder: Path) -> Sources:
    """A commit, unpacked into a folder."""
    command = ["git", "archive", commit, *ROOMS]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Sources(folder, [p.relative_to(folder).as_posix() for p in folder.rglob("*")])


def main(commits: list[str]) -> None:
    """Print a table."""
    now = measures(of_tree())
    for commit in commits[:1]:
        with tempfile.TemporaryDirectory() as folder:
            before = measures(of_commit(commit, Path(folder)))
        print(f"{commit[:8]:>8}  {'now':>8}")
        for name, value in now.items():
            print(f"{before[name]:>8g}  {value:>8g}  {name}")
        return
    for name, value in now.items():
        print(f"{value:>8g}  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
