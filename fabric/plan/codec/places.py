"""Sources and targets as protobuf and back.

One job: both directions for `fabric.plan.sources`. Choices (format, mode) are checked on the way
in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from fabric.plan import plan_pb2 as pb
from fabric.plan.sources import (
    DatasetMode,
    DatasetSource,
    DatasetTarget,
    FileFormat,
    FileMode,
    FileSource,
    FileTarget,
    FlightSource,
    FlightTarget,
    GateTarget,
    MemorySource,
    Source,
    Target,
)

Options = tuple[tuple[str, str], ...]


def choice(value: str, choices: Any, what: str) -> Any:
    """Return `value` when the Literal type `choices` has it, else raise `ValueError`."""
    if value not in get_args(choices):
        raise ValueError(f"{what} {value[:40]!r} is none of {', '.join(get_args(choices))}")
    return value


def _options(options: Options) -> list[pb.Option]:
    return [pb.Option(name=name, value=value) for name, value in options]


def _read_options(options: Iterable[pb.Option]) -> Options:
    return tuple((option.name, option.value) for option in options)


def write_source(source: Source) -> pb.Source:
    """`source` as protobuf."""
    match source:
        case FileSource(format=format, paths=paths, options=options):
            file = pb.FileSource(format=format, paths=paths, options=_options(options))
            return pb.Source(file=file)
        case MemorySource(token=token, n_rows=n_rows):
            return pb.Source(memory=pb.MemorySource(token=token, n_rows=n_rows))
        case DatasetSource(name=name, version=version):
            return pb.Source(dataset=pb.DatasetSource(name=name, version=version))
        case FlightSource(uri=uri, path=path, command=command, token=token):
            flight = pb.FlightSource(uri=uri, path=path, command=command, token=token)
            return pb.Source(flight=flight)


def read_source(message: pb.Source) -> Source:
    """The source in `message`."""
    match message.WhichOneof("kind"):
        case "file":
            file = message.file
            format = choice(file.format, FileFormat, "format")
            return FileSource(format, tuple(file.paths), _read_options(file.options))
        case "memory":
            return MemorySource(message.memory.token, message.memory.n_rows)
        case "dataset":
            return DatasetSource(message.dataset.name, message.dataset.version)
        case "flight":
            flight = message.flight
            return FlightSource(flight.uri, tuple(flight.path), flight.command, flight.token)
    raise ValueError("a scan without a source")


def write_target(target: Target) -> pb.Target:
    """`target` as protobuf."""
    match target:
        case FileTarget(format=format, path=path, single=single, mode=mode, options=options):
            return pb.Target(
                file=pb.FileTarget(
                    format=format, path=path, single=single, mode=mode, options=_options(options)
                )
            )
        case DatasetTarget(name, keys, n_partitions, mode, replicas):
            return pb.Target(
                dataset=pb.DatasetTarget(
                    name=name, keys=keys, n_partitions=n_partitions, mode=mode, replicas=replicas
                )
            )
        case FlightTarget(uri=uri, path=path, token=token):
            return pb.Target(flight=pb.FlightTarget(uri=uri, path=path, token=token))
        case GateTarget(name=name):
            return pb.Target(gate=pb.GateTarget(name=name))


def read_target(message: pb.Target) -> Target:
    """The target in `message`."""
    match message.WhichOneof("kind"):
        case "file":
            file = message.file
            format = choice(file.format, FileFormat, "format")
            mode = choice(file.mode, FileMode, "mode")
            return FileTarget(format, file.path, file.single, mode, _read_options(file.options))
        case "dataset":
            data = message.dataset
            mode = choice(data.mode, DatasetMode, "mode")
            keys = tuple(data.keys)
            return DatasetTarget(data.name, keys, data.n_partitions, mode, data.replicas)
        case "flight":
            flight = message.flight
            return FlightTarget(flight.uri, tuple(flight.path), flight.token)
        case "gate":
            return GateTarget(message.gate.name)
    raise ValueError("a sink without a target")
