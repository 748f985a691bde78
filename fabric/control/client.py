"""The control API over gRPC.

One job: `GrpcControl`, which calls a coordinator elsewhere and raises `FabricError`s. It may be
used from any thread; at most `CALLS_MAX` calls are under way at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grpc

from fabric.control import control_pb2 as pb
from fabric.control.control_pb2_grpc import ControlStub
from fabric.control.rpc import CALLS_MAX, bearer, client_options, connect, from_rpc
from fabric.errors import PeerLostError

Reply = TypeVar("Reply")

CONNECT_S = 3.0
CALL_S = 30.0
PLAN_S = 300.0
"""How long planning may take: the footers of many files are read."""


class GrpcControl:
    """A coordinator at ``host:port``; see `ControlApi` for the calls."""

    def __init__(self, address: str, token: str, *, connect_s: float = CONNECT_S) -> None:
        self.address = address
        self._metadata = bearer(token)
        self._connect_s = connect_s
        self._lock = threading.Lock()
        self._calls = threading.BoundedSemaphore(CALLS_MAX)
        self._channel: Any = None
        self._stub: Any = None
        self._closed = False

    def __repr__(self) -> str:
        return f"GrpcControl({self.address!r})"

    def submit(self, request: pb.SubmitRequest) -> pb.JobStatus:
        """See `ControlApi.submit`."""
        return self._call("Submit", request, pb.JobStatus, PLAN_S)

    def explain(self, request: pb.SubmitRequest) -> pb.ExplainReply:
        """See `ControlApi.explain`."""
        return self._call("Explain", request, pb.ExplainReply, PLAN_S)

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        """See `ControlApi.watch`; closing the iterator ends the call."""
        stub = self._ready()
        call = stub.Watch(request, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise from_rpc(error, self.address) from None
        finally:
            call.cancel()

    def cancel(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `ControlApi.cancel`."""
        return self._call("Cancel", request, pb.JobStatus)

    def release(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `ControlApi.release`."""
        return self._call("Release", request, pb.JobStatus)

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        """See `ControlApi.list_jobs`."""
        return self._call("ListJobs", request, pb.JobList)

    def list_agents(self, request: pb.ListRequest) -> pb.AgentList:
        """See `ControlApi.list_agents`."""
        return self._call("ListAgents", request, pb.AgentList)

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """See `ControlApi.locate`."""
        return self._call("Locate", request, pb.Locations)

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        """See `ControlApi.dataset`."""
        return self._call("Dataset", request, pb.DatasetReply)

    def close(self) -> None:
        """Let the connection go; may be called again."""
        with self._lock:
            self._closed = True
            channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            channel.close()

    def _call(
        self, method: str, request: Any, reply: type[Reply], within_s: float = CALL_S
    ) -> Reply:
        call: Callable[..., Any] = getattr(self._ready(), method)
        with self._calls:
            try:
                answer = call(request, metadata=self._metadata, timeout=within_s)
            except grpc.RpcError as error:
                raise from_rpc(error, self.address) from None
        assert isinstance(answer, reply)
        return answer

    def _ready(self) -> Any:
        """The stub, over a channel that has been up at least once."""
        with self._lock:
            if self._closed:
                raise PeerLostError(f"this connection to {self.address} is closed")
            if self._stub is None:
                channel = grpc.insecure_channel(self.address, options=client_options())
                try:
                    connect(channel, self.address, self._connect_s)
                except PeerLostError:
                    channel.close()
                    raise
                self._channel = channel
                self._stub = ControlStub(channel)  # type: ignore[no-untyped-call]
            return self._stub
