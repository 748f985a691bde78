"""The dataset catalogue: what each request leads to, repeated or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.control import control_pb2 as pb
from fabric.coordinator.catalog.catalogue import Catalogue
from fabric.coordinator.catalog.transactions import read_schema
from fabric.coordinator.metadata.memory import MemoryStore
from fabric.errors import ConfigError, DataError, NotFoundError, PeerLostError
from tests.support.folded import folded

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def begin_request(name: str = "d", **fields: object) -> pb.DatasetBegin:
    chosen = {"schema": SCHEMA.serialize().to_pybytes(), "mode": "create"} | fields
    return pb.DatasetBegin(name=name, **chosen)


def part(writer: str, rows: int = 1, attempt: int = 0, transaction: str = "") -> pb.CommittedPart:
    return pb.CommittedPart(transaction=transaction, writer=writer, attempt=attempt, rows=rows)


class Shop:
    """A catalogue over a store, and ids in order."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.n = 0
        self.open()

    def open(self) -> None:
        self.catalogue = Catalogue()
        self.catalogue.restore(self.store.scan("datasets"), self.store.scan("transactions"))

    def begin(self, *args: object, agents: tuple[str, ...] = ("x", "y"), **fields: object) -> str:
        self.n += 1
        request = begin_request(*args, **fields)
        made, writes = self.catalogue.begin(request, f"tx-{self.n}", agents, float(self.n))
        self.store.apply(writes)
        return made.transaction

    def commit(self, transaction: str, *parts: pb.CommittedPart) -> pb.DatasetLocation:
        request = pb.DatasetCommit(transaction=transaction, parts=parts)
        location, writes, _ = self.catalogue.commit(request)
        self.store.apply(writes)
        return location


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_create_then_append_then_overwrite(shop: Shop) -> None:
    first = shop.begin(keys=["k"], n_partitions=3)
    assert shop.catalogue.all() == []
    made = shop.commit(first, part("w0", 5), part("w1", 2, 3))
    assert (made.version, made.rows, list(made.owners)) == (1, 7, ["x", "y", "x"])
    assert (list(made.keys), made.n_partitions) == (["k"], 3)
    assert [p.transaction for p in made.parts] == [first, first]
    more = shop.begin(mode="append", agents=("z",))
    found = shop.commit(more, part("w0", 1))
    assert (found.version, found.rows, list(found.owners)) == (2, 8, ["x", "y", "x"])
    assert [p.transaction for p in found.parts] == [first, first, more]
    last = shop.begin(mode="overwrite", agents=("z",))
    found = shop.commit(last, part("w0", 1))
    assert (found.version, found.rows, list(found.owners)) == (3, 1, ["z"])


def test_append_to_nothing_creates_one_partition_an_agent(shop: Shop) -> None:
    found = shop.commit(shop.begin(mode="append"))
    assert (found.version, found.n_partitions, list(found.keys)) == (1, 2, [])


def test_commit_may_be_repeated(shop: Shop) -> None:
    transaction = shop.begin()
    once = shop.commit(transaction, part("w0"))
    again = shop.commit(transaction, part("w0"))
    assert (again.version, again.rows) == (once.version, once.rows) == (1, 1)


@pytest.mark.parametrize(
    "others", [[part("w2")], [part("w0"), part("w1", 3)], [part("w0"), part("w1", 2, 1)]]
)
def test_a_commit_is_not_repeated_with_other_parts(
    shop: Shop, others: list[pb.CommittedPart]
) -> None:
    transaction = shop.begin()
    shop.commit(transaction, part("w0"), part("w1", 2))
    with pytest.raises(ConfigError, match="committed already, with other parts"):
        shop.commit(transaction, *others)
    shop.open()
    assert shop.commit(transaction, part("w1", 2), part("w0")).rows == 3
    assert shop.commit(transaction, part("w1", 2)).rows == 3  # by who knows of no more


def test_begin_may_be_repeated_under_a_key(shop: Shop) -> None:
    first = shop.begin(idempotency_key="once")
    assert shop.begin(idempotency_key="once") == first
    assert shop.begin("other", idempotency_key="once") != first


def test_a_key_belongs_to_who_used_it(shop: Shop) -> None:
    hers = shop.begin(idempotency_key="load-7", subject="client ann")
    assert shop.begin(idempotency_key="load-7", subject="client bob") != hers
    assert shop.begin(idempotency_key="load-7") != hers
    shop.open()
    assert shop.begin(idempotency_key="load-7", subject="client ann") == hers
    with pytest.raises(ConfigError, match="at most 256 characters, got 257"):
        shop.begin(idempotency_key="x" * 257)


def test_everything_survives_a_restart(shop: Shop) -> None:
    open_one, done = shop.begin("open", idempotency_key="k"), shop.begin("done")
    shop.commit(done, part("w0", 4))
    shop.open()
    assert shop.begin("open", idempotency_key="k") == open_one
    assert shop.catalogue.get("done").rows == 4
    assert shop.commit(done, part("w0", 4)).version == 1
    assert shop.commit(open_one, part("w0")).version == 1


def test_abort_and_expire(shop: Shop) -> None:
    shop.catalogue.abort("never")
    first, second, done = shop.begin("a"), shop.begin("b"), shop.begin("c")
    shop.commit(done)
    assert shop.catalogue.abort(first)
    with pytest.raises(ConfigError, match="is committed"):
        shop.catalogue.abort(done)
    assert len(shop.catalogue.expire(older_than_s=100.0)) == 2
    for gone in (first, second, done):
        with pytest.raises(NotFoundError, match="aborted or is too old"):
            shop.commit(gone)
    assert [location.name for location in shop.catalogue.all()] == ["c"]


def test_what_was_committed_is_taken_back(shop: Shop) -> None:
    first, more = shop.begin(), shop.begin("other")
    kept = shop.commit(first, part("w0", 5))
    shop.commit(more, part("w0", 1))
    gone = shop.begin(mode="append")
    both = shop.commit(gone, part("w0", 2), part("w1", 3))
    writes, found = shop.catalogue.take_back(gone)
    shop.store.apply(writes)
    assert found is not None
    assert (found.version, found.rows, list(found.parts)) == (3, 5, list(kept.parts))
    assert both.rows == 10, "what was given out before is never changed"
    for _ in range(2):  # again is fine, also for the next coordinator
        assert shop.catalogue.take_back(gone) == ([], None)
        shop.open()
        again = shop.commit(gone, part("w0", 2), part("w1", 3))
        assert again.rows == 5, "it was committed, once"
    assert shop.catalogue.get("d").rows == 5
    assert shop.catalogue.get("other").rows == 1
    begun = shop.begin(mode="append")
    writes, found = shop.catalogue.take_back(begun)
    assert (len(writes), found) == (1, None), "an open one is forgotten"
    shop.store.apply(shop.catalogue.drop("d"))
    assert shop.catalogue.take_back(first) == ([], None)


def test_drop_takes_open_transactions_along(shop: Shop) -> None:
    shop.commit(shop.begin())
    late = shop.begin(mode="append")
    shop.store.apply(shop.catalogue.drop("d"))
    with pytest.raises(NotFoundError, match="no transaction"):
        shop.commit(late)
    with pytest.raises(NotFoundError, match="no dataset 'd'; known: none yet"):
        shop.catalogue.drop("d")
    assert list(shop.store.scan("datasets")) == list(shop.store.scan("transactions")) == []


def test_two_creates_race(shop: Shop) -> None:
    first, second = shop.begin(), shop.begin()
    shop.commit(first)
    with pytest.raises(ConfigError, match="'d' exists already; use mode 'append'"):
        shop.commit(second)
    with pytest.raises(ConfigError, match="exists already"):
        shop.begin()


def test_append_that_lost_its_dataset(shop: Shop) -> None:
    shop.commit(shop.begin())
    late = shop.begin(mode="append")
    shop.commit(shop.begin(mode="overwrite", n_partitions=5))
    with pytest.raises(ConfigError, match="was replaced after this append began"):
        shop.commit(late, part("w0"))


def test_an_open_transaction_can_be_located(shop: Shop) -> None:
    transaction = shop.begin(n_partitions=3)
    found = shop.catalogue.locate(transaction)
    assert (found.name, found.version, list(found.owners)) == ("d", 0, ["x", "y", "x"])
    shop.commit(transaction)
    assert shop.catalogue.locate("d").version == 1
    with pytest.raises(NotFoundError):
        shop.catalogue.locate(transaction)


def test_append_refuses_what_does_not_fit(shop: Shop) -> None:
    shop.commit(shop.begin(keys=["k"]))
    other = pa.schema([("k", pa.int32())]).serialize().to_pybytes()
    with pytest.raises(DataError, match=r"has columns k: int64, v: string, the rows .* k: int32"):
        shop.begin(mode="append", schema=other)
    with pytest.raises(ConfigError, match=r"partitioned by \['k'\]"):
        shop.begin(mode="append", keys=["v"])
    with pytest.raises(ConfigError, match="has 2 partitions"):
        shop.begin(mode="append", n_partitions=3)


def test_commit_refuses_what_does_not_fit(shop: Shop) -> None:
    transaction = shop.begin()
    with pytest.raises(ConfigError, match="belongs to another transaction"):
        shop.commit(transaction, part("w0", transaction="tx-9"))
    with pytest.raises(ConfigError, match="listed twice"):
        shop.commit(transaction, part("w0"), part("w0", attempt=1))
    with pytest.raises(ConfigError, match=r"writer '\.\./w' is not allowed"):
        shop.commit(transaction, part("../w"))
    with pytest.raises(ConfigError, match=f"can't have put {1 << 63} rows"):
        shop.commit(transaction, part("w0", rows=1 << 63))
    assert shop.commit(transaction, part("w0")).rows == 1


def test_nobody_to_own_it(shop: Shop) -> None:
    with pytest.raises(PeerLostError, match="no agent is attached"):
        shop.begin(agents=())


def test_schemas_from_the_wire() -> None:
    twice = pa.schema([("a", pa.int8()), ("a", pa.int8())]).serialize().to_pybytes()
    with pytest.raises(DataError, match="names a column twice"):
        read_schema(twice)
    with pytest.raises(DataError, match="at most 1048576 bytes"):
        read_schema(bytes(1 << 21))
    many = [pa.field(str(n), pa.int8()) for n in range(1000)]
    bomb = folded(pa.schema([pa.field("x" * (1 << 17), pa.int8()), *many]))
    with pytest.raises(DataError, match="names and metadata of a message have at most"):
        read_schema(bomb)
    for damaged in (b"", b"junk", bytes(100), bomb[:100]):
        with pytest.raises(DataError, match=r"message is damaged|can't be read as"):
            read_schema(damaged)


def test_a_dataset_says_which_write_made_it(shop: Shop) -> None:
    def found() -> str:
        shop.open()  # as the next coordinator reads it
        return shop.catalogue.get("d").made_by

    shop.commit(shop.begin(mode="append", idempotency_key="job-1.2.made"))
    late = shop.begin(mode="append", idempotency_key="job-2.0.made")  # begun at the same time
    more = shop.begin(mode="append", idempotency_key="job-3.1")
    shop.commit(late)
    shop.commit(more, part("w", 3))
    assert found() == "job-1.2.made"
    writes, _ = shop.catalogue.take_back(more)
    shop.store.apply(writes)
    assert found() == "job-1.2.made"
    shop.commit(shop.begin(mode="overwrite", idempotency_key="job-4.0"), part("w", 1))
    assert found() == "job-4.0"


def view_request(transaction: str, name: str = "v", **fields: object) -> pb.DatasetView:
    chosen = {"schema": SCHEMA.serialize().to_pybytes(), "keys": ["k"], "owners": ["x"], "rows": 3}
    return pb.DatasetView(name=name, transaction=transaction, **(chosen | fields))


def test_a_view_is_at_its_newest_checkpoint(shop: Shop) -> None:
    def show(transaction: str, **fields: object) -> list[str]:
        changed, dropped, writes = shop.catalogue.show(view_request(transaction, **fields))
        shop.store.apply(writes)
        shop.open()
        return [each.name for each in changed] + [f"-{name}" for name in dropped]

    assert show("view.job-1.1.5") == ["v", "v.live"]
    assert show("view.job-1.1.6") == ["v"]
    assert shop.catalogue.get("v").version == 2
    for older in ("view.job-1.1.5", "view.job-1.1.6", "view.job-1.0.9"):
        assert show(older, rows=9) == []
    assert show("view.job-1.2.1", owners=["y"]) == ["v", "v.live"]
    live = shop.catalogue.get("v.live")
    assert (live.parts[0].transaction, list(live.owners)) == ("view.job-1.2.live", ["y"])
    assert show("view.job-1.2.final") == ["v", "-v.live"]
    assert show("view.job-1.2.7") == []
    assert shop.catalogue.get("v").made_by == "view.job-1"
    assert show("view.job-2.1.1") == ["v", "v.live"]
    assert [each.rows for each in shop.catalogue.all()] == [3, 3]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"transaction": "view.job-1.1"}, "is not a checkpoint of a view"),
        ({"transaction": "tx.job-1.1.1"}, "is not a checkpoint of a view"),
        ({"transaction": "view.job-1.x.1"}, "is not a checkpoint of a view"),
        ({"transaction": "view.a/b.1.1"}, "not allowed"),
        ({"name": "../v"}, "not allowed"),
        ({"name": "v" * 125}, "not allowed"),
        ({"keys": []}, "has no key"),
        ({"owners": []}, "can't have so many partitions"),
        ({"rows": (1 << 64) - 1}, "can't have 18446744073709551615 rows"),
        ({"name": "d"}, "'d' exists and is not a view called 'd'"),
        ({"name": "e"}, "'e.live' exists and is not a view called 'e'"),
        ({"name": "f"}, "'f.live' exists and is not a view called 'f'"),
    ],
)
def test_what_can_be_no_view_is_refused(
    shop: Shop, fields: dict[str, object], message: str
) -> None:
    shop.commit(shop.begin())
    shop.commit(shop.begin("e.live"))
    shop.catalogue.show(view_request("view.job-9.1.final", name="f.live"))
    with pytest.raises(ConfigError, match=message):
        shop.catalogue.show(view_request(**({"transaction": "view.job-1.1.1"} | fields)))
    assert [each.name for each in shop.catalogue.all()] == ["d", "e.live", "f.live"]


def test_a_view_is_of_one_running_job(shop: Shop) -> None:
    shop.catalogue.show(view_request("view.job-1.1.5"), {"job-1", "job-2"})
    with pytest.raises(ConfigError, match="view 'v' is kept by job job-1, which runs"):
        shop.catalogue.show(view_request("view.job-2.1.5"), {"job-1", "job-2"})
    shop.catalogue.show(view_request("view.job-1.1.6"), {"job-1", "job-2"})
    shop.catalogue.show(view_request("view.job-2.1.5"), {"job-2"})
    assert shop.catalogue.get("v").made_by == "view.job-2"


def test_nothing_is_appended_to_a_view(shop: Shop) -> None:
    shop.catalogue.show(view_request("view.job-1.1.5"))
    for mode in ("append", "overwrite"):
        for name in ("v", "v.live"):
            with pytest.raises(ConfigError, match=f"'{name}' is a view that job job-1 keeps"):
                shop.begin(name, mode=mode)
    shop.catalogue.show(view_request("view.job-1.1.final"))
    assert shop.begin("v", mode="overwrite", keys=["k"])
    with pytest.raises(DataError):
        shop.catalogue.show(view_request("view.job-1.1.6", schema=b"no"))
