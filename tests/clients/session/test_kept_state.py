"""The handle of a state: which keys it takes, and what it asks its session for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fabric.clients.session import kept_state
from fabric.clients.session.kept_state import KeptState, StateFacts, StatePath
from fabric.errors import DataError, NotFoundError

COUNTS = pa.table({"k": pa.array(range(1000), pa.int64()), "n": pa.array(range(1000))})
TOTAL = pa.table({"n": [7]})


class Host:
    """A session with one state, or none."""

    def __init__(self, rows: pa.Table = COUNTS, keys: tuple[str, ...] = ("k",)) -> None:
        self.rows, self.keys = rows, keys
        self.listed = [("state", "job-1", "counts", "groups")]
        self.asked: list[pa.Table] = []

    def state_facts(self, path: StatePath) -> StateFacts:
        if not self.listed:
            raise NotFoundError("job job-1 keeps no state at 'counts'; steps with state: none")
        return StateFacts(path, self.rows.schema, self.keys, 3)

    def states(self, job: str = "") -> list[StateFacts]:
        return [self.state_facts(path) for path in self.listed]

    def state_rows(self, path: StatePath, limit: int = 0) -> pa.Table:
        return self.rows.slice(0, limit or None)

    def state_rows_of(self, path: StatePath, keys: pa.Table) -> pa.Table:
        self.asked.append(keys)
        return self.rows.take(pa.array([key for key in keys["k"].to_pylist() if key < 1000]))

    def read_arrow(self, data: pa.Table) -> Any:
        return data


def state_of(host: Host) -> KeptState:
    return KeptState(host, "job-1", "counts")


@pytest.mark.parametrize(
    "keys",
    [
        [5, 3],
        (key for key in (5, 3)),
        {5: "", 3: ""}.keys(),
        pa.array([5, 3]),
        pa.chunked_array([[5], [3]]),
        np.array([5, 3]),
        pd.Series([5, 3]),
        pl.Series([5, 3]),
        {"k": [5, 3]},
        pa.table({"k": [5, 3]}),
        pd.DataFrame({"k": [5, 3]}),
        pl.DataFrame({"k": [5, 3]}),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_keys_of_any_kind(keys: Any) -> None:
    assert state_of(Host()).get_many(keys)["n"].to_pylist() == [5, 3]


@pytest.mark.parametrize("keys", [7, "ab", b"ab", None, ["a"], [5.5]])
def test_what_is_no_key_is_said(keys: Any) -> None:
    with pytest.raises(DataError, match="keys"):
        state_of(Host()).get_many(keys)


def test_a_key_is_answered_once_also_across_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_state, "AT_ONCE", 2)
    host = Host()
    assert state_of(host).get_many([1, 2, 1, 3, 2, 1])["n"].to_pylist() == [1, 2, 3]
    assert [len(keys) for keys in host.asked] == [2, 1]


def test_a_state_without_keys_answers_with_its_row() -> None:
    state = state_of(Host(TOTAL, ()))
    for keys in ([], [()], pa.table({})):
        assert state.get_many(keys).to_pylist() == [{"n": 7}]
    assert state.get() == [{"n": 7}]


def test_the_first_rows_alone() -> None:
    assert state_of(Host()).table(limit=4).num_rows == 4


def test_why_there_is_no_state_at_all() -> None:
    host = Host()
    host.listed = []
    with pytest.raises(NotFoundError, match="steps with state: none"):
        state_of(host)
