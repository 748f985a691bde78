"""Any rows from several agents over broken connections: those of the producers, or a typed error.

The oracle is what was cut for each (producer, partition), as text.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.store.store import Store
from fabric.errors import PartitionLostError, PeerLostError
from fabric.flight.header import Event
from fabric.flight.remote import FlightTransport
from fabric.flight.ticket import PartitionRequest
from fabric.ids import EdgeId
from tests.support.arrays import batches, examples, rendered
from tests.support.cut_proxy import CutProxy, How
from tests.support.flight_rig import FlightRig

JOB, NODE, EDGE = "job-1", "moved", 2
AGENTS = ("a0", "a1")
CUTS = st.lists(st.integers(0, 3_000) | st.integers(0, 60_000), max_size=4)
Rows = list[list[str]]


@dataclass
class Written:
    """What lies with each agent: by producer, the slices of each partition."""

    n_partitions: int
    agent_of: dict[int, str] = field(default_factory=dict)
    slices: dict[tuple[int, int], list[pa.RecordBatch]] = field(
        default_factory=lambda: defaultdict(list)
    )


@dataclass(frozen=True)
class Fabric:
    """Two agents with stores of their own."""

    rig: FlightRig
    stores: Mapping[str, Store]


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    stores = {agent: Store(agent) for agent in AGENTS}
    with FlightRig(tmp_path_factory.mktemp("rig"), len(AGENTS), stores=stores) as rig:
        yield Fabric(rig, stores)


def text_of(found: list[pa.RecordBatch]) -> Rows:
    """Rows as text, column by column; nothing for no rows."""
    some = [batch for batch in found if batch.num_rows]
    if not some:
        return []
    return [[v for b in some for v in rendered(b.column(i))] for i in range(some[0].num_columns)]


@st.composite
def written(draw: st.DrawFn, stores: Mapping[str, Store]) -> Written:
    """Random rows, cut at random, of up to three producers; sealed."""
    rows = draw(batches())
    done = Written(draw(st.integers(1, 4)))
    for task in range(draw(st.integers(1, 3))):
        agent = done.agent_of[task] = draw(st.sampled_from(AGENTS))
        edge, store = EdgeId(JOB, EDGE), stores[agent]
        compression = draw(st.sampled_from(["", "lz4", "zstd"]))
        store.begin(
            edge.job, edge.edge, rows.schema, done.n_partitions, task, 0, compression=compression
        )
        for _ in range(draw(st.integers(0, 3))):
            batch = rows.slice(draw(st.integers(0, rows.num_rows)))
            cuts = st.lists(
                st.integers(0, batch.num_rows),
                min_size=done.n_partitions - 1,
                max_size=done.n_partitions - 1,
            )
            offsets = [0, *sorted(draw(cuts)), batch.num_rows]
            store.append(edge.job, edge.edge, task, 0, batch, np.array(offsets, np.int64))
            for partition, (begin, end) in enumerate(itertools.pairwise(offsets)):
                done.slices[task, partition].append(batch.slice(begin, end - begin))
        store.seal(edge.job, edge.edge, task, 0)
    return done


def fetched(transport: FlightTransport, address: str, request: PartitionRequest) -> dict[int, Rows]:
    """Rows of each producer, as they came; every one has ended with the right total."""
    found: dict[int, list[pa.RecordBatch]] = {task: [] for task, _ in request.producers}
    totals = {}
    for header, batch in transport.fetch(address, request):
        if batch is not None:
            found[header.producer].append(batch)
        elif header.event is Event.END:
            totals[header.producer] = header.total_rows
    assert totals == {task: sum(b.num_rows for b in came) for task, came in found.items()}
    return {task: text_of(came) for task, came in found.items()}


@examples(0.4)
@given(data=st.data(), cuts=st.tuples(CUTS, CUTS), how=st.sampled_from(["reset", "close"]))
def test_rows_are_those_of_the_producers(
    fabric: Fabric, data: st.DataObject, cuts: tuple[list[int], list[int]], how: How
) -> None:
    with ExitStack() as stack:
        for store in fabric.stores.values():
            stack.callback(store.release, JOB)
        done = data.draw(written(fabric.stores))
        transport = FlightTransport(fabric.rig.signer, agent_id="a9", idle_s=10.0)
        stack.callback(transport.close)
        for agent, own_cuts in zip(AGENTS, cuts, strict=True):
            producers = tuple((task, 0) for task, at in done.agent_of.items() if at == agent)
            port = int(fabric.rig.address(agent).rpartition(":")[2])
            proxy = stack.enter_context(CutProxy(port, own_cuts, how))
            for partition in range(done.n_partitions) if producers else ():
                request = PartitionRequest(
                    job=JOB, edge=EDGE, node_path=NODE, partition=partition, producers=producers
                )
                lost, rows = None, {}
                try:
                    rows = fetched(transport, proxy.address, request)
                except (PeerLostError, PartitionLostError) as error:
                    lost = error
                if lost is not None:
                    assert proxy.n_cut > 1  # one is made good for
                    assert (lost.where.agent, lost.where.node) == (proxy.address, NODE)
                    continue
                assert rows == {
                    task: text_of(done.slices[task, partition]) for task, _ in producers
                }
    assert all(store.stored_bytes == 0 for store in fabric.stores.values())
