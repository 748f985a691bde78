"""Messages of Protobuf by their names: from the text of a .proto file, or from compiled ones.

One job: `file_of` and the messages in one. A text is compiled by `protoc` of the package
grpcio-tools in a process of its own (it may come from a registry, and its errors are ours to tell);
compiled files need nothing but the protobuf package. What a message means as columns is
`protobuf_arrow`'s.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from fabric.errors import ConfigError, DataError, PlanError

MAIN = "schema.proto"
COMPILE_S_MAX = 30.0


@lru_cache(maxsize=256)
def file_of(text: str, needed: tuple[tuple[str, str], ...] = ()) -> FileDescriptor:
    """The file that `text` declares.

    Parameters
    ----------
    text
        A .proto file, or a FileDescriptorSet in base64 whose last file is the one
        (``protoc --include_imports --descriptor_set_out=…``).
    needed
        Files that it imports, as pairs of a name and a text; Google's well-known ones are known.
    Raises
    ------
    DataError
        If it is neither, with the compiler's words.
    ConfigError
        If a text is to be compiled and grpcio-tools is not installed.
    Examples
    --------
    >>> file = file_of('syntax = "proto3"; message Click { int64 user = 1; }')
    >>> list(file.message_types_by_name)
    ['Click']
    """
    compiled = _compiled(text)
    files = _files(compiled if compiled is not None else _protoc(text, needed))
    pool = DescriptorPool()
    try:
        for one in files:
            pool.Add(one)
        return pool.FindFileByName(files[-1].name)
    except (TypeError, KeyError, ValueError) as error:
        raise DataError(f"the files of Protobuf do not go together: {error}") from error


def message_of(file: FileDescriptor, name: str) -> Descriptor:
    """A message of a file by its full or short name; the first one without a name.

    Raises
    ------
    PlanError
        If there is none of that name, or several.
    Examples
    --------
    >>> file = file_of('syntax = "proto3"; package p; message A { message B {} }')
    >>> message_of(file, "").full_name, message_of(file, "B").full_name
    ('p.A', 'p.A.B')
    """
    messages = list(_all(file.message_types_by_name.values()))
    if not name and messages:
        return messages[0]
    exact = [one for one in messages if one.full_name == name]
    found = exact or [one for one in messages if one.full_name.endswith(f".{name}")]
    if len(found) != 1:
        names = ", ".join(one.full_name for one in (found or messages)[:10]) or "no message"
        raise PlanError(f"Protobuf message {name!r} is not one of the file's: {names}")
    return found[0]


def is_compiled(text: str) -> bool:
    """Whether it is compiled files in base64, not the text of a .proto file."""
    return _compiled(text) is not None


def indexes_of(message: Descriptor) -> tuple[int, ...]:
    """Where a message lies in its file: its place among those of each level."""
    found: list[int] = []
    outer = message.containing_type
    while outer is not None:
        found.insert(0, [one.name for one in outer.nested_types].index(message.name))
        message, outer = outer, outer.containing_type
    return (list(message.file.message_types_by_name).index(message.name), *found)


def message_at(file: FileDescriptor, indexes: tuple[int, ...]) -> Descriptor:
    """The message at these places; raises `DataError` where there is none."""
    level: list[Descriptor] = list(file.message_types_by_name.values())
    found: Descriptor | None = None
    for index in indexes:
        if not 0 <= index < len(level):
            raise DataError(f"the schema has no message at {list(indexes)}")
        found = level[index]
        level = list(found.nested_types)
    assert found is not None
    return found


def _all(messages: Iterable[Descriptor]) -> Iterable[Descriptor]:
    for one in messages:
        yield one
        yield from _all(one.nested_types)


def _compiled(text: str) -> FileDescriptorSet | None:
    """A FileDescriptorSet, or one file, in base64; None for the text of a .proto file."""
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    with suppress(DecodeError):
        found = FileDescriptorSet.FromString(raw)
        if found.file and all(one.name for one in found.file):
            return found
    with suppress(DecodeError):
        alone = FileDescriptorProto.FromString(raw)
        if alone.name:
            return FileDescriptorSet(file=[alone])
    return None


def _files(found: FileDescriptorSet) -> list[FileDescriptorProto]:
    """The files, each after those that it imports; well-known ones from the protobuf package."""
    by_name = {one.name: one for one in found.file}
    ordered: dict[str, FileDescriptorProto] = {}

    def add(name: str, outer: tuple[str, ...]) -> None:
        if name in ordered:
            return
        if name in outer:
            raise DataError(f"the Protobuf file {name!r} imports itself")
        one = by_name.get(name) or _well_known(name)
        for inner in one.dependency:
            add(inner, (*outer, name))
        ordered[name] = one

    main = found.file[-1].name
    add(main, ())
    ordered[main] = ordered.pop(main)
    return list(ordered.values())


def _well_known(name: str) -> FileDescriptorProto:
    from google.protobuf import (  # noqa: F401  known to the default pool once imported
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.protobuf.descriptor_pool import Default

    try:
        found = Default().FindFileByName(name) if name.startswith("google/protobuf/") else None
    except KeyError:
        found = None
    if found is None:
        raise DataError(f"the Protobuf file {name!r} is imported and not there")
    made = FileDescriptorProto()
    found.CopyToProto(made)
    return made


def _protoc(text: str, needed: tuple[tuple[str, str], ...]) -> FileDescriptorSet:
    if find_spec("grpc_tools") is None:
        raise ConfigError(
            "a .proto text is compiled by grpcio-tools: pip install 'flight-fabric[kafka]', or "
            "give a compiled FileDescriptorSet in base64"
        )
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (*needed, (MAIN, text)):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise DataError(f"a Protobuf file may not be called {name!r}")
            place = Path(folder, "in", *path.parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(source)
        made = Path(folder, "out")
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--include_imports"]
        try:
            ran = subprocess.run(
                [*command, f"--descriptor_set_out={made}", MAIN],
                cwd=Path(folder, "in"), capture_output=True, text=True, check=False,
                timeout=COMPILE_S_MAX,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise DataError("the .proto text was not compiled in time") from None
        if ran.returncode != 0:
            told = [line for line in ran.stderr.splitlines() if not line.startswith("W")]
            raise DataError(f"the .proto text is wrong: {'; '.join(told)[:1000]}")
        return FileDescriptorSet.FromString(made.read_bytes())
