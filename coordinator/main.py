"""A coordinator as a process.

One job: secret, store, runtime and server from settings, until a signal comes. The secret is made
when it is missing, and with it a token for whoever may read the folder. With a database, where
there may be several of it, `election/candidate.py` goes on from there.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from fabric import failpoints
from fabric.clock import Clock, SystemClock
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.election.candidate import run_elected
from fabric.coordinator.metadata.rocksdb import RocksStore
from fabric.coordinator.runtime.log import say
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.endpoints import serving
from fabric.coordinator.service.front import Front, Parts
from fabric.errors import FabricError, StorageError
from fabric.io.places import guarding
from fabric.process import allow_descriptors, bound_arenas, forbid_cores, settle_heap
from fabric.security.secret import load_or_create
from fabric.security.tokens import Signer
from fabric.settings import load
from fabric.telemetry.logs import configure_logs

LOOK_S = 1.0
"""How often it is looked whether the metadata is still there."""
TOKEN_S = 30 * 86_400.0
"""How long the token in the home folder holds; each start makes a new one."""


def run_coordinator(
    config: CoordinatorConfig,
    ready: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`; `ready` is told the address.

    Raises
    ------
    ConfigError, StorageError, AuthError
        When the address, the folder or the secret can't be used; nothing is left running then.
    """
    failpoints.arm()
    bound_arenas()
    allow_descriptors()
    forbid_cores()
    config.check_bind()
    clock = SystemClock()
    signer = Signer(load_or_create(config.home / "secret"))
    parts = Parts(config, signer, clock, say)
    halted = stop or threading.Event()

    def listening(address: str) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: halted.set())
            settle_heap()
        write_token(config.home / "token", signer, clock)
        if ready is not None:
            ready(address)

    run = run_elected if config.metadata else _run_alone
    with guarding(config.guarded()):
        run(parts, listening, halted)


def _run_alone(parts: Parts, listening: Callable[[str], None], halted: threading.Event) -> None:
    """The only coordinator of its folder."""
    config, log = parts.config, parts.log
    store = RocksStore(config.home / "coordinator")
    with (
        CoordinatorRuntime(
            store, parts.clock, config=config, log=log, signer=parts.signer
        ) as runtime,
        serving(parts, Front(runtime)) as address,
    ):
        log("coordinator listens", {"address": address, "epoch": runtime.epoch})
        listening(address)
        broken = _until_broken(store, runtime, halted)
    if broken is not None:
        if not isinstance(broken, StorageError):
            raise broken
        why = f": {broken.__cause__}" if broken.__cause__ is not None else ""
        raise StorageError(f"{broken.message} (it is in {config.home / 'coordinator'}{why})")


def _until_broken(
    store: RocksStore, runtime: CoordinatorRuntime, halted: threading.Event
) -> FabricError | None:
    """Wait; why the coordinator can't go on, or None when it was asked to stop."""
    try:
        while runtime.broken is None and not halted.wait(LOOK_S):
            store.check()
    except StorageError as error:
        return error
    return runtime.broken


def write_token(path: Path, signer: Signer, clock: Clock) -> None:
    """Leave a token of scope "submit" in a file that only its owner can read."""
    token = signer.token("submit", "home", TOKEN_S, clock.wall_s())
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token + "\n")
        aside.replace(path)
    except OSError as error:
        raise StorageError(f"can't write the token file {path}: {error.strerror}") from error


def main() -> None:
    """The command line of ``python -m fabric.coordinator.main``; prints its address when ready."""
    parser = argparse.ArgumentParser(prog="fabric coordinator", description=__doc__)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--metadata")
    parser.add_argument("--memory")
    chosen = vars(parser.parse_args())
    configure_logs()
    run_coordinator(
        load(CoordinatorConfig, "coordinator", **chosen),
        ready=lambda address: print(f"coordinator listening on {address}", flush=True),
    )


if __name__ == "__main__":
    main()
