"""Verbs about how a plan runs: exchanges, addresses, settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.durations import Length, latency_us
from fabric.clients.dataframe.names import whole
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.config import CheckpointConfig, StateBackend
from fabric.errors import PlanError
from fabric.plan import nodes
from fabric.plan.faults import quoted
from fabric.plan.paths import STAR
from fabric.plan.walk import rewrite, walk
from fabric.values import ByteSize


class RunningVerbs(Verbs):
    """``exchange``, ``rebalance``, ``named`` and ``configure``."""

    __slots__ = ()

    def exchange(
        self,
        *keys: str | Iterable[str],
        n_partitions: int = 0,
        kind: nodes.ExchangeKind | None = None,
        mode: nodes.ExchangeMode = "auto",
        compression: nodes.Compression = "none",
    ) -> Self:
        """Send rows between agents: by hash of `keys`, or in turn when there are none.

        Its partitions are Flight streams of their own; `named` gives an address to find them by.

        Parameters
        ----------
        keys
            Names of columns, one by one or as lists. Rows with equal keys share a partition.
        n_partitions
            How many partitions; 0 lets the planner choose.
        kind
            None: ``hash`` with keys, else ``round_robin``.
        mode
            ``pipelined`` sends rows while they are made, ``materialised`` keeps them first.
        compression
            ``lz4`` or ``zstd`` compress the rows for another agent: once, when they are first read;
            with ``mode="pipelined"`` as they are sent. Readers on the same agent and other Flight
            clients get plain Arrow; Spark compresses by its own settings.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> df = DataFrame({"carrier": ["AA", "UA", "AA"], "delay": [5, 20, 40]})
        >>> df.exchange("carrier", n_partitions=2).named("by_carrier").count()
        3
        """
        names = tuple(args.flatten(keys))
        chosen = kind or ("hash" if names else "round_robin")
        n = whole(n_partitions, 0, "exchange", "n_partitions")
        return self._then(nodes.Exchange(self._node, chosen, names, n, mode, compression))

    def repartition(self, n_partitions: int | str, *keys: str) -> Self:
        """`exchange` with PySpark's arguments: how many partitions, and by which columns.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"carrier": ["AA", "UA"], "delay": [5, 20]})
        >>> df.repartition(2, "carrier").count(), df.repartition("carrier").count()
        (2, 2)
        """
        if isinstance(n_partitions, str):
            return self.exchange(n_partitions, *keys)
        return self.exchange(*keys, n_partitions=n_partitions)

    def rebalance(self, n_partitions: int = 0) -> Self:
        """Deal the rows out to all tasks in turn, so that each has as many.

        As `exchange` without keys, for steps after a source whose splits have different loads, or
        which has fewer splits than there are tasks. `n_partitions` is how many tasks there are
        then; 0: the parallelism of the job. Rows lose the order that they had within their split.

        >>> from fabric import col, streams
        >>> rows = streams.generator(n_rows=10, n_splits=1).rebalance(3)
        >>> rows.filter(col("row") > 3).count()
        6
        """
        return self.exchange(n_partitions=n_partitions)

    def named(self, path: str) -> Self:
        """The last step under an address such as ``"enrich/join"``; errors and `configure` use it.

        >>> from fabric import DataFrame, col
        >>> late = DataFrame({"a": [1]}).filter(col("a") > 0).named("clean/positive")
        >>> late.configure("clean/positive", parallelism=2).columns
        ['a']
        """
        if STAR in path:
            free = quoted(path.replace(STAR, "_"))
            raise PlanError(f"a path has no {STAR}, got {quoted(path)}; write: .named({free})")
        return self._then(replace(self._node, path=path))

    def configure(
        self,
        path: str,
        *,
        parallelism: int | None = None,
        exchange: nodes.ExchangeMode | None = None,
        buffer_batches: int | None = None,
        compression: nodes.Compression | None = None,
        latency: Length | None = None,
        state: StateBackend | None = None,
        state_memory: int | str | None = None,
        tap: bool = False,
    ) -> Self:
        """Settings of the step at address `path`; what is None stays as it was.

        `latency` is how long a row of a stream that comes by this step may be gathered on its whole
        way, from its source to where it goes. It wins over that of the job and of the session; of
        several steps on one way the least counts.

        `state` and `state_memory` are those of `Session.checkpoints`, for this step alone: an
        aggregate or window of a stream, `top_n`, `deduplicate`; of `process` only `state`, which is
        "memory", "rocksdb" or "auto". With `state_memory` the step has so many bytes in each task
        for itself, and the others share those of the job.

        With `tap` the step is not fused with the one after it: Flight clients read the rows between
        them while the job runs (`Job.partitions`), without columns that nobody needs any more.

        Raises
        ------
        ConfigError
            If `state` or `state_memory` is none that a job could have.
        PlanError
            If there is no step `path`, or it can't have these settings.

        Examples
        --------
        >>> from fabric import DataFrame, col
        >>> late = DataFrame({"a": [1, 2]}).filter(col("a") > 1).named("late")
        >>> late.configure("late", tap=True).with_columns(b=col("a") + 1).collect().num_rows
        1
        >>> from fabric import streams
        >>> counts = streams.generator(n_rows=9).group_by("key").count().named("counts")
        >>> counts.configure("counts", state="arrow", state_memory="64 MB").columns
        ['key', 'count']
        """
        room = None if state_memory is None else ByteSize(state_memory)
        _check_state(state, room)
        before = self._config.get(path, nodes.NodeConfig())
        config = nodes.NodeConfig(
            parallelism=before.parallelism if parallelism is None else parallelism,
            exchange=before.exchange if exchange is None else exchange,
            buffer_batches=before.buffer_batches if buffer_batches is None else buffer_batches,
            compression=before.compression if compression is None else compression,
            latency_us=before.latency_us if latency is None else latency_us(latency),
            state=before.state if state is None else state,
            state_memory=before.state_memory if room is None else int(room),
        )
        node, configs = self._node, {**self._config, path: config}
        if tap:
            node = _tapped(node, path)
            of_step = nodes.NodeConfig(
                parallelism=config.parallelism, state=config.state, state_memory=config.state_memory
            )
            if of_step != nodes.NodeConfig():  # no longer of what follows it
                configs[path] = replace(config, parallelism=None, state=None, state_memory=None)
                configs[f"{path}/rows"] = of_step
        return self.of(node, configs, self._session)


def _check_state(state: StateBackend | None, room: ByteSize | None) -> None:
    """Refuse what a job's state can't be either."""
    given: dict[str, Any] = {"state": state, "state_memory": room}
    CheckpointConfig(**{name: value for name, value in given.items() if value is not None})


def _tapped(root: nodes.Node, path: str) -> nodes.Node:
    """`root` with a pipelined exchange behind the step at `path`, in its name."""

    def one(node: nodes.Node) -> nodes.Node:
        if node.path != path:
            return node
        inside = replace(node, path=f"{path}/rows")
        return nodes.Exchange(inside, "forward", (), 0, "pipelined", path=path)

    found = rewrite(root, one)
    if found is root and path not in {node.path for node in walk(root)}:
        raise PlanError(f"no step {quoted(path)} to tap; name one: .named({quoted(path)})")
    return found
