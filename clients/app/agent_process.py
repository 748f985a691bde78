"""An agent's function in a task: events go in, rows come out, tables lie between.

    rows ─► EventStream ─► async def agent(events): …; yield … ─► rows
                              └── table[key]: state of the key of the event

One job: `AgentProcess`, a `fabric.Process` that drives an asynchronous function: it hands rows to
the stream that the function loops over, and runs the event loop until the function asks for more.
So whatever happens between two calls (a barrier, a timer) finds each earlier event wholly consumed.
What the function keeps in local variables is no state: after a failure it begins anew.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import copy_context
from typing import Any, Generic, TypeVar

import pyarrow as pa

from fabric.clients.app.events import Decoder, rows_of_yielded
from fabric.clients.app.tables import RUNNING, CallKeys, Tables, TableSpec
from fabric.errors import PlanError
from fabric.plan.process import Process, ProcessContext, Returned

T = TypeVar("T")
CLOSE_S = 5.0
"""How long an agent's function may take to end."""
_TICK_S = 0.2
"""The loop wakes so often, so that a call that waits for a service can be interrupted."""

Predicate = Callable[[Any], object]
Start = Callable[[], Awaitable[object]]
"""What an app does in a task before its first event."""


class EventStream(Generic[T]):
    """The events of an agent: ``async for event in events``.

    `batches` gives them as Arrow record batches, `filter` leaves some out. An agent's function gets
    one; outside of an agent there is none. Looping over it asks for the next event, which says that
    the one before is wholly consumed.
    """

    def __init__(self, feed: Feed, predicates: tuple[Predicate, ...] = ()) -> None:
        self._feed = feed
        self._predicates = predicates

    def __aiter__(self) -> AsyncIterator[T]:
        return _Events(self._feed, self._predicates)

    def filter(self, predicate: Callable[[T], object]) -> EventStream[T]:
        """The events for which `predicate` is true.

        >>> async def large(orders: EventStream[dict]):
        ...     async for order in orders.filter(lambda order: order["amount"] > 100):
        ...         yield order
        """
        return EventStream(self._feed, (*self._predicates, predicate))

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """The rows as they come, many at a time, without an object for each.

        >>> async def sizes(orders: EventStream[dict]):
        ...     async for rows in orders.batches():
        ...         yield {"n": rows.num_rows}
        """
        if self._predicates:
            raise PlanError("batches() has no events to filter; filter the rows: rows.filter(…)")
        while True:
            yield await self._feed.next_rows()

    @property
    def key(self) -> Any:
        """The key of the event that came last; a tuple where the agent has several.

        >>> async def named(orders: EventStream[dict]):
        ...     async for order in orders:
        ...         yield {"user": orders.key}
        """
        keys = self._feed.keys
        if keys is None or keys.row < 0:
            raise PlanError("stream.key is that of an event; loop over the events: async for …")
        return keys.values[keys.row]


class _Events(AsyncIterator[Any]):
    """The events of a stream, each by itself."""

    __slots__ = ("_feed", "_predicates")

    def __init__(self, feed: Feed, predicates: tuple[Predicate, ...]) -> None:
        self._feed, self._predicates = feed, predicates

    async def __anext__(self) -> Any:
        feed = self._feed
        while True:
            keys, events = feed.keys, feed.events
            if keys is None or (at := keys.row + 1) >= len(events):
                await feed.next_events()
                continue
            keys.row = at
            event = events[at]
            if all(test(event) for test in self._predicates):
                return event


class Feed:
    """What comes to an agent's function, a call's rows at a time."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._rows: pa.RecordBatch | None = None
        self._more: asyncio.Future[None] | None = None
        self._asked: Callable[[], None] | None = None
        self.events: list[Any] = []
        self.keys: CallKeys | None = None

    def push(self, keys: CallKeys, rows: pa.RecordBatch) -> None:
        """The rows of the next call; the function takes them when it asks."""
        self.keys, self._rows, self.events = keys, rows, []

    def advance(self, asked: Callable[[], None]) -> None:
        """Let the function go on, and call `asked` when it asks for more than there is."""
        self._asked = asked
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def next_rows(self) -> pa.RecordBatch:
        """The rows of the next call."""
        while self._rows is None:
            self._more = asyncio.get_running_loop().create_future()
            assert self._asked is not None
            self._asked()
            await self._more
        rows, self._rows = self._rows, None
        return rows

    async def next_events(self) -> None:
        """Those of the next call are in `events`."""
        self.events = self._decoder.events(await self.next_rows())


class AgentProcess(Process):
    """Drives `function`, an asynchronous function of a stream of events.

    It is the agent `name`; what it yields are rows of `schema` (None: it yields nothing).
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        decoder: Decoder,
        schema: pa.Schema,
        *,
        columns: Sequence[str],
        tables: Sequence[TableSpec] = (),
        starts: Sequence[Start] = (),
    ) -> None:
        self.name, self.function = name, function
        self._decoder, self._schema, self._columns = decoder, schema, list(columns)
        self._specs, self.starts = tuple(tables), tuple(starts)
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Make the event loop, and run what the app does at its start."""
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._outputs: list[Any] = []
        self._feed = Feed(self._decoder)
        self._tables = Tables(self.name, self._specs)
        self._place = copy_context()
        self._place.run(RUNNING.set, self._tables)
        for start in self.starts:
            self._until(self._loop.create_task(_awaited(start), context=self._place))

    def on_batch(self, ctx: ProcessContext, keys: pa.RecordBatch, rows: pa.RecordBatch) -> Returned:
        """What the function yields for these rows, until it asks for more."""
        some = CallKeys(keys)
        self._tables.begin(ctx, some)
        self._feed.push(some, rows.select(self._columns))
        try:
            self._advance()
            self._tables.flush()
            outputs, self._outputs = self._outputs, []
            return list(rows_of_yielded(outputs, self._schema))
        except BaseException:
            self.restart()
            raise

    def restart(self, function: Callable[..., Any] | None = None) -> None:
        """Have the function begin anew with the next event; perhaps another copy of it."""
        self.function = self.function if function is None else function
        task, self._task, self._outputs = self._task, None, []
        if task is not None:
            self._end(task)
        self._feed = Feed(self._decoder)

    def close(self) -> None:
        """End the function: its ``finally`` blocks run."""
        if self._loop is None:
            return
        self.restart()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
        self._loop = None

    # ---- the function

    def _advance(self) -> None:
        """Let the function run until it asks for more than it was given."""
        assert self._loop is not None
        asked = self._loop.create_future()
        self._feed.advance(lambda: None if asked.done() else asked.set_result(None))
        if self._task is None:
            self._task = self._loop.create_task(self._consume(), context=self._place)
        self._until(asked, self._task)
        if self._task.done():
            self._task.result()
            raise PlanError(
                f"the agent {self.name} returned while its stream goes on; loop over all of it: "
                "async for event in events: …"
            )

    async def _consume(self) -> None:
        found = self.function(EventStream(self._feed))
        if not inspect.isasyncgen(found):
            await found
            return
        async with aclosing(found) as outputs:
            async for output in outputs:
                self._outputs.append(output)

    def _until(self, *one_of: asyncio.Future[None]) -> None:
        """Run the loop until one of these is done; raises what it failed with."""
        loop = self._loop
        assert loop is not None

        def stop(_: object = None) -> None:
            loop.stop()

        def tick() -> None:
            timers[0] = loop.call_later(_TICK_S, tick)

        timers = [loop.call_later(_TICK_S, tick)]
        for each in one_of:
            each.add_done_callback(stop)
        try:
            while not any(each.done() for each in one_of):
                loop.run_forever()
        finally:
            timers[0].cancel()
            for each in one_of:
                each.remove_done_callback(stop)
        for each in one_of:
            if each.done():
                each.result()

    def _end(self, task: asyncio.Task[None]) -> None:
        """Cancel the function, and give it a while to clean up."""
        loop = self._loop
        assert loop is not None
        if not task.done():
            task.cancel()
            loop.run_until_complete(asyncio.wait({task}, timeout=CLOSE_S))
        if task.done() and not task.cancelled():
            task.exception()  # it is told, or came while it cleaned up


async def _awaited(start: Start) -> None:
    await start()
