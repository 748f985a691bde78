"""A network of this machine's own, whose lines can be cut one way or both, or made slow (Linux).

One job: `Network`. Each place is a network namespace with one line to a router, which is another
one; the test itself has a line too. The router drops what it is told to, without a word, as a cut
cable does: `ip rule … blackhole` by source, destination and port, so that iproute2 is all it takes.
Needs root. Nothing has a name in the system: namespaces live as long as the processes that hold
them, and those die with the thread that made the network, even when that is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType

from fabric.errors import ExternalError
from tests.support.wait import wait_until

TOOLS = ("ip", "tc", "nsenter", "unshare", "setpriv", "openssl")
HERE = "test"
"""The place of the test itself."""


def why_not() -> str | None:
    """Why there can be no network here; None when there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"network namespaces need {', '.join(missing)}" if missing else None


class Network:
    """Places and the lines between them; use it in a ``with``, in the test's main thread."""

    def __init__(self) -> None:
        if reason := why_not():
            raise ExternalError(reason)
        self._holders: list[subprocess.Popen[bytes]] = []
        self._numbers: dict[str, int] = {}
        self._inside: dict[str, int] = {}
        self._slow: list[tuple[int, str]] = []
        self._base = _free_base()

    def __enter__(self) -> Network:
        try:
            self._router = self._namespace()
            _run(self._router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
            self._line(HERE, None)
            _run(None, "ip", "route", "add", f"10.{self._base}.0.0/16", "via", self._gateway(HERE))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the namespaces go; the lines go with the router's."""
        for holder in self._holders:
            holder.kill()
        for holder in self._holders:
            holder.wait()
        wait_until(lambda: not _links(f"fab{self._base}-"))

    def add(self, name: str) -> str:
        """A new place; returns its address."""
        inside = self._inside[name] = self._namespace()
        self._line(name, inside)
        _run(inside, "ip", "link", "set", "lo", "up")
        _run(inside, "ip", "route", "add", "default", "via", self._gateway(name))
        return self.address(name)

    def address(self, name: str) -> str:
        """Of a place."""
        return f"10.{self._base}.{self._numbers[name]}.2"

    def inside(self, name: str) -> list[str]:
        """What a command begins with that is to run in a place."""
        return ["nsenter", f"--net=/proc/{self._inside[name]}/ns/net"]

    def cut(self, source: str, target: str, port: int = 0) -> None:
        """Drop what `source` sends to `target`; with a `port`, to and from that one of either."""
        rule = ["from", self.address(source), "to", self.address(target)]
        ports = (("dport", port), ("sport", port)) if port else (("", 0),)
        for what, number in ports:
            by = ["ipproto", "tcp", what, str(number)] if what else []
            _run(self._router, "ip", "rule", "add", "pref", "100", *rule, *by, "type", "blackhole")

    def partition(self, one: str, other: str, port: int = 0) -> None:
        """Cut both ways."""
        self.cut(one, other, port)
        self.cut(other, one, port)

    def heal(self) -> None:
        """Undo every cut, and let every line be as fast as it can."""
        while b"blackhole" in _run(self._router, "ip", "rule"):
            _run(self._router, "ip", "rule", "del", "pref", "100")
        for inside, device in self._slow:
            _run(inside, "tc", "qdisc", "del", "dev", device, "root")
        self._slow.clear()

    def slow(self, name: str, rate: str = "8mbit") -> None:
        """Let no more than `rate` through the line of a place, either way."""
        limit = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms"]
        line = f"fab{self._base}-{self._numbers[name]}"
        for inside, device in ((self._router, line), (self._inside[name], "eth0")):
            _run(inside, "tc", "qdisc", "add", "dev", device, *limit)
            self._slow.append((inside, device))

    def _namespace(self) -> int:
        """A new one; returns the process that holds it."""
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
        holder = subprocess.Popen(command, start_new_session=True)
        self._holders.append(holder)
        ours = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != ours)
        return holder.pid

    def _gateway(self, name: str) -> str:
        return f"10.{self._base}.{self._numbers[name]}.1"

    def _line(self, name: str, inside: int | None) -> None:
        """A cable from the router to namespace `inside`, or to the test's own."""
        number = self._numbers[name] = len(self._numbers)
        line, end = f"fab{self._base}-{number}", "eth0" if inside else f"fab{self._base}-here"
        into = ["netns", str(inside or os.getpid())]
        _run(self._router, "ip", "link", "add", line, "type", "veth", "peer", "name", end, *into)
        for where, device, address in (
            (self._router, line, self._gateway(name)),
            (inside, end, self.address(name)),
        ):
            _run(where, "ip", "address", "add", f"{address}/30", "dev", device)
            _run(where, "ip", "link", "set", device, "up")


def _run(inside: int | None, *command: str) -> bytes:
    """What a command says that runs in a namespace, or here."""
    prefix = [] if inside is None else ["nsenter", f"--net=/proc/{inside}/ns/net"]
    done = subprocess.run([*prefix, *command], check=False, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise ExternalError(f"{' '.join(command)} failed: {said}")
    return done.stdout


def _links(prefix: str) -> list[str]:
    return [name for name in os.listdir("/sys/class/net") if name.startswith(prefix)]


def _free_base() -> int:
    """The second number of addresses that nothing of this machine uses."""
    taken = _run(None, "ip", "-4", "route").decode()
    first = os.getpid() % 128
    for i in range(128):
        base = 100 + (first + i) % 128
        if f"10.{base}." not in taken and not _links(f"fab{base}-"):
            return base
    raise ExternalError("all networks 10.100.0.0 to 10.227.0.0 are in use here")
