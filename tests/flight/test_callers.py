"""An agent says whom it asks the coordinator for, and who was refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric.control import control_pb2 as pb
from fabric.errors import AuthError
from fabric.flight.client import Client
from fabric.flight.connections import connect
from fabric.security.callers import who
from tests.support.flight_rig import FlightRig

ROWS = pa.table({"k": range(10)})


def test_it_asks_for_whose_token_it_was(rig: FlightRig) -> None:
    asked: dict[str, str] = {}
    cancel, dataset = rig.control.cancel, rig.control.dataset

    def watched_cancel(request: pb.JobRequest) -> pb.JobStatus:
        asked["cancel"] = who()
        return cancel(request)

    def watched_dataset(request: pb.DatasetRequest) -> pb.DatasetReply:
        asked[request.WhichOneof("kind") or ""] = who()
        return dataset(request)

    rig.control.cancel = watched_cancel  # type: ignore[method-assign]
    rig.control.dataset = watched_dataset  # type: ignore[method-assign]
    token = rig.token("submit")
    subject = rig.signer.verify(token, ["submit"], rig.clock.wall_s()).subject
    rig.add_edge("job-1", "n", {("a0", 0, 0): ROWS})
    rig.control.jobs.jobs.add(job_id="job-1", state=pb.JOB_RUNNING)
    with Client(rig.address(), token) as client:
        client.put(["dataset", "d"], ROWS.schema, ROWS.to_batches())
        client.action("dataset.drop", name="d")
        info = client.info(["job", "job-1", "n"])
    with connect(rig.address()) as plain:
        options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        data = info.serialize()
        body = b"\x0a" + _varint(len(data)) + data
        list(plain.do_action(fl.Action("CancelFlightInfo", body), options))
    assert asked["drop"] == subject
    assert asked["cancel"] == subject


def _varint(number: int) -> bytes:
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def test_a_refused_call_is_told_with_its_peer(
    rig: FlightRig, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(rig.address(), "nonsense") as client, pytest.raises(AuthError):
        client.action("healthcheck")
    said: Any = capsys.readouterr().err
    assert "call refused" in said
    assert "somebody from 127.0.0.1:" in said
    assert "nonsense" not in said
