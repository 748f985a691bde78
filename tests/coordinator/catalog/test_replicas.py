"""Who owns the partitions of replicated datasets: pure choices, and the catalogue's answers."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.control import control_pb2 as pb
from fabric.control.datasets import all_owners, by_partition, n_lacking, n_replicas, owners_of
from fabric.coordinator.catalog.catalogue import Catalogue
from fabric.coordinator.catalog.replicas import in_common, spread_out, successor
from fabric.coordinator.metadata.memory import MemoryStore
from fabric.errors import ConfigError

SCHEMA = pa.schema([("k", pa.int64())]).serialize().to_pybytes()


@given(n_agents=st.integers(1, 9), n_partitions=st.integers(1, 70), wanted=st.integers(1, 9))
def test_owners_are_distinct_and_balanced(n_agents: int, n_partitions: int, wanted: int) -> None:
    n = min(wanted, n_agents)
    agents = [f"a{i}" for i in range(n_agents)]
    owners = spread_out(agents, n_partitions, n)
    groups = [owners[p * n : (p + 1) * n] for p in range(n_partitions)]
    assert all(len(set(group)) == n for group in groups)
    for counts in (Counter(owners), Counter(group[0] for group in groups)):
        held = [counts[agent] for agent in agents]
        assert max(held) - min(held) <= n  # of n neighbours each, the round ends somewhere


@given(st.data())
def test_successors_stay_distinct_and_balance_what_is_left(data: st.DataObject) -> None:
    agents = [f"a{i}" for i in range(data.draw(st.integers(3, 8)))]
    owners = list(spread_out(agents, data.draw(st.integers(1, 40)), 2))
    gone = data.draw(st.sampled_from(agents))
    left = [agent for agent in agents if agent != gone]
    for place, owner in enumerate(owners):
        if owner != gone:
            continue
        other = owners[place ^ 1]
        counts = Counter(owners)
        load = {agent: (counts[agent], 0) for agent in left}
        taken = successor([agent for agent in left if agent != other], load)
        owners[place] = taken
    held = Counter(owners)
    assert gone not in held
    assert all(owners[i] != owners[i + 1] for i in range(0, len(owners), 2))
    assert max(held.values()) <= len(owners) / len(left) + 3


def test_owners_in_common() -> None:
    assert in_common(["a", "b", "b", "c"], ["a", "b", "c", "d"], 2) == ("a", "b", "", "c")
    assert in_common(["a", "b"], ["a"], 1) is None
    assert in_common(["a", ""], ["", "b"], 2) is None  # nobody is nobody's replica


def test_a_location_of_an_older_fabric_has_one_owner_a_partition() -> None:
    old = pb.DatasetLocation(name="d", n_partitions=3, owners=["a", "b", "a"])
    assert n_replicas(old) == 1
    assert list(by_partition(old)) == [["a"], ["b"], ["a"]]
    assert n_lacking(old, {"a"}) == 1


class Shop:
    """A catalogue over a store."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.open()
        self.n = 0

    def open(self) -> None:
        self.catalogue = Catalogue()
        self.catalogue.restore(self.store.scan("datasets"), self.store.scan("transactions"))

    def begin(self, agents: str = "abc", mode: str = "create", **fields: int) -> str:
        self.n += 1
        request = pb.DatasetBegin(name="d", schema=SCHEMA, mode=mode, **fields)
        made, writes = self.catalogue.begin(request, f"tx-{self.n}", list(agents), 1.0)
        self.store.apply(writes)
        return made.transaction

    def commit(self, transaction: str) -> pb.DatasetLocation:
        part = pb.CommittedPart(writer="w", rows=2)
        request = pb.DatasetCommit(transaction=transaction, parts=[part])
        location, writes, _ = self.catalogue.commit(request)
        self.store.apply(writes)
        return location

    def move(self, place: int, owner: str) -> pb.DatasetLocation:
        location, writes = self.catalogue.move("d", place, owner)
        self.store.apply(writes)
        return location


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_a_dataset_has_its_replicas_and_appends_keep_them(shop: Shop) -> None:
    made = shop.commit(shop.begin(n_partitions=2, replicas=2))
    assert (made.n_partitions, made.replicas, made.rows) == (2, 2, 2)
    assert list(made.owners) == ["a", "b", "b", "c"]
    assert [owners_of(made, 1), all_owners(made)] == [["b", "c"], ["a", "b", "c"]]
    shop.open()
    more = shop.commit(shop.begin("z", mode="append"))
    assert (list(more.owners), more.replicas, more.rows) == (list(made.owners), 2, 4)
    assert shop.begin(mode="append", replicas=2)
    with pytest.raises(ConfigError, match="has replicas=2, an append can't have replicas=3"):
        shop.begin(mode="append", replicas=3)
    over = shop.commit(shop.begin(mode="overwrite"))
    assert (over.n_partitions, n_replicas(over)) == (3, 1)


def test_more_replicas_than_agents_are_refused(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="replicas=3 needs as many agents, and 2 are attached"):
        shop.begin("ab", replicas=3)
    with pytest.raises(ConfigError, match="replicas=2 needs as many agents, and 1 is attached"):
        shop.begin("a", replicas=2)


def test_transactions_written_before_there_were_replicas_are_read(shop: Shop) -> None:
    begun = shop.begin(n_partitions=2)
    ((key, record),) = shop.store.scan("transactions")
    from fabric.coordinator.metadata.store import Write

    assert b'"replicas": 1, ' in record
    shop.store.apply([Write("transactions", key, record.replace(b'"replicas": 1, ', b""))])
    shop.open()
    assert list(shop.commit(begun).owners) == ["a", "b"]


def test_an_owner_that_moved_keeps_the_version(shop: Shop) -> None:
    made = shop.commit(shop.begin(n_partitions=1, replicas=2))
    moved = shop.move(1, "c")
    assert (list(moved.owners), moved.version) == (["a", "c"], made.version)
    assert list(made.owners) == ["a", "b"]  # what was given out is never changed
    shop.open()
    assert list(shop.catalogue.get("d").owners) == ["a", "c"]


def test_an_append_that_began_before_a_move_counts_only_who_has_all(shop: Shop) -> None:
    shop.commit(shop.begin(n_partitions=2, replicas=2))  # a b, b c
    late = shop.begin(mode="append")
    shop.move(1, "c")  # of partition 0: b's place
    found = shop.commit(late)
    assert list(found.owners) == ["a", "", "b", "c"]
    assert (found.rows, n_lacking(found, {"a", "b", "c"})) == (4, 1)


def test_an_append_that_nobody_has_wholly_is_refused(shop: Shop) -> None:
    shop.commit(shop.begin(n_partitions=1, replicas=2))
    late = shop.begin(mode="append")
    shop.move(0, "c")
    shop.move(1, "d")
    with pytest.raises(ConfigError, match="was replaced after this append began; begin again"):
        shop.commit(late)
