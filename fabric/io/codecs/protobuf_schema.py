"""Protobuf messages by name, from the text of a .proto file or from compiled files.

One job: `file_of` and the messages of a file. A text is compiled by `protoc` of the package
grpcio-tools in a separate process (the text may come from a registry, and its errors must be
reported); compiled files need only the protobuf package. `protobuf_arrow` maps messages to columns.
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
        A .proto file, or a FileDescriptorSet in base64 whose last file is the one wanted
        (``protoc --include_imports --descriptor_set_out=…``).
    needed
        The files that it imports, as pairs of name and text; Google's well-known files are built
        in.
    Raises
    ------
    DataError
        If the text is neither, with the compiler's message.
    ConfigError
        If a text needs to be compiled and grpcio-tools is not installed.
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
        raise DataError(f"the Protobuf files are inconsistent: {error}") from error


def message_of(file: FileDescriptor, name: str) -> Descriptor:
    """A message of a file by its full or short name; the first message without a name.

    Raises
    ------
    PlanError
        If no message has the name, or several have.
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
        raise PlanError(
            f"Protobuf message {name!r} does not name one message of the file; it has {names}"
        )
    return found[0]


def is_compiled(text: str) -> bool:
    """Whether `text` is compiled files in base64, not the text of a .proto file."""
    return _compiled(text) is not None


def indexes_of(message: Descriptor) -> tuple[int, ...]:
    """The indexes of a message: its position among the messages of each nesting level."""
    found: list[int] = []
    outer = message.containing_type
    while outer is not None:
        found.insert(0, [one.name for one in outer.nested_types].index(message.name))
        message, outer = outer, outer.containing_type
    return (list(message.file.message_types_by_name).index(message.name), *found)


def message_at(file: FileDescriptor, indexes: tuple[int, ...]) -> Descriptor:
    """The message with these indexes; raises `DataError` if it does not exist."""
    level: list[Descriptor] = list(file.message_types_by_name.values())
    found: Descriptor | None = None
    for index in indexes:
        if not 0 <= index < len(level):
            raise DataError(f"the schema has no message with the indexes {list(indexes)}")
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
    """The files, each after its imports; well-known ones come from the protobuf package."""
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
        raise DataError(f"the imported Protobuf file {name!r} does not exist")
    made = FileDescriptorProto()
    found.CopyToProto(made)
    return made


def _protoc(text: str, needed: tuple[tuple[str, str], ...]) -> FileDescriptorSet:
    if find_spec("grpc_tools") is None:
        raise ConfigError(
            "compiling a .proto text needs the package grpcio-tools, which is not installed; run: "
            "pip install 'flight-fabric[kafka]', or give a compiled FileDescriptorSet in base64"
        )
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (*needed, (MAIN, text)):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise DataError(f"the file name {name!r} is not allowed for a Protobuf import")
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
            raise DataError(
                f"compiling the .proto text took longer than {COMPILE_S_MAX:g} s"
            ) from None
        if ran.returncode != 0:
            told = [line for line in ran.stderr.splitlines() if not line.startswith("W")]
            raise DataError(f"the .proto text is invalid: {'; '.join(told)[:1000]}")
        return FileDescriptorSet.FromString(made.read_bytes())
