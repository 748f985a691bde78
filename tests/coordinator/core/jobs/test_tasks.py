"""What is counted beside the tasks of a job is what counting them all gives."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.jobs.tasks import Counts, Tasks

N_STAGES, N_TASKS = 2, 3
KEY = st.tuples(st.integers(0, N_STAGES - 1), st.integers(0, N_TASKS - 1))
TOTALS = st.dictionaries(st.integers(0, 1), st.tuples(st.integers(0, 9), st.integers(0, 99)))
CHANGE = st.one_of(
    st.fixed_dictionaries({"given": st.booleans(), "agent_id": st.sampled_from("xyz")}),
    st.fixed_dictionaries({"state": st.sampled_from(pb.TaskState.values())}),
    st.fixed_dictionaries({"rows_out": st.integers(0, 9), "totals": TOTALS}),
    st.fixed_dictionaries({"lost": st.booleans()}),
    st.fixed_dictionaries({"attempt": st.integers(0, 5)}),
)
PLAN = st.tuples(st.integers(0, N_STAGES), st.lists(st.sampled_from("xyz"), min_size=N_TASKS))


def recounted(tasks: Tasks, stage: int) -> Counts:
    """One stage's counts, the slow way."""
    all_of_it = tasks.stage(stage)
    totals: dict[int, tuple[int, int]] = {}
    for task in all_of_it:
        for edge, (rows, size) in task.totals.items():
            before = totals.get(edge, (0, 0))
            totals[edge] = (before[0] + rows, before[1] + size)
    return Counts(
        waiting=[number for number, task in enumerate(all_of_it) if not task.given],
        running=sum(task.state == pb.TASK_RUNNING for task in all_of_it),
        finished=sum(task.finished for task in all_of_it),
        lost=sum(task.lost for task in all_of_it),
        rows_out=sum(task.rows_out for task in all_of_it),
        totals=totals,
    )


@given(steps=st.lists(st.tuples(KEY, CHANGE) | PLAN, max_size=30))
def test_counts_follow_every_change(steps: list[object]) -> None:
    tasks = Tasks([["x"] * N_TASKS] * N_STAGES)
    n_stages = N_STAGES
    for step in steps:
        match step:
            case (int(stage), list(agents)):
                tasks.plan(stage, agents)
                n_stages = max(n_stages, stage + 1)
            case (key, dict(change)):
                tasks[key] = tasks[key]._replace(**change)
    for stage in range(n_stages):
        counts, wanted = tasks.of(stage), recounted(tasks, stage)
        counts.totals = {edge: total for edge, total in counts.totals.items() if any(total)}
        wanted.totals = {edge: total for edge, total in wanted.totals.items() if any(total)}
        assert counts == wanted
        assert tasks.all_finished(stage) is all(task.finished for task in tasks.stage(stage))
    every = list(tasks.values())
    assert tasks.at_work == Counter(task.agent_id for task in every if task.active)
    assert tasks.n_attempts == sum(task.attempt for task in every)
    assert tasks.n_waiting == sum(not task.given for task in every)
    assert tasks.n_finished == sum(task.finished for task in every)
    assert len(tasks) == len(every) == len(list(tasks))
    assert [tasks.get(key) for key in tasks] == every


def test_a_task_does_not_change_behind_the_counts() -> None:
    tasks = Tasks([["x"]])
    with pytest.raises(AttributeError, match="can't set attribute"):
        tasks[0, 0].lost = True  # type: ignore[misc]
    for key in ((0, 1), (1, 0), (-1, 0), (0, -1)):
        assert tasks.get(key) is None
