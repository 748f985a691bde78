"""Rows in flight that a task goes on with: over edges of its plan, or straight into its steps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from fabric._cython.kernels.hash import hash_columns, partition_of
from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.stream_tasks.inflight import (
    InflightEdge,
    InflightRows,
    RestoredRows,
    inflight_edges,
    restored_rows,
    steps_of,
)
from fabric.checkpoint.manifest import INFLIGHT, Manifest, TaskSnapshot
from fabric.checkpoint.storage import FolderStorage
from fabric.control import control_pb2 as pb
from fabric.errors import DataError
from fabric.operators.snapshots import key_groups
from fabric.plan.expr import Alias, Column
from fabric.plan.nodes import Deduplicate, Filter, Select, StageInput, StreamJoin

JOB = "job-1"
SCHEMA = pa.schema([("v", pa.int64())])


def edge(
    path: str, *readers: str, keys: tuple[str, ...] = (), number: int = 0, n: int = 1
) -> InflightEdge:
    return InflightEdge(number, path, readers, keys, SCHEMA, tuple(range(n)))


@pytest.fixture
def storage(tmp_path: Path) -> FolderStorage:
    made = FolderStorage(tmp_path / "root")
    made.prepare(JOB)
    return made


def stored(
    storage: FolderStorage,
    edge: InflightEdge,
    values: list[int],
    *,
    task: int = 0,
    n_tasks: int = 1,
) -> TaskSnapshot:
    node = f"{edge.path}{INFLIGHT}"
    writer = storage.writer(JOB, 1, node, task, 0)
    InflightRows(edge, {task: [pa.record_batch({"v": values})]}).write(writer)
    return TaskSnapshot(node, task, 0, key_groups(task, n_tasks), writer.finish())


def restored(
    storage: FolderStorage,
    tasks: list[TaskSnapshot],
    edges: list[InflightEdge],
    steps: list[str] | dict[str, tuple[str, ...]],
    *,
    task: tuple[int, int] = (0, 1),
) -> RestoredRows:
    manifest = Manifest(
        job=JOB, checkpoint=1, epoch=1, run=0, wall_us=1, tasks=tuple(tasks), nodes=()
    )
    keys = steps if isinstance(steps, dict) else dict.fromkeys(steps, ())
    return restored_rows(
        manifest, lambda snapshot: storage.reader(manifest, snapshot), edges, keys, task
    )


def into(found: RestoredRows) -> list[tuple[str, list[int]]]:
    return [(step, batch["v"].to_pylist()) for step, batch in found.into]


def over(found: RestoredRows) -> list[tuple[int, int, list[int]]]:
    """Edge, producer and values of each item."""
    return [
        (edge, item.producer, item.batch["v"].to_pylist())
        for edge, item in found.items
        if isinstance(item, Rows)
    ]


def test_rows_into_the_last_steps_come_first(storage: FolderStorage) -> None:
    """What the first step makes of its rows is newer than what waits for the second."""
    counts, totals = edge("counts/exchange", "counts"), edge("totals/exchange", "totals")
    tasks = [
        stored(storage, counts, [1], n_tasks=2), stored(storage, counts, [2], task=1, n_tasks=2),
        stored(storage, totals, [3]),
    ]  # fmt: skip
    found = restored(storage, tasks, [], ["scan", "counts", "totals"])
    assert not found.items
    assert into(found) == [("totals", [3]), ("counts", [1]), ("counts", [2])]


def test_rows_of_an_edge_that_is_named_like_its_step_go_to_the_steps_that_read_it(
    storage: FolderStorage,
) -> None:
    """An edge to a second branch is called like the step that both read."""
    tasks = [
        stored(storage, edge("shared", "few", "few"), [1]),
        stored(storage, edge("x", "y"), [2]),
    ]
    assert into(restored(storage, tasks, [], ["shared", "few"])) == [("few", [1]), ("few", [1])]
    assert into(restored(storage, tasks, [], ["shared", "many"])) == []


def test_an_edge_to_the_same_steps_takes_the_rows_whatever_it_is_called(
    storage: FolderStorage,
) -> None:
    tasks = [
        stored(storage, edge("late", "again"), [1]),
        stored(storage, edge("main", "again"), [2]),
    ]
    edges = [edge("main", "again", number=4), edge("once", "other", number=5)]
    found = restored(storage, tasks, edges, ["other", "again"])
    assert over(found) == [(4, 0, [2]), (4, 0, [1])]  # farther from the step: newer
    assert not found.into


@pytest.mark.parametrize("n_tasks", [1, 2, 3])
def test_rows_behind_a_keyed_step_stay_with_their_keys(
    storage: FolderStorage, n_tasks: int
) -> None:
    """A forward edge of two tasks: rows were where their keys were hashed to."""
    values = list(range(60))
    at = partition_of(hash_columns([pa.array(values)]), 2)
    before = edge("once", "again", keys=("v",), n=2)
    tasks = [
        stored(storage, before, [v for v in values if at[v] == task], task=task, n_tasks=2)
        for task in range(2)
    ]
    now = partition_of(hash_columns([pa.array(values)]), n_tasks)
    for task in range(n_tasks):
        message = pb.InputEdge(
            edge=7, kind=pb.EDGE_FORWARD, mode=pb.MODE_PIPELINED, n_partitions=n_tasks,
            schema=SCHEMA.serialize().to_pybytes(), node_path="once", keys=["v"], readers=["again"],
            producers=[pb.Producer(task=each) for each in range(n_tasks)],
        )  # fmt: skip
        edges = inflight_edges([message], task)
        found = restored(storage, tasks, edges, ["again"], task=(task, n_tasks))
        assert {(number, producer) for number, producer, _ in over(found)} == {(7, task)}
        got = sorted(value for *_, rows in over(found) for value in rows)
        assert got == [value for value in values if now[value] == task]


def test_rows_without_keys_go_to_one_task_each(storage: FolderStorage) -> None:
    old = edge("late", "again", n=3)
    tasks = [stored(storage, old, [task], task=task, n_tasks=3) for task in range(3)]
    found = [
        over(restored(storage, tasks, [edge("late", "again", n=2)], ["again"], task=(task, 2)))
        for task in range(2)
    ]
    assert found == [[(0, 0, [0]), (0, 0, [2])], [(0, 1, [1])]]


def test_rows_into_a_step_below_a_keyed_one_are_dealt_out_by_its_keys(
    storage: FolderStorage,
) -> None:
    """One task had gathered them; now they stay in those of the keyed step before, by its keys."""
    once = Deduplicate(StageInput(0, SCHEMA, path="in"), (Column("v"),), path="once")
    shown = Select(Filter(once, Column("v"), path="few"), (Alias(Column("v"), "w"),), path="shown")
    again = Deduplicate(shown, (Column("w"),), path="again")
    steps = steps_of(again)
    assert list(steps.items()) == [
        ("once", ("v",)), ("few", ("v",)), ("shown", ("v",)), ("again", ("w",)),
    ]  # fmt: skip
    values = list(range(30))
    now = partition_of(hash_columns([pa.array(values)]), 2)
    tasks = [stored(storage, edge("few/gather", "few"), values)]
    for task in range(2):
        found = restored(storage, tasks, [], steps, task=(task, 2))
        assert into(found) == [("few", [value for value in values if now[value] == task])]


def test_rows_into_a_side_of_a_join_go_by_the_keys_of_that_side() -> None:
    left, right = (
        Select(StageInput(number, SCHEMA, path="in"), (Alias(Column("v"), name),), path=f"j/{side}")
        for number, (name, side) in enumerate([("a", "left"), ("b", "right")])
    )
    keys = (Column("a"),), (Column("b"),)
    join = StreamJoin(left, right, *keys, "a", "b", 0, 0, path="j")
    assert steps_of(join) == {"j/left": ("v",), "j/right": ("v",), "j": ()}


def test_rows_that_an_earlier_release_wrote_have_the_step_in_their_path(
    storage: FolderStorage,
) -> None:
    writer = storage.writer(JOB, 1, f"counts/exchange{INFLIGHT}", 0, 0)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as file:
        file.write_batch(pa.record_batch({"v": [1]}))
    writer.put("000000.arrow", sink.getvalue())
    old = TaskSnapshot(f"counts/exchange{INFLIGHT}", 0, 0, key_groups(0, 1), writer.finish())
    assert into(restored(storage, [old], [], ["counts"])) == [("counts", [1])]
    spread = edge("counts/exchange", "other", number=3)
    assert over(restored(storage, [old], [spread], ["other"])) == [(3, 0, [1])]


def test_other_columns_are_refused(storage: FolderStorage) -> None:
    old = stored(storage, edge("counts/exchange", "counts"), [1])
    other = InflightEdge(
        0, "counts/exchange", ("counts",), (), pa.schema([("w", pa.int64())]), (0,)
    )
    with pytest.raises(DataError, match=r"columns \['v'\], and this plan needs \['w'\]"):
        restored(storage, [old], [other], ["counts"])
