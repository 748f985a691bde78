"""Sources and targets as the calls that read and write them.

One job: text of `sources.py`, for `node_text.py`.
"""

from __future__ import annotations

from dataclasses import fields

from fabric.plan.faults import quoted
from fabric.plan.sources import (
    BlackholeTarget,
    DatasetSource,
    DatasetTarget,
    FileSource,
    FileTarget,
    FlightSource,
    FlightStream,
    FlightTarget,
    FollowedFiles,
    GateTarget,
    GeneratorStream,
    KafkaStream,
    KafkaTarget,
    LiveTarget,
    MemorySource,
    NexmarkStream,
    PostgresTarget,
    ReplayStream,
    RowFormat,
    Source,
    StreamFileTarget,
    StreamSource,
    Target,
)


def source_text(source: Source) -> str:
    """The call that reads `source`."""
    match source:
        case FileSource(format=format, paths=paths):
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            return f"read_{format}({quoted(paths[0]) if paths else ''}{more})"
        case MemorySource(n_rows=n_rows):
            return f"DataFrame({n_rows} rows)"
        case DatasetSource(name=name, version=version):
            return f"read_dataset({quoted(name)}{f', version={version}' if version else ''})"
        case FlightSource(uri=uri):
            return f"read_flight({quoted(uri)})"


def target_text(target: Target) -> str:
    """The method that writes `target`, without its dot."""
    match target:
        case FileTarget(format=format, path=path, mode=mode, partition_by=by, force=force):
            given = "" if mode == "error" else f", mode={quoted(mode)}"
            given += ", force=True" if force else ""
            listed = f", partition_by=[{', '.join(map(quoted, by))}]" if by else ""
            return f"write_{format}({quoted(path)}{listed}{given})"
        case DatasetTarget(name=name, keys=keys, mode="view"):
            return f"materialize({quoted(name)}, key=[{', '.join(map(quoted, keys))}])"
        case DatasetTarget(name=name, keys=keys, replicas=replicas):
            listed = f", keys=[{', '.join(map(quoted, keys))}]" if keys else ""
            copies = f", replicas={replicas}" if replicas else ""
            return f"write_dataset({quoted(name)}{listed}{copies})"
        case FlightTarget(uri=uri):
            return f"write_flight({quoted(uri)})"
        case GateTarget(name=name):
            return f"write_gate({quoted(name)})"
        case StreamFileTarget(format=format, path=path, mode=mode):
            append = ', mode="append"' if mode == "append" else ""
            return f"write_stream({quoted(path)}, format={quoted(format)}{append})"
        case BlackholeTarget():
            return "write_stream(streams.to_blackhole())"
        case LiveTarget():
            return "iter_batches()"
        case KafkaTarget(topic=topic):
            return f"write_kafka({_given(target, *(['topic'] if topic else []))})"
        case PostgresTarget(table=table, schema=schema, key=key, mode=mode):
            name = table if schema == "public" else f"{schema}.{table}"
            listed = f", key={_argument(key)}" if key else ""
            return f"write_postgres({quoted(name)}{listed}, mode={quoted(mode)})"


def stream_source_text(source: StreamSource) -> str:
    """The call that reads the stream `source`; what is as by default is left out.

    >>> stream_source_text(NexmarkStream("bid", n_events=100))
    'streams.nexmark("bid", n_events=100)'
    """
    match source:
        case GeneratorStream():
            return f"streams.generator({_given(source)})"
        case NexmarkStream():
            return f"streams.nexmark({_given(source, 'table')})"
        case ReplayStream(source=table):
            rest = _given(source, "order_by", leave=("source",))
            return f"streams.replay({source_text(table)}, {rest})"
        case FollowedFiles():
            return f"read_stream({_given(source, 'path', leave=('options',))})"
        case FlightStream():
            return f"streams.flight({_given(source, 'name')})"
        case KafkaStream(topics=topics):
            parts = [f"{part}={quoted(name)}" for part, name in source.columns]
            first = [_argument(topics)] if topics else []
            rest = _given(source, leave=("topics", "columns"))
            return f"read_kafka({', '.join([*first, rest, *parts])})"


def _format_text(format: RowFormat) -> str:
    """A format as it is given: by its name alone, else with what it has of its own."""
    rest = _given(format, leave=("name", "options", "registry_settings"))
    return f"formats.{format.name}({rest})" if rest else quoted(format.name)


def _given(
    source: StreamSource | KafkaTarget | RowFormat, *bare: str, leave: tuple[str, ...] = ()
) -> str:
    """Arguments: those of `bare` names without them, others where they are not the default.

    What has no `repr` is secret. A client library's settings are no argument that says where.
    """
    texts = {name: _argument(getattr(source, name)) for name in bare}
    for field in fields(source):
        value = getattr(source, field.name)
        if not field.repr or field.name == "settings":
            continue
        if field.name not in (*bare, *leave) and value != field.default:
            texts[field.name] = f"{field.name}={_argument(value)}"
    return ", ".join(texts.values())


def _argument(value: object) -> str:
    if isinstance(value, RowFormat):
        return _format_text(value)
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        names = ", ".join(map(quoted, value))
        return names if len(value) == 1 else f"[{names}]"
    return quoted(value) if isinstance(value, str) else repr(value)
