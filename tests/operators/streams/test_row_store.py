"""Rows by number and lists by group, against dicts."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fabric.operators.streams import row_store
from fabric.operators.streams.group_values import GroupLists
from fabric.operators.streams.row_store import RowStore

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def batch_of(values):
    return pa.record_batch([pa.array(values), pa.array([f"s{v}" for v in values])], schema=SCHEMA)


class Rows(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.store, self.model, self.next = RowStore(SCHEMA), {}, 0
        self.frozen = []

    @rule(n=st.integers(0, 40))
    def put(self, n):
        values = list(range(self.next, self.next + n))
        self.next += n
        numbers = self.store.put(batch_of(values)).tolist()
        assert len(set(numbers)) == n
        assert not set(numbers) & self.model.keys()
        self.model.update(zip(numbers, values, strict=True))

    @rule(share=st.floats(0, 1), seed=st.integers(0, 1000))
    def drop(self, share, seed):
        numbers = np.array(sorted(self.model), np.int64)
        numbers = np.random.default_rng(seed).permutation(numbers)[: int(share * len(numbers))]
        self.store.drop(numbers)
        for number in numbers.tolist():
            del self.model[number]

    @rule()
    def freeze(self):
        self.frozen.append((self.store.freeze(), dict(self.model)))

    @rule(seed=st.integers(0, 1000))
    def take(self, seed):
        self.check(self.store, self.model, seed)
        for frozen, model in self.frozen:
            self.check(frozen, model, seed)

    def check(self, store, model, seed):
        numbers = np.random.default_rng(seed).permutation(np.array(sorted(model), np.int64))
        taken = store.take(numbers)
        assert taken.schema.equals(SCHEMA)
        assert taken.equals(batch_of([model[number] for number in numbers.tolist()]))
        assert store.take(numbers, ["s"]).column(0).equals(taken.column("s"))

    @invariant()
    def counts(self):
        assert len(self.store) == len(self.model)
        assert len(self.store._chunks) <= 40


class Lists(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.lists, self.model = GroupLists(2), {}

    @rule(lengths=st.dictionaries(st.integers(0, 30), st.integers(0, 70), max_size=20))
    def replace(self, lengths):
        groups = np.array(list(lengths), np.int64)
        counts = np.array(list(lengths.values()), np.int64)
        entries = np.random.default_rng(len(lengths)).integers(0, 99, (int(counts.sum()), 2))
        self.lists.replace(groups, counts, entries)
        cuts = np.cumsum(counts)[:-1]
        parts = np.split(entries, cuts) if len(groups) else []
        self.model.update({g: part.tolist() for g, part in zip(lengths, parts, strict=True)})

    @rule(groups=st.sets(st.integers(0, 40)))
    def forget(self, groups):
        self.lists.forget(np.array(sorted(groups), np.int64))
        for group in groups:
            self.model[group] = []

    @rule(groups=st.lists(st.integers(0, 40)))
    def gather(self, groups):
        entries, counts = self.lists.gather(np.array(groups, np.int64))
        assert counts.tolist() == [len(self.model.get(group, [])) for group in groups]
        assert entries.tolist() == [e for group in groups for e in self.model.get(group, [])]

    @invariant()
    def groups(self):
        assert self.lists.groups().tolist() == sorted(g for g, e in self.model.items() if e)
        assert self.lists._end <= 2 * int(self.lists._room.values.sum()) + 4096


TestRows = Rows.TestCase
TestLists = Lists.TestCase
TestRows.settings = TestLists.settings = settings(max_examples=40, stateful_step_count=30)


@pytest.mark.parametrize("bytes_max", [0, 1 << 30])
def test_chunks_that_are_too_large_stay_apart(monkeypatch, bytes_max):
    monkeypatch.setattr(row_store, "_BYTES_MAX", bytes_max)
    store = RowStore(SCHEMA)
    numbers = np.concatenate([store.put(batch_of(range(i, i + 5))) for i in range(16)])
    assert len(store._chunks) == (16 if bytes_max == 0 else 2)
    assert store.take(numbers[::-1]).column("n")[0].as_py() == 19
