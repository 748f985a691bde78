"""Runs one server for as long as somebody needs it, and no longer.

One job: `main`, a program of its own. It starts a command, prints its process id and reads its
standard input, to which whoever needs the server keeps the other end open; at its end the server is
killed, for the kernel closes what a killed process held. So no server outlives a run, however that
ends, and one that a thread started does not end with the thread. When the server ends by itself,
so does this. It needs Python's own modules alone and is run by its path, so it starts at once.

A named pipe as standard input may have many writers, who come and go: `--lock FILE` is held while
it is looked whether there is still one, so who holds it may rely on what it sees.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

_STOP_S = 10.0


def main(arguments: list[str]) -> int:
    """``keeper.py [--lock FILE] [--remove FOLDER] -- COMMAND…``; the command's exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock", type=Path)
    parser.add_argument("--remove", type=Path, action="append", default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    server = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *options.command],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        start_new_session=True,
    )
    print(server.pid, flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever reads it sees its end
    unwanted = threading.Event()
    threading.Thread(target=_watch, args=(server, options.lock, unwanted), daemon=True).start()
    code = server.wait()
    if unwanted.is_set():
        for folder in options.remove:
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
            else:
                folder.unlink(missing_ok=True)
    return code


def _watch(server: subprocess.Popen[bytes], lock: Path | None, unwanted: threading.Event) -> None:
    """Stop the server when nobody is left who needs it."""
    while not _left(lock):
        pass
    unwanted.set()
    with contextlib.suppress(ProcessLookupError):
        server.send_signal(signal.SIGCONT)  # it may be paused
        server.terminate()
    time.sleep(_STOP_S)
    server.kill()


def _left(lock: Path | None) -> bool:
    """Wait for the end of standard input; false when somebody came meanwhile."""
    while os.read(0, 4096):
        pass
    if lock is None:
        return True
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        if not any(event & select.POLLHUP for _, event in poll.poll(0)):
            return False
        with contextlib.suppress(FileNotFoundError):
            lock.with_suffix(".pipe").unlink()
        return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
