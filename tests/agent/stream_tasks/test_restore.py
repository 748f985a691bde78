"""Where a task of a stream begins."""

from __future__ import annotations

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.stream_tasks.restore import context_of
from fabric.control import control_pb2 as pb


def test_each_node_is_told_where_its_state_lies() -> None:
    states = {
        "own": pb.NodeState(state="rocksdb"),
        "top": pb.NodeState(state="tonbo", bytes=7),
        "new": pb.NodeState(state="of a later version"),
    }
    begin = sp.Begin(task=1, n_tasks=2, scratch="/x", stream=pb.StreamDeploy(states=states))
    found = context_of("out", begin)
    told = {node: found.at(node, None, ()) for node in ("own", "top", "new", "filter_1")}
    assert {node: (one.state, one.state_bytes) for node, one in told.items()} == {
        "own": ("rocksdb", None),
        "top": ("tonbo", 7),
        "new": ("memory", None),
        "filter_1": ("memory", None),
    }
    assert {(one.node, one.task, one.n_tasks) for one in told.values()} == {
        (node, 1, 2) for node in told
    }
