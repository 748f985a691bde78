from __future__ import annotations

from fabric.control import control_pb2 as pb
from fabric.flight.locations import LocationTable


def edge(job: str, node: str, number: int = 0, rows: int = 0) -> pb.EdgeLocation:
    return pb.EdgeLocation(job_id=job, node_path=node, edge=number, rows=rows)


def dataset(name: str, version: int) -> pb.DatasetLocation:
    return pb.DatasetLocation(name=name, version=version)


def test_newer_messages_win_and_older_ones_change_nothing() -> None:
    table = LocationTable()
    assert table.apply(pb.Locations(version=5, edges=[edge("j", "n", rows=5)])).applied
    assert not table.apply(pb.Locations(version=4, edges=[edge("j", "n", rows=4)])).applied
    assert table.version == 5
    found = table.edge("j", "n")
    assert found is not None
    assert found.rows == 5
    assert table.edge("j", "m") is None


def test_a_full_message_replaces_and_says_what_went() -> None:
    table = LocationTable()
    table.apply(
        pb.Locations(
            version=1, edges=[edge("j", "n"), edge("k", "n")], datasets=[dataset("d", 1)],
            addresses={"a": "x"},
        )
    )  # fmt: skip
    full = pb.Locations(version=2, full=True, edges=[edge("k", "n")], addresses={"b": "y"})
    changes = table.apply(full)
    assert changes.dropped_jobs == ("j",)
    assert [d.name for d in changes.dropped_datasets] == ["d"]
    assert [e.job_id for e in table.edges()] == ["k"]
    assert (table.address("a"), table.address("b")) == (None, "y")
    assert table.datasets() == []


def test_drops_give_the_last_known_place() -> None:
    table = LocationTable()
    table.apply(pb.Locations(version=1, edges=[edge("j", "n")], datasets=[dataset("d", 3)]))
    changes = table.apply(
        pb.Locations(version=2, dropped_jobs=["j"], dropped_datasets=["d", "unknown"])
    )
    assert changes.dropped_jobs == ("j",)
    assert [d.version for d in changes.dropped_datasets] == [3]
    assert table.edges() == []


def test_answers_never_take_back_what_was_pushed() -> None:
    table = LocationTable()
    table.apply(
        pb.Locations(
            version=7, edges=[edge("j", "n", rows=9)], datasets=[dataset("d", 3)],
            addresses={"a": "new"},
        )
    )  # fmt: skip
    table.merge(
        pb.Locations(
            version=99, edges=[edge("j", "n", rows=1), edge("j", "m", 4)],
            datasets=[dataset("d", 2), dataset("e", 1)], addresses={"a": "old", "b": "x"},
        )
    )  # fmt: skip
    assert table.version == 7
    assert [(e.node_path, e.rows) for e in table.edges("j")] == [("m", 0), ("n", 9)]
    assert [(d.name, d.version) for d in table.datasets()] == [("d", 3), ("e", 1)]
    assert table.addresses() == {"a": "new", "b": "x"}
    numbered = table.edge_numbered("j", 4)
    assert numbered is not None
    assert numbered.node_path == "m"
    assert table.edge_numbered("x", 4) is None


def test_an_answer_that_knows_more_producers_is_newer() -> None:
    table, fuller = LocationTable(), edge("j", "n")
    table.apply(pb.Locations(version=7, edges=[edge("j", "n")]))
    fuller.producers.add(task=1, agent_id="a")
    table.merge(pb.Locations(edges=[fuller]))
    table.merge(pb.Locations(edges=[edge("j", "n")]))
    assert table.edge("j", "n") == fuller


def test_what_it_gives_out_does_not_change() -> None:
    table = LocationTable()
    message = pb.Locations(version=1, datasets=[dataset("d", 1)])
    table.apply(message)
    held = table.dataset("d")
    message.datasets[0].version = 9
    table.apply(pb.Locations(version=2, datasets=[dataset("d", 2)]))
    assert held is not None
    assert held.version == 1
    table.forget_dataset("d")
    assert table.dataset("d") is None
