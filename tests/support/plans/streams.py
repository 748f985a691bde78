"""Random plans of streams, each of which passes the check.

One job: `random_stream`, whose steps are drawn from those that the rows below allow, `written`,
which ends one with a write, and `random_branches`, with several over one source. The same seed
gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from random import Random
from typing import Any, get_args

import pyarrow as pa

from fabric.plan.event_windows import (
    Count,
    Cumulative,
    Global,
    Session,
    Sliding,
    Trigger,
    Tumbling,
    Window,
)
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Literal, SortKey, Udf
from fabric.plan.mend import free_name
from fabric.plan.nodes import (
    NODES,
    AsofHow,
    AsofJoin,
    AsofStrategy,
    AssignWindows,
    Changes,
    Exchange,
    Filter,
    Groups,
    KeyedProcess,
    LookupHow,
    LookupJoin,
    MapAsync,
    Match,
    Node,
    Scan,
    Select,
    SideOutput,
    Sink,
    StateField,
    StreamAggregate,
    StreamJoin,
    StreamJoinHow,
    StreamScan,
    Union,
    UpdatingJoin,
    Watermark,
    WithColumns,
)
from fabric.plan.nodes.keyed_process import broadcast_kind
from fabric.plan.schema import schema_of, sides_at
from fabric.plan.sources import GeneratorStream, MemorySource
from fabric.plan.stream import Stream, closing
from fabric.plan.stream_facts import stream_of
from fabric.plan.targets import StreamFileTarget

Step = Callable[[Random, Node], Node]
SCHEMA = pa.schema([
    ("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int32()),
])  # fmt: skip
TABLE = Scan(MemorySource("names", 3), pa.schema([("k", pa.string()), ("name", pa.string())]))
FUNCTION = Udf("own", (), pa.null(), "object", b"not a pickle")
_SECOND = 1_000_000


def random_stream(rng: Random, steps: int = 6) -> Node:
    """A stream with event time, and up to `steps` steps over it."""
    node = _source(rng)
    for _ in range(rng.randint(0, steps)):
        node = _step(rng, node)
    return node


def written(node: Node) -> Sink:
    """`node` and a write of it, its changes as rows of their own."""
    stream = stream_of(node)
    assert stream is not None
    if stream.changes:
        node = Changes(node, free_name("row_kind", schema_of(node).names))
    return Sink(node, StreamFileTarget("parquet", "/tmp/out"))


def random_branches(rng: Random, steps: int = 6) -> Node:
    """One to four writes of what is over one source, side outputs among it."""
    pool = [_source(rng) if rng.random() < 0.7 else StreamScan(GeneratorStream(), SCHEMA)]
    for _ in range(rng.randint(1, steps)):
        pool.append(_step(rng, rng.choice(pool)))
        if rng.random() < 0.3:
            node = rng.choice(pool)
            pool += [SideOutput(node, tag) for tag in sides_at(node)]
    chosen = rng.sample(pool, min(len(pool), rng.randint(1, 4)))
    sinks = [
        replace(written(node), target=StreamFileTarget("parquet", f"/tmp/{number}"))
        for number, node in enumerate(chosen)
    ]
    return Union(tuple(sinks)) if len(sinks) > 1 else sinks[0]


def _source(rng: Random) -> Node:
    scan = StreamScan(GeneratorStream(n_splits=rng.randint(1, 4)), SCHEMA)
    return Watermark(
        _filtered(rng, scan) if rng.random() < 0.3 else scan,
        "ts",
        rng.choice([0, 5 * _SECOND]),
        idle_us=rng.choice([None, 60 * _SECOND]),
        on_bad=rng.choice(["fail", "skip", "side"]),
    )


def _step(rng: Random, node: Node) -> Node:
    stream = stream_of(node)
    assert stream is not None
    kinds: list[Step] = [_filtered, _narrowed, _added, _exchanged]
    if not stream.changes:
        kinds += [_looked_up, _processed, _asked, _grouped, _counted, _updated]
        kinds += map(_grouped_as, GROUPS)
        if stream.time:
            kinds += [_windowed, _windowed, _assigned, _united, _joined, _matched]
    made = rng.choice(kinds)(rng, node)
    return made if set(schema_of(made).names) >= {"k"} else node


def _filtered(rng: Random, node: Node) -> Node:
    name = rng.choice(schema_of(node).names)
    return Filter(node, Call("is_not_null", (Column(name),)))


def _narrowed(rng: Random, node: Node) -> Node:
    names = [name for name in schema_of(node).names if name == "k" or rng.random() < 0.8]
    return Select(node, tuple(Column(name) for name in names))


def _added(rng: Random, node: Node) -> Node:
    name = free_name("w", schema_of(node).names)
    return WithColumns(node, (Alias(Call("length", (Column("k"),)), name),))


def _exchanged(rng: Random, node: Node) -> Node:
    return Exchange(node, "round_robin", n_partitions=rng.randint(0, 3))


def _united(rng: Random, node: Node) -> Node:
    return Union((node, _filtered(rng, node)))


def _looked_up(rng: Random, node: Node) -> Node:
    hows: tuple[LookupHow, ...] = ("inner", "left", "semi", "anti")
    suffix = free_name("_right", [name.removeprefix("name") for name in schema_of(node).names])
    return LookupJoin(node, TABLE, (Column("k"),), (Column("k"),), rng.choice(hows), suffix)


def _joined(rng: Random, node: Node) -> Node:
    stream = stream_of(node)
    assert stream is not None
    names = schema_of(node).names
    at = free_name("at", names)
    other = Select(_source(rng), (Column("k"), Alias(Column("ts"), at)))
    low = rng.randint(-9, 9) * _SECOND
    high, time = low + rng.randint(0, 9) * _SECOND, rng.choice([stream.time, *sorted(stream.ends)])
    if rng.random() < 0.3:
        strategy = rng.choice(get_args(AsofStrategy))
        deleted = Call("is_null", (Column("k"),)) if rng.random() < 0.5 else None
        return AsofJoin(
            node, other, (Column("k"),), (Column("k"),), time, at, rng.choice(get_args(AsofHow)),
            strategy, None if strategy == "backward" else rng.randint(0, 9) * _SECOND,
            rng.random() < 0.5, deleted, late=rng.choice(["drop", "side"]),
        )  # fmt: skip
    condition = Call("le", (Column(time), Column(at))) if rng.random() < 0.5 else None
    return StreamJoin(
        node, other, (Column("k"),), (Column("k"),), time, at, low, high,
        rng.choice(get_args(StreamJoinHow)), late=rng.choice(["drop", "side"]),
        condition=condition,
    )  # fmt: skip


def _updated(rng: Random, node: Node) -> Node:
    name = free_name("other", schema_of(node).names)
    other = Select(_source(rng), (Column("k"), Alias(Column("ts"), name)))
    condition = Call("is_not_null", (Column(name),)) if rng.random() < 0.5 else None
    how = rng.choice(get_args(StreamJoinHow))
    keys = (Column("k"),)
    return UpdatingJoin(node, other, keys, keys, "", "", how, _SECOND, condition)


def _matched(rng: Random, node: Node) -> Node:
    stream, names = stream_of(node), schema_of(node).names
    assert stream is not None
    condition = Call("eq", (Column("k"), Agg("prev", Column("A.k"), (Literal(1, pa.int32()),))))
    measures = (
        Alias(Agg("last", Column(stream.time)), free_name("end", names)),
        Alias(Agg("count", Column("B")), free_name("n", names)),
    )
    return Match(
        node, rng.choice(["A B+ C", "A (B | C){1,3}", "A {- B -}* C"]), (Column("k"),), (),
        (Alias(condition, "B"),), measures, (("U", "A B"),), rng.randint(1, 60) * _SECOND,
        rng.choice(["skip_past", "next_row", "to_last U"]), rng.choice(["one", "all"]),
        rng.choice(["drop", "side"]), rng.choice(["drop", "side"]), stream.time,
    )  # fmt: skip


def _keys(rng: Random, node: Node) -> tuple[Expr, ...]:
    names = [name for name in schema_of(node).names if name != "k"]
    return (Column("k"), *(Column(name) for name in rng.sample(names, min(len(names), 1))))


def _closing(rng: Random, node: Node) -> tuple[tuple[Expr, ...], str]:
    """Keys, now and then the end of a window below among them."""
    stream = stream_of(node) or Stream()
    ends = tuple(Column(end) for end in sorted(stream.ends)[:1])
    keys = (Column("k"), *ends) if rng.random() < 0.7 else (Column("k"),)
    return keys, closing(keys, stream) if stream.timed else ""


def _grouped_as(kind: type[Any]) -> Step:
    """A step of this class over a stream; `FIELDS` draws its own fields."""
    texts = {field.name: f"{field.name}: {field.type}" for field in fields(kind)}

    def step(rng: Random, node: Node) -> Node:
        keys, closes = _closing(rng, node)
        drawn: dict[str, Any] = {
            name: FIELDS[text](rng, node) for name, text in texts.items() if text in FIELDS
        }
        made: Node = kind(input=node, keys=keys, closes=closes, **drawn)
        return made

    return step


def _order(rng: Random, node: Node) -> tuple[SortKey, ...]:
    name = rng.choice(schema_of(node).names)
    return (SortKey(Column(name), descending=rng.random() < 0.5),)


FIELDS: dict[str, Callable[[Random, Node], object]] = {
    "by: tuple[SortKey, ...]": _order,
    "column: str": lambda rng, node: rng.choice(schema_of(node).names),
    "keep: Keep": lambda rng, _: rng.choice(["first", "last"]),
    "n: int": lambda rng, _: rng.randint(1, 5),
    "rank: str": lambda rng, node: rng.choice(["", free_name("rank", schema_of(node).names)]),
    "ties: bool": lambda rng, _: rng.random() < 0.5,
}
"""What draws a field of a step over `Groups`, by name and type; others have their defaults."""
GROUPS = [kind for kind in NODES if issubclass(kind, Groups) and kind is not StreamAggregate]
"""Steps over `Groups` that need no function of their own here."""


def _aggs(node: Node) -> tuple[Expr, ...]:
    taken = schema_of(node).names
    total = Agg("sum", Call("length", (Column("k"),)))
    return (
        Alias(Agg("count", None), free_name("n", taken)),
        Alias(total, free_name("total", taken)),
    )


def _grouped(rng: Random, node: Node) -> Node:
    keys, closes = _closing(rng, node)
    return StreamAggregate(node, keys, _aggs(node), closes=closes)


def _counted(rng: Random, node: Node) -> Node:
    window: Window = Count(rng.randint(1, 9)) if rng.random() < 0.5 else Global()
    return StreamAggregate(node, (Column("k"),), _aggs(node), window)


def _windowed(rng: Random, node: Node) -> Node:
    stream = stream_of(node)
    assert stream is not None
    windows: list[Window] = [*_sized(rng), Session(rng.randint(1, 60) * _SECOND)]
    lateness, late = rng.choice([(0, "drop"), (60 * _SECOND, "side")])
    return StreamAggregate(
        node,
        (Column("k"),),
        _aggs(node),
        rng.choice(windows),
        stream.time,
        Trigger(late=rng.choice(["close", "each"])),
        lateness,
        late,  # type: ignore[arg-type]
    )


def _sized(rng: Random) -> list[Tumbling | Sliding | Cumulative]:
    step = rng.randint(1, 60) * _SECOND
    return [Tumbling(step), Sliding(2 * step, step), Cumulative(4 * step, step)]


def _assigned(rng: Random, node: Node) -> Node:
    stream = stream_of(node)
    assert stream is not None
    if "window_start" in schema_of(node).names or "window_end" in schema_of(node).names:
        return node
    return AssignWindows(node, stream.time, rng.choice(_sized(rng)))


def _asked(rng: Random, node: Node) -> Node:
    names = schema_of(node).names
    answer = pa.schema([(free_name("answer", names), pa.int64())])
    return MapAsync(
        node, FUNCTION, answer, tuple(names), ordered=rng.random() < 0.5,
        rate_per_s=rng.choice([0.0, 100.0]), on_error=rng.choice(["fail", "side"]),
    )  # fmt: skip


def _processed(rng: Random, node: Node) -> Node:
    stream = stream_of(node)
    assert stream is not None
    state = StateField("seen", "map", pa.int64(), pa.string(), ttl_us=_SECOND)
    time = "ts" if stream.timed else ""
    process = KeyedProcess(
        node, (Column("k"),), FUNCTION, SCHEMA, (state,), ("processing",), time=time,
        on_error=rng.choice(["fail", "side"]),
    )  # fmt: skip
    if rng.random() < 0.5:
        return process
    rules = rng.choice([TABLE, node])
    keys = rng.choice([(), ("k",)])
    return replace(
        process, broadcast=rules, broadcast_is=broadcast_kind(stream_of(rules)),
        broadcast_keys=keys, broadcast_bytes=1 << 20,
        broadcast_deleted=Call("is_null", (Column("k"),)) if keys else None,
    )  # fmt: skip
