"""Verbs of streams: event time, windows, first rows by key, changes, and writing.

One job: each makes one node of `fabric.plan.stream`; what a stream can't do is refused by the
check. The other verbs work on streams as they do on tables, unless they need an end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, get_args

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.durations import Length, maybe_us, us
from fabric.clients.dataframe.expressions.types import ManyColumns, ManyKeys
from fabric.clients.dataframe.expressions.udf import own_object
from fabric.clients.dataframe.lowering.aggregates import event_time
from fabric.clients.dataframe.names import choice, column_name, whole
from fabric.clients.dataframe.targets import Target, by_changes, stream_target
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.clients.dataframe.verbs.group_by import GroupBy, WindowOptions
from fabric.clients.dataframe.verbs.kafka import upserted
from fabric.clients.dataframe.windows import window_of
from fabric.clients.job.stream_name import OnExisting, Parallelism, StreamName
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.event_windows import Cumulative, Sliding, Tumbling, Window
from fabric.plan.nodes import (
    BOUND_US,
    AssignWindows,
    Changes,
    Deduplicate,
    Keep,
    Late,
    Strategy,
    TopN,
    Watermark,
)
from fabric.plan.places import FileFormat
from fabric.plan.stream import OnBad, Stream, closing
from fabric.plan.stream_facts import stream_of
from fabric.plan.targets import (
    BlackholeTarget,
    DatasetTarget,
    FlightTarget,
    KafkaTarget,
    PostgresTarget,
    StreamMode,
)

if TYPE_CHECKING:
    from fabric.clients.job.job import Job


class StreamVerbs(Verbs):
    """What only streams have."""

    __slots__ = ()

    def with_watermark(
        self,
        column: str,
        bound: Length | None = None,
        *,
        idle: Length | None = None,
        future: Length | None = None,
        drift: Length | None = None,
        strategy: Literal["bounded", "monotonic"] | Callable[..., Any] = "bounded",
        on_bad: OnBad = "fail",
        every: Length = "200 ms",
    ) -> Self:
        """Event time is `column`; rows come at most `bound` behind, in each split of the source.

        Parameters
        ----------
        bound
            By default 5 seconds; another strategy has none.
        idle
            A split without rows for so long holds nobody back; by default it does.
        future
            A row may be so far ahead of all earlier ones of its split; by default any. One that is
            further ahead is bad and still moves time, by so much: a split whose rows really
            have jumped catches up, but good rows between may come late.
        drift
            A split that is so far ahead of the slowest one waits for it, also where other tasks
            read that; they tell each other every 200 ms, and a batch is read whole.
        strategy
            ``monotonic`` where rows come in order; or a function of your own.
        on_bad
            Rows without a time or too far ahead: ``fail``, ``skip`` or ``side``, then they are
            ``.side_output("bad")``.
        every
            How often time is told to the steps after it.

        Examples
        --------
        >>> from fabric import streams
        >>> rows = streams.generator(n_rows=10).with_watermark("ts", "2 seconds", idle="1 minute")
        >>> rows.columns[-1]
        'ts'
        """
        own = None
        kind: Strategy = "custom"
        if isinstance(strategy, str):
            choice(strategy, ("bounded", "monotonic"), "with_watermark", "strategy")
            kind = strategy
        else:
            own = own_object(strategy, getattr(strategy, "__name__", "strategy"))
        if kind != "bounded" and bound is not None:
            raise PlanError(
                f"with_watermark: bound={bound!r} says nothing where another strategy says how far "
                "time has come; leave one of them out"
            )
        node = Watermark(
            self._node, column_name(column, "with_watermark"),
            BOUND_US if bound is None else us(bound, "bound"),
            maybe_us(idle, "idle", least=1), maybe_us(future, "future"), kind, own,
            on_bad, us(every, "every", least=1), maybe_us(drift, "drift"),
        )  # fmt: skip
        return self._then(node)

    def window(self, window: Length | Window, **options: Unpack[WindowOptions]) -> GroupBy[Self]:
        """All rows of each window of a stream; ``.agg(…)`` makes one row. See `GroupBy.window`.

        >>> from fabric import streams
        >>> rows = streams.generator(n_rows=10).with_watermark("ts")
        >>> rows.window("1 minute").count().columns
        ['window_start', 'window_end', 'count']
        """
        return GroupBy(self, ()).window(window, **options)

    def assign_windows(
        self,
        window: Length | Window,
        *,
        slide: Length | None = None,
        step: Length | None = None,
        offset: Length | None = None,
    ) -> Self:
        """Each row once for each window that it is in, with ``window_start`` and ``window_end``.

        Groups by ``window_end`` are put out once, when the window is complete:

        >>> from fabric import col, streams
        >>> bids = streams.nexmark("bid", n_events=100).with_watermark("dateTime")
        >>> rows = bids.assign_windows("10 seconds")
        >>> rows.top_n(1, by=col("price").desc(), keys="window_end", ties=True).columns[-1]
        'window_end'
        """
        chosen = window_of(window, slide, step, offset)
        if not isinstance(chosen, Tumbling | Sliding | Cumulative):
            raise PlanError(
                f"rows don't say by themselves where a {chosen} begins; write: "
                ".group_by(…).window(…).agg(…)"
            )
        return self._then(
            AssignWindows(self._node, event_time(stream_of(self._node), AssignWindows), chosen)
        )

    def deduplicate(
        self,
        *keys: ManyColumns,
        keep: Keep = "first",
        by: str = "",
        ttl: Length | None = None,
        lateness: Length | None = None,
        late: Late = "drop",
    ) -> Self:
        """Of the rows with equal `keys` (none given: of equal rows) the first as they come.

        Parameters
        ----------
        keep, by
            The ``last`` one, or the first or last by the time in column `by`: then results change,
            unless the end of a window is among the keys.
        ttl
            Forget a key that had no row for so long by the clock of the tasks, whatever the times
            of the rows say; by default none is forgotten.

        Examples
        --------
        >>> from fabric import streams
        >>> streams.generator(n_rows=10).deduplicate("key", ttl="1 hour").columns[2]
        'key'
        """
        chosen = args.expressions(keys or self.columns, {}, self.schema)
        node = Deduplicate(
            self._node, chosen, keep, column_name(by, "deduplicate"),
            maybe_us(ttl, "ttl", least=1) or 0, self._closing(chosen),
            maybe_us(lateness, "lateness") or 0, late,
        )  # fmt: skip
        return self._then(node)

    def top_n(
        self,
        n: int,
        by: ManyKeys,
        *,
        keys: ManyColumns = (),
        ties: bool = False,
        rank: str = "",
        lateness: Length | None = None,
        late: Late = "drop",
    ) -> Self:
        """The first `n` rows of each of `keys` in the order of `by`.

        Parameters
        ----------
        keys
            With the end of a window among them, each group is put out once, when the window is
            complete; else results change. Without keys all rows are one group.
        ties
            All rows that are equal to the last one too.
        rank
            The name of a column with the place of each row, 1 on; with `ties` equals share theirs.

        Examples
        --------
        >>> from fabric import col, streams
        >>> bids = streams.nexmark("bid", n_events=100)
        >>> bids.top_n(10, by=col("price").desc(), keys="auction", rank="place").columns[-1]
        'place'
        """
        chosen = args.expressions(args.flatten([keys]), {}, self.schema)
        order = args.sort_keys([by], False, None)
        node = TopN(
            self._node, chosen, order, whole(n, 1, "top_n", "n"), ties, rank, self._closing(chosen),
            maybe_us(lateness, "lateness") or 0, late,
        )  # fmt: skip
        return self._then(node)

    def changes(self, column: str = "row_kind") -> Self:
        """Each change of results as a row: its kind ``+I``, ``-U``, ``+U`` or ``-D`` comes first.

        ``-U`` and ``-D`` take back a row that was put out before.

        >>> from fabric import streams
        >>> streams.generator(n_rows=10).group_by("key").count().changes().columns
        ['row_kind', 'key', 'count']
        """
        return self._then(Changes(self._node, column))

    def write_stream(
        self,
        target: Target,
        *,
        format: FileFormat = "parquet",
        mode: StreamMode = "error",
        storage_options: args.StorageOptions = None,
        also: Mapping[Target, Self] | None = None,
        name: str = "",
        parallelism: Parallelism | None = None,
        latency: Length | None = None,
        on_existing: OnExisting = "continue",
        restore: str | os.PathLike[str] = "",
        renames: Mapping[str, str] | None = None,
        drop: str | Sequence[str] = (),
    ) -> Job:
        """Start a job that writes the stream until it ends or is cancelled; returns at once.

        Parameters
        ----------
        target
            A folder for files of `format`, or a URL with the `storage_options` of its store, as in
            `fabric.read_parquet`. Or `fabric.streams.to_files`, `to_dataset`, `to_kafka`,
            `to_postgres`, `to_flight`, `to_blackhole`. Each row is there once, whatever fails.
        mode
            ``error`` refuses a folder or dataset that holds anything, or that another job writes.
            ``append`` adds to what is there. A Flight server is never asked what it holds.
        also
            Other streams to write in the same job, by their targets: side outputs, for example.
        name
            The stream's name, to which its state belongs: run the program again, however it ended,
            and it goes on from the newest checkpoint. Without one its state ends with the program.
        parallelism
            Tasks of a stage, by default as the session has it; ``"slots"``: see `Job.rescale`.
        on_existing
            When a stream of that name has run before: ``continue`` goes on, ``new`` begins anew and
            leaves the old checkpoints where they are, ``fail`` refuses.
        restore
            A savepoint to begin with, by name or absolute folder, for a stream that is new, has not
            gone on since, or begins anew with ``on_existing="new"``.
        renames, drop
            Where the program has changed: new names of steps by old ones, and steps whose state is
            to be left behind. Carried out once, however often the program is started with them.
        latency
            How long a row may be gathered with others on its way to the target, as ``"1 second"``:
            more is cheaper. Default: that of the session. Files are seen with the next checkpoint.

        Raises
        ------
        PlanError
            Nothing has been written; it says what the target holds, or how the program has changed.
        ConfigError, NotFoundError
            A stream of that name runs, has come to its end, or has gone on since `restore`; or
            there is no such savepoint.

        >>> import fabric, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     job = fabric.streams.generator(n_rows=100).write_stream(folder).wait()
        ...     fabric.read_parquet(folder).count()
        100
        """
        written = [self._written(target, format, mode, storage_options)]
        frames = [self._other(frame, "write_stream") for frame in (also or {}).values()]
        written += [frame._written(other, format, mode) for other, frame in (also or {}).items()]
        root = written[0] if len(written) == 1 else nodes.Union(tuple(written))
        label = name or f"write stream {_place(written[0].target)}"
        choice(on_existing, get_args(OnExisting), "write_stream", "on_existing")
        stream = stream_name(name, on_existing, restore, renames or {}, drop)
        return self._with(frames, root)._submitted(label, parallelism, latency, stream)

    # ---- helpers
    def _written(
        self,
        target: Target,
        format: FileFormat,
        mode: StreamMode,
        options: args.StorageOptions = None,
    ) -> nodes.Sink:
        chosen, rows = stream_target(target, format, mode, options), self._node
        if isinstance(chosen, KafkaTarget):
            return nodes.Sink(*upserted(rows, chosen))
        if isinstance(chosen, PostgresTarget):
            return nodes.Sink(*by_changes(rows, chosen))
        return nodes.Sink(rows, chosen)

    @property
    def _stream(self) -> Stream:
        return stream_of(self._node) or Stream()

    def _closing(self, keys: Sequence[plan.Expr]) -> str:
        return closing(keys, self._stream) if self._stream.timed else ""


def stream_name(
    name: str, on_existing: OnExisting, restore: str | os.PathLike[str],
    renames: Mapping[str, str], drop: str | Sequence[str],
) -> StreamName | None:  # fmt: skip
    """The name of a stream with all that goes with it; None for "", which takes nothing else."""
    dropped = (drop,) if isinstance(drop, str) else tuple(drop)
    texts = [*renames, *renames.values(), *dropped]
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise PlanError(
            'renames= and drop= name steps, as renames={"old": "new"} and drop=["old"], got '
            f"{wrong[0]!r}"
        )
    given = {"restore": restore, "renames": renames, "drop": dropped}
    if not name:
        if used := [what for what, value in given.items() if value]:
            raise PlanError(
                f"{used[0]}= is for a stream whose state has a name; give it one: "
                'write_stream(…, name="clicks")'
            )
        return None
    asked = tuple(sorted(renames.items()))
    return StreamName(name, on_existing, os.fspath(restore), asked, dropped).asked()


def _place(target: Any) -> str:
    match target:
        case BlackholeTarget():
            return "nowhere"
        case DatasetTarget(name=name):
            return name
        case FlightTarget(path=path):
            return "/".join(path)
        case KafkaTarget(topic=topic, topic_column=column):
            return topic or column
        case PostgresTarget(table=table):
            return table
    return str(target.path)
