"""Pages of jobs: together they are all jobs, once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.control import control_pb2 as pb
from fabric.coordinator.runtime.job_pages import page
from fabric.errors import ConfigError
from tests.support.arrays import examples

STATES = [pb.JOB_RUNNING, pb.JOB_FINISHED, pb.JOB_FAILED]
JOBS = st.lists(
    st.builds(
        pb.JobStatus,
        job_id=st.text("ab ", min_size=1, max_size=4),
        submitted_s=st.sampled_from([0.0, 1.0, 1.1, 1e9 + 0.1]),
        state=st.sampled_from(STATES),
    ),
    max_size=20,
    unique_by=lambda job: job.job_id,
)


@given(JOBS, st.integers(1, 7), st.lists(st.sampled_from(STATES), unique=True))
@examples()
def test_pages_together_are_everything(
    jobs: list[pb.JobStatus], limit: int, states: list[pb.JobState]
) -> None:
    found: list[str] = []
    before = ""
    while True:
        told = page(jobs, pb.ListRequest(limit=limit, before=before, states=states))
        assert len(told.jobs) <= limit
        found[:0] = [job.job_id for job in told.jobs]
        if not (before := told.next):
            break
    wanted = [job for job in jobs if not states or job.state in states]
    wanted.sort(key=lambda job: (job.submitted_s, job.job_id))
    assert found == [job.job_id for job in wanted]
    assert len(page(jobs, pb.ListRequest()).jobs) == len(jobs)


def test_a_place_of_nowhere() -> None:
    with pytest.raises(ConfigError, match="`before` must be"):
        page([], pb.ListRequest(before="<script>"))
