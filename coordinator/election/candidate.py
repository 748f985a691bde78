"""One of several coordinators over one database: standby until elected, then leader, then standby.

One job: `run_elected`. The server listens all the time; what answers behind it changes with the
terms. Each term has a store and a runtime of its own, which begins by reading what is written down:
nothing of an earlier term is kept in memory. Who leads is decided in `election/election.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

import grpc

from fabric.control import control_pb2 as pb
from fabric.control.rpc import bearer, open_channel, unary
from fabric.coordinator.election.election import Election
from fabric.coordinator.election.elector import Elector
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.endpoints import serving
from fabric.coordinator.service.front import Front, Parts, Standby
from fabric.errors import FabricError, FencedError, StorageAwayError
from fabric.ids import new_id
from fabric.security.tls import read_pem

RETRY_S = 0.5
DEPOSE_S = 2.0
TOKEN_S = 60.0


def run_elected(parts: Parts, listening: Callable[[str], None], halted: threading.Event) -> None:
    """Serve until `halted`; `listening` is told the address once the database was reached."""
    front = Front(Standby(lambda: ""))
    with serving(parts, front) as address:
        candidate = _Candidate(parts, front, address)
        if candidate.reach_database(halted):
            listening(address)
            candidate.run(halted)


class _Candidate:
    """This process among those that stand for election."""

    def __init__(self, parts: Parts, front: Front, address: str) -> None:
        # optional: without metadata in a database nobody needs the driver
        from fabric.coordinator.metadata.postgres.database import Database
        from fabric.coordinator.metadata.postgres.lease import PostgresLease
        from fabric.coordinator.metadata.postgres.store import PostgresStore

        config = self._config = parts.config
        self._parts, self._clock, self._log = parts, parts.clock, parts.log
        self._front, self._address = front, address
        self._database = Database(config.metadata)
        self._store: Callable[[], PostgresStore] = lambda: PostgresStore(Database(config.metadata))
        holder = new_id(address)
        election = Election(holder, config.lease_s, config.lease_grace_s)
        lease = PostgresLease(self._database, holder, address, config.lease_s)
        self._elector = Elector(lease, election, parts.clock, parts.log)
        self._standby = Standby(lambda: self._elector.leader)

    def reach_database(self, halted: threading.Event) -> bool:
        """Wait for the database, as long as the settings say; False when halted meanwhile."""
        end_s = self._clock.monotonic_s() + self._config.metadata_wait_s
        while not halted.is_set():
            try:
                self._database.open()
            except StorageAwayError as error:
                if self._clock.monotonic_s() >= end_s:
                    raise
                self._log("waiting for the metadata store", {"error": str(error)})
                halted.wait(RETRY_S)
            else:
                return True
        return False

    def run(self, halted: threading.Event) -> None:
        """Term after term."""
        self._front.current = self._standby
        self._front.on_deposed = self._elector.told
        self._log("coordinator listens", {"address": self._address})
        self._elector.start()
        try:
            while not halted.is_set():
                if epoch := self._elector.leads():
                    self._term(epoch, halted)
                else:
                    self._elector.wait()
        finally:
            self._elector.close()
            self._database.close()

    def _term(self, epoch: int, halted: threading.Event) -> None:
        """Lead, as long as that holds."""
        try:
            self._lead(epoch, halted)
        except FencedError as error:
            self._log("leader no more", {"epoch": epoch, "error": str(error)})
            self._elector.deposed(epoch + 1)
        except StorageAwayError as error:  # before the term has begun: what it begins with is there
            self._log("metadata store away", {"epoch": epoch, "error": str(error)})
            halted.wait(RETRY_S)

    def _lead(self, epoch: int, halted: threading.Event) -> None:
        with ExitStack() as stack:
            store = self._store()
            stack.callback(store.close)
            store.open(epoch)
            parts = self._parts
            runtime = CoordinatorRuntime(
                store,
                parts.clock,
                config=parts.config,
                log=parts.log,
                signer=parts.signer,
                epoch=epoch,
            )
            stack.enter_context(runtime)
            telling = threading.Thread(target=self._tell, args=(epoch,), name="depose", daemon=True)
            telling.start()
            stack.callback(telling.join)
            self._front.current = runtime
            self._log("term begins", {"address": self._address, "epoch": epoch})
            try:
                while not halted.is_set() and self._elector.leads() == epoch and not runtime.broken:
                    self._elector.wait()
            finally:
                self._front.current = self._standby
        self._log("term ends", {"address": self._address, "epoch": epoch})
        if runtime.broken is not None:
            raise runtime.broken

    def _tell(self, epoch: int) -> None:
        """Tell the leader before us that it leads no more, if it is there: it may not know."""
        address = self._elector.predecessor
        if not address or address == self._address:
            return
        metadata = bearer(self._parts.signer.token("agent", "home", TOKEN_S, self._clock.wall_s()))
        roots = self._config.tls_roots
        try:
            channel = open_channel(address, read_pem(roots) if roots else None)
        except FabricError as error:  # it has no TLS, say, and we don't speak to it without
            self._log("the leader before is not told", {"address": address, "error": str(error)})
            return
        try:
            depose = unary(channel, "Depose", pb.Leadership)
            told = pb.Leadership(epoch=epoch, address=self._address)
            depose(told, metadata=metadata, timeout=DEPOSE_S)
        except grpc.RpcError:  # most likely it is dead, which is why we lead
            self._log("the leader before is not there", {"address": address})
        finally:
            channel.close()
