"""Asynchronous calls of services that are slow, lose answers, fail, and answer nonsense.

What tests ask for in another thread lies in this module, as each operator unpickles its function.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.clients.dataframe.expressions.udf import own_object
from fabric.errors import ExternalError, FabricError, PlanError, UserError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.operators.async_calls import call_loop, pending
from fabric.operators.async_calls.operator import MapAsyncOperator
from fabric.operators.chain import Chain, build_chain
from fabric.operators.contract import Batches, Context, Files
from fabric.operators.functions.trust import vouch
from fabric.operators.snapshots import N_KEY_GROUPS
from fabric.plan.nodes import MapAsync, StageInput
from fabric.plan.stream import WATERMARK
from fabric.testing.operators import Kept, Rows, Until, check_operator
from tests.support.sampled import SOAK

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])
OUT = pa.schema([("twice", pa.int64())])
SEEN: Counter[int] = Counter()
"""How often each id was asked for."""
CANCELLED: Counter[int] = Counter()
RUNNING = {"now": 0, "most": 0}
LIFE: list[str] = []
RELEASED = threading.Event()


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    for counter in (SEEN, CANCELLED, LIFE):
        counter.clear()
    RUNNING.update(now=0, most=0)
    RELEASED.clear()
    yield
    RELEASED.set()


def batch(ids: list[int], schema: pa.Schema = ROWS) -> pa.RecordBatch:
    columns: dict[str, Any] = {"id": ids, "name": [f"n{i}" for i in ids]}
    if WATERMARK in schema.names:
        columns[WATERMARK] = [5] * len(ids)
    return pa.RecordBatch.from_pydict(columns, schema=schema)


def node(function: Any, schema: pa.Schema = OUT, **settings: Any) -> MapAsync:
    called = own_object(function, getattr(function, "__name__", type(function).__name__))
    vouch(called.payload)
    return MapAsync(StageInput(0, ROWS), called, schema, path="ask", **settings)


def operator(one: MapAsync, source: pa.Schema = ROWS) -> MapAsyncOperator:
    return MapAsyncOperator(one, source, pa.schema(one.output(source)))


def chain(function: Any, **settings: Any) -> Chain:
    return build_chain(node(function, **settings))


def drained(one: Chain, found: Batches) -> Batches:
    while one.has_more:
        found += one.more()
    return found


def answers(one: Chain, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    """All that comes out for all that comes in."""
    try:
        found: Batches = []
        for given in batches:
            found += drained(one, one.on_batch(0, given))
        found += drained(one, one.on_end(0))
        return [row for some in found for row in some.to_pylist()]
    finally:
        one.close()


async def doubled(row: dict[str, Any]) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"twice": 2 * row["id"]}


class Unsteady:
    """A service that delays, reorders, refuses, and loses some of its answers."""

    def __init__(self, seed: int, lost: float = 0.05) -> None:
        self._seed, self._lost = seed, lost

    async def __call__(self, row: dict[str, Any]) -> Any:
        key = row["id"]
        SEEN[key] += 1
        rng = Random(f"{self._seed} {key} {SEEN[key]}")
        RUNNING["now"] += 1
        RUNNING["most"] = max(RUNNING["now"], RUNNING["most"])
        try:
            if rng.random() < self._lost:
                await asyncio.sleep(3600)
            await asyncio.sleep(rng.random() * 0.003)
            if rng.random() < self._lost:
                raise ConnectionResetError(f"no answer for {key}")
        except asyncio.CancelledError:
            CANCELLED[key] += 1
            raise
        finally:
            RUNNING["now"] -= 1
        return [{"twice": 2 * key}] * (key % 3)


# ---- each row once


@pytest.mark.parametrize("ordered", [True, False])
def test_a_service_that_loses_delays_and_reorders_answers(ordered: bool) -> None:
    ids = list(range(2_000 if SOAK else 300))
    made = chain(Unsteady(1), ordered=ordered, capacity=60, timeout_us=200_000, retries=30,
                 backoff_us=1_000, keep=("id",))  # fmt: skip
    found = answers(made, *(batch(ids[begin : begin + 70]) for begin in range(0, len(ids), 70)))
    expected = [{"id": i, "twice": 2 * i} for i in ids for _ in range(i % 3)]
    assert (found if ordered else sorted(found, key=lambda row: row["id"])) == expected
    assert 1 < RUNNING["most"] <= 60
    assert sum(SEEN.values()) > len(ids), "nothing was retried, so nothing was shown"
    assert sum(CANCELLED.values()) > 0, "what was lost was never cancelled"
    assert RUNNING["now"] == 0


@settings(max_examples=40 if SOAK else 4, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), ordered=st.booleans(),
    capacity=st.integers(1, 8), bulk=st.integers(0, 3),
)  # fmt: skip
def test_aborted_restored_and_rescaled(
    sizes: list[int], ordered: bool, capacity: int, bulk: int
) -> None:
    steps: list[Rows | Until] = []
    for number, size in enumerate(sizes):
        ids = list(range(sum(sizes[:number]), sum(sizes[:number]) + size))
        steps += [Rows(batch(ids)), Until(number)]
    function = in_bulk if bulk else doubled
    made = node(function, ordered=ordered, capacity=max(capacity, bulk), batch=bulk, keep=("id",))
    outcome = check_operator(lambda: operator(made), steps)
    found = [row["id"] for some in outcome.rows for row in some.to_pylist()]
    assert sorted(found) == list(range(sum(sizes)))
    assert not ordered or found == sorted(found)


async def in_bulk(rows: pa.Table) -> list[Any]:
    await asyncio.sleep(0)
    return [{"twice": 2 * i} for i in rows["id"].to_pylist()]


@settings(max_examples=100 if SOAK else 10, deadline=None)
@given(seed=st.integers(0, 1 << 30), ordered=st.booleans(), capacity=st.integers(1, 20))
def test_event_time_never_overtakes_a_row(seed: int, ordered: bool, capacity: int) -> None:
    rng = Random(seed)
    one = build_chain(node(Unsteady(seed, lost=0.0), ordered=ordered, capacity=capacity,
                           keep=("id",), retries=3))  # fmt: skip
    came, time, next_id, last = dict[int, int](), BEGINNING, 0, BEGINNING

    def check(found: Batches) -> None:
        nonlocal last
        for some in drained(one, found):
            for key in some.column("id").to_pylist():
                came.pop(key, None)
        now = one.watermarks[""]
        assert now != IDLE or not came
        assert all(now <= at for at in came.values() if now != IDLE), "it overtook a row"
        last = now if now != IDLE else last

    try:
        for _ in range(rng.randint(1, 12)):
            if rng.random() < 0.5:
                ids = [3 * i + 1 for i in range(next_id, next_id + rng.randint(1, 10))]
                next_id += len(ids)
                came.update(dict.fromkeys(ids, time))
                check(one.on_batch(0, batch(ids)))
            elif rng.random() < 0.2:
                check(one.on_watermark(0, IDLE))
            else:
                time = max(time, 0) + rng.randint(0, 3)
                check(one.on_watermark(0, time))
            check(one.on_time(1))
        check(one.on_end(0))
        assert not came
        assert one.watermarks[""] == END_OF_TIME
    finally:
        one.close()


async def never(row: dict[str, Any]) -> None:
    SEEN[row["id"]] += 1
    await asyncio.sleep(3600)


def snapshot_of(one: MapAsyncOperator) -> Kept:
    kept = Kept()
    one.on_barrier(1).write(kept)
    return kept


def test_rows_that_wait_are_in_the_snapshot_whatever_became_of_their_requests() -> None:
    pending_rows = operator(node(never, capacity=4, ordered=True))
    pending_rows.open(Context("ask"))
    assert pending_rows.on_batch(0, batch([1, 2, 3])) == []
    assert pending_rows.watermark(IDLE) == BEGINNING, "it is not idle while rows wait"
    kept = snapshot_of(pending_rows)
    pending_rows.close()
    again = operator(node(doubled, keep=("id",)))
    again.open(Context("ask"))
    again.restore([kept], range(N_KEY_GROUPS))
    assert snapshot_of(again).files == kept.files, "a snapshot before the first call has them, too"
    found = [again.on_time(1), again.on_batch(0, batch([4])), again.on_end(0)]
    while again.has_more:
        found.append(again.more())
    again.close()
    assert [row["id"] for some in found for one in some for row in one.to_pylist()] == [1, 2, 3, 4]


def test_where_nothing_waits_there_is_no_snapshot() -> None:
    one = operator(node(doubled))
    one.open(Context("ask"))
    assert one.on_barrier(1) == Files()
    one.close()


def test_a_snapshot_goes_on_where_hidden_columns_came_or_went() -> None:
    timed = ROWS.append(pa.field(WATERMARK, pa.int64()))
    for first, second in ((ROWS, timed), (timed, ROWS)):
        before = operator(node(never), first)
        before.open(Context("ask"))
        before.on_batch(0, batch([1, 2], first))
        kept = snapshot_of(before)
        before.close()
        after = operator(node(doubled, keep=("id",)), second)
        after.restore([kept], range(N_KEY_GROUPS))
        assert snapshot_of_arrived(after) == [1, 2]
    after = operator(node(doubled), pa.schema([("other", pa.int64())]))
    with pytest.raises(FabricError, match=r"rows of id: int64, name: string.* calls its .*other"):
        after.restore([kept], range(N_KEY_GROUPS))


def snapshot_of_arrived(one: MapAsyncOperator) -> list[int]:
    return [i for arrived in one._arrived for i in arrived.batch.column("id").to_pylist()]


# ---- bounds


@pytest.mark.parametrize(
    ("bounds", "most"), [({"capacity": 3}, 3), ({"capacity": 50, "capacity_bytes": 60}, 4)]
)
def test_so_many_rows_and_bytes_wait_at_once(bounds: dict[str, int], most: int) -> None:
    found = answers(chain(Unsteady(2, lost=0.0), retries=5, **bounds), batch(list(range(40))))
    assert len(found) == sum(i % 3 for i in range(40))
    assert 1 <= RUNNING["most"] <= most


def test_a_rate_is_shared_by_tasks() -> None:
    one = operator(node(doubled, rate_per_s=100.0, n_tasks=4))
    one.open(Context("ask"))
    assert one._calls._requests._limits.rate_per_s == 25.0
    one.close()


# ---- what functions may give


async def nothing(row: dict[str, Any]) -> None:
    return None


async def table(rows: pa.Table) -> pa.Table:
    return pa.table({"twice": [2 * i for i in rows["id"].to_pylist()]})


async def columns(rows: pa.Table) -> dict[str, list[int]]:
    return {"twice": [2 * i for i in rows["id"].to_pylist()]}


async def one_fails(rows: pa.Table) -> list[Any]:
    return [ValueError("odd") if i % 2 else {"twice": 2 * i} for i in rows["id"].to_pylist()]


def test_forms_of_answers() -> None:
    ids = [1, 2, 3, 4, 5]
    twice = [{"twice": 2 * i} for i in ids]
    assert answers(chain(doubled), batch(ids)) == twice
    assert answers(chain(nothing), batch(ids)) == []
    for function in (in_bulk, table, columns):
        assert answers(chain(function, batch=2), batch(ids)) == twice
    assert answers(chain(one_fails, batch=2, on_error="skip"), batch(ids)) == [
        {"twice": 4}, {"twice": 8}
    ]  # fmt: skip


class Opened:
    """Its life, in order."""

    async def open(self) -> None:
        self.loop = asyncio.get_running_loop()
        LIFE.append("open")

    async def __call__(self, row: dict[str, Any]) -> dict[str, int]:
        assert asyncio.get_running_loop() is self.loop
        LIFE.append("call")
        return {"twice": 0}

    async def close(self) -> None:
        LIFE.append("close")


def test_a_function_is_opened_and_closed_in_its_event_loop() -> None:
    answers(chain(Opened()), batch([1, 2]))
    assert LIFE == ["open", "call", "call", "close"]


class NotOpened(Opened):
    async def open(self) -> None:
        raise ConnectionRefusedError("nobody listens")


def test_an_open_that_fails_fails_the_task() -> None:
    with pytest.raises(ExternalError, match=r"open\(\) of NotOpened raised Connection.*listens"):
        chain(NotOpened())


# ---- bad services and bad functions


async def raises(row: dict[str, Any]) -> dict[str, int]:
    if row["id"] == 3:
        raise ValueError(f"no {row['id']}")
    return {"twice": 2 * row["id"]}


async def resets(row: dict[str, Any]) -> None:
    raise ConnectionResetError("reset")


async def gives_text(row: dict[str, Any]) -> Any:
    return "<html>502 Bad Gateway</html>"


async def other_columns(row: dict[str, Any]) -> Any:
    return {"thrice": 1}


async def no_number(row: dict[str, Any]) -> Any:
    return {"twice": "many" if row["id"] == 3 else 2 * row["id"]}


async def exits(row: dict[str, Any]) -> Any:
    raise SystemExit(3)


def not_async(row: dict[str, Any]) -> Any:
    return {"twice": 1}


async def too_few(rows: pa.Table) -> Any:
    return [{"twice": 1}]


async def ragged(rows: pa.Table) -> Any:
    return {"twice": [1], "other": [1, 2]}


async def a_number(rows: pa.Table) -> Any:
    return 7


BAD: list[tuple[Any, dict[str, Any], type[FabricError], str]] = [
    (raises, {}, UserError, r"raises raised ValueError: no 3 \(line \d+ of .*\), for the row "
     r"\{'id': 3, 'name': 'n3'\}; on_error="),
    (resets, {}, ExternalError, r"raised ConnectionResetError: reset .* for the row \{'id': 1"),
    (gives_text, {}, UserError, r"gives_text gave a str; give a dict with the columns, a list"),
    (other_columns, {}, UserError, r"gave the columns thrice, and schema= says twice, for the row"),
    (no_number, {}, UserError, r"value for twice that is not a valid int64: .*\{'id': 3"),
    (exits, {}, UserError, "raised SystemExit: 3"),
    (not_async, {}, UserError, "not_async is not asynchronous; write: async def"),
    (too_few, {"batch": 4}, UserError, r"gave answers for 1 rows, and was called with 4; .* for 4 "
     r"rows, the first of which is \{'id': 1"),
    (ragged, {"batch": 4}, UserError, "gave columns that make no table"),
    (a_number, {"batch": 4}, UserError, r"gave an int; with batch=, give a list with an answer"),
    (one_fails, {"batch": 4}, UserError, r"raised ValueError: odd, for the row \{'id': 1"),
    (never, {"timeout_us": 1_000}, ExternalError, r"never did not answer within its timeout, for"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "how", "kind", "text"), BAD)
def test_what_goes_wrong_names_function_row_and_node(
    function: Any, how: dict[str, Any], kind: type[FabricError], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        answers(chain(function, **how), batch([1, 2, 3, 4]))
    assert type(caught.value) is kind
    assert caught.value.where.node == "ask"
    skipped = answers(chain(function, on_error="skip", **how), batch([1, 2, 3, 4]))
    assert len(skipped) < 4


def test_rows_that_fail_go_aside() -> None:
    one = chain(raises, on_error="side", keep=("id",))
    found = drained(one, one.on_batch(0, batch([1, 2, 3, 4]))) + drained(one, one.on_end(0))
    assert [row["id"] for some in found for row in some.to_pylist()] == [1, 2, 4]
    ((tag, (letters,)),) = one.take_side().items()
    assert tag == "errors"
    (letter,) = letters.to_pylist()
    assert re.match("the function raises raised ValueError: no 3", letter.pop("error"))
    assert letter == {"id": 3, "name": "n3", "error_node": "ask", "error_attempt": 0}
    assert one.counts() == {"ask": {"failed_rows": 1}}
    one.close()


async def deaf(row: dict[str, Any]) -> None:
    while not RELEASED.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


def test_a_function_that_ignores_its_cancellation_ends_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending, "GRACE_US", 50_000)
    monkeypatch.setattr(call_loop, "CLOSE_S", 0.1)
    with pytest.raises(UserError, match="deaf went on for 10 s after it was cancelled"):
        answers(chain(deaf, timeout_us=1_000, on_error="skip"), batch([1]))


async def blocks(row: dict[str, Any]) -> None:
    RELEASED.wait(60)


def test_a_function_that_never_awaits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_loop, "BLOCKED_S", 0.3)
    monkeypatch.setattr(call_loop, "CLOSE_S", 0.1)
    with pytest.raises(UserError, match=r"blocks has kept its event loop busy .*to_thread"):
        answers(chain(blocks, timeout_us=1_000), batch([1]))


def test_no_task_opens_what_is_no_function() -> None:
    with pytest.raises(PlanError, match="takes an asynchronous function, not 5"):
        chain(5)
