"""One slot, seen from its agent.

One job: `SlotProcess`: start it, talk with it, hear what it prints (`Output`: lines of bounded
length; the slot waits when nobody reads, the agent never does), notice that a function takes too
long, kill it. One thread uses it at a time, another may wait in `receive`; any may `kill` it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.calls import Call, CallPage
from fabric.agent.slot.channel import Channel, ChannelClosedError
from fabric.agent.slot.forkserver import Forkserver
from fabric.clock import Clock

SEND_S = 60.0
"""How long a slot may take to read what it waits for."""
STACK_S, QUIET_S = 2.0, 0.1
"""How long the stack of a function that hangs may take, and how long a silence is its end."""
MEASURE_S = 0.1
"""How often memory is looked at where it is bounded: some 100 MB may be filled in that time. A
limit by the system counts what allocators reserve, and these crash when they are refused."""

_NO_LIMITS: Mapping[int, float] = {}
LINE_BYTES_MAX = 2000
_READ, _READS_MAX = 1 << 16, 16
Listener = Callable[[str], None]


class SlotEndedError(Exception):
    """The process is gone."""


class HangsError(Exception):
    """A call takes longer than `limit_s`; or there is none, and the process does nothing at all."""

    def __init__(self, call: Call | None, limit_s: float) -> None:
        super().__init__(call)
        self.call, self.limit_s = call, limit_s


class TooLargeError(Exception):
    """It took too much memory."""

    def __init__(self, taken_bytes: int) -> None:
        super().__init__(taken_bytes)
        self.taken_bytes = taken_bytes


class SlotProcess:
    """A process for tasks; `end` it."""

    def __init__(self, forkserver: Forkserver, clock: Clock, *, compiles: bool = False) -> None:
        self._forkserver, self._clock = forkserver, clock
        self._lock, self._ended = Lock(), False
        self._receiving = Lock()
        """Held in `receive`: when a descriptor is closed meanwhile another file may get its number
        at once, and who polls it would wait for that file."""
        self._status: int | None = None
        self._folders: list[Path] = []
        self._worked = (-1, 0.0)
        """Ticks of the processor that it used, and when these were new."""
        self.lingers = False
        """Whether something of a task is still there that could disturb the next one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(SEND_S)
        self.channel = Channel(ours, sp.FromSlot)
        """For rows."""
        read, write = os.pipe()
        self.output = Output(read)
        page = CallPage.new_file()
        try:
            with theirs:
                given = (theirs.fileno(), write, page)
                self.pid = forkserver.spawn(given, compiles=compiles)
            self._handle = os.pidfd_open(self.pid)
            self.calls = CallPage(page)
            self._born_bytes = own_bytes(self.pid)
        except BaseException:
            self.channel.close()
            self.output.close()
            raise
        finally:
            os.close(write)
            os.close(page)

    def spills_to(self, folders: Sequence[Path]) -> list[Path]:
        """Folders of its own in `folders`, which go with it."""
        if not self._folders:
            self._folders = [folder / f"slot-{self.pid}" for folder in folders]
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
        return self._folders

    def send(self, message: sp.ToSlot) -> None:
        """Answer it, or give it a task."""
        try:
            self.channel.send(message)
        except ChannelClosedError as error:
            raise SlotEndedError from error

    def receive(
        self, batch_s: float, bytes_max: int = 0, limits_s: Mapping[int, float] = _NO_LIMITS
    ) -> sp.FromSlot:
        """What it asks next; meanwhile it may take `bytes_max` of memory (0: as much as it wants).

        Calls of the functions in `limits_s` have their own limit instead of `batch_s`.

        Raises
        ------
        SlotEndedError
            It is gone.
        HangsError
            A call takes longer than `batch_s`, or nothing happens for so long.
        TooLargeError
            It took more memory.
        """
        with self._receiving:
            if self._ended:
                raise SlotEndedError
            self._await(batch_s, bytes_max, limits_s)
            try:
                return self.channel.receive()
            except ChannelClosedError as error:
                raise SlotEndedError from error

    def _await(self, batch_s: float, bytes_max: int, limits_s: Mapping[int, float]) -> None:
        """Until it has said something, or hangs up."""
        poll = select.poll()
        poll.register(self.channel.fileno(), select.POLLIN)
        poll.register(self.output.descriptor, select.POLLIN)
        self._worked = (-1, 0.0)
        while not self.channel.has_more:
            left_s = self._left_s(batch_s, limits_s)
            if bytes_max:
                self._measure(bytes_max)
                left_s = min(left_s, MEASURE_S)
            ready = {descriptor for descriptor, _ in poll.poll(1000 * left_s + 1)}
            if self.output.descriptor in ready and not self.output.read():
                poll.unregister(self.output.descriptor)  # it closed its output
            if self.channel.fileno() in ready:
                break

    def stack(self) -> str:
        """Where its threads are, as Python's fault handler says; "" when that says nothing."""
        lines: list[str] = []
        before, self.output.listener = self.output.listener, lines.append
        self._signal(signal.SIGUSR1)
        poll = select.poll()
        poll.register(self.output.descriptor, select.POLLIN)
        end_s, wait_s = self._clock.monotonic_s() + STACK_S, STACK_S
        while self._clock.monotonic_s() < end_s and poll.poll(1000 * wait_s):
            if not self.output.read():
                break
            wait_s = QUIET_S
        self.output.listener = before
        return "\n".join(lines)

    def kill(self) -> None:
        """End it now; who waits for it hears of that."""
        self._signal(signal.SIGKILL)

    @property
    def taken_bytes(self) -> int:
        """Memory that it took since it was forked: pages of the forkserver are left out."""
        return max(0, own_bytes(self.pid) - self._born_bytes)

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended and not select.select([self._handle], [], [], 0)[0]

    def end(self) -> int | None:
        """End it unless it ended; returns its wait status, None when nobody knows."""
        if self._ended:
            return self._status
        self.channel.hang_up()  # which it takes for its end, when it still listens
        self._status = self._forkserver.reap(self.pid)
        with self._receiving:  # who waits has heard that nothing more will come
            with self._lock:
                self._ended = True
                os.close(self._handle)
            self.channel.close()
            self.output.close()
            self.calls.close()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        return self._status

    def _left_s(self, batch_s: float, limits_s: Mapping[int, float]) -> float:
        """How long nothing can be too long."""
        call = self.calls.oldest()
        since_s = self._working_since() if call is None else call.since_s
        limit_s = batch_s if call is None else limits_s.get(call.function, batch_s)
        left_s = since_s + limit_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise HangsError(call, limit_s)
        return min(left_s, batch_s, *limits_s.values())  # a call may begin meanwhile

    def _working_since(self) -> float:
        """When it was last seen to have used the processor: one that never does is stuck."""
        used = cpu_ticks(self.pid)
        if used != self._worked[0]:
            self._worked = (used, self._clock.monotonic_s())
        return self._worked[1]

    def _measure(self, bytes_max: int) -> None:
        if (taken := self.taken_bytes) > bytes_max:
            raise TooLargeError(taken)

    def _signal(self, number: int) -> None:
        with self._lock:
            if not self._ended:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, number)


def cpu_ticks(pid: int) -> int:
    """How much of the processor a process has used; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def own_bytes(pid: int) -> int:
    """Memory of a process in RAM that is not shared with others; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            _, resident, shared, *_ = map(int, statm.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


class Output:
    """The reading end; owns its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.listener: Listener = lambda _: None
        self._rest = b""
        os.set_blocking(descriptor, False)

    def read(self) -> bool:
        """Hand on the lines that wait; False when no more will come."""
        for _ in range(_READS_MAX):
            try:
                data = os.read(self.descriptor, _READ)
            except BlockingIOError:
                return True
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._tell(line)
            if len(self._rest) > LINE_BYTES_MAX or not data:
                self._tell(self._rest)
                self._rest = b""
            if not data:
                return False
        return True

    def close(self) -> None:
        """Read what is left, and close it."""
        self.read()
        self._tell(self._rest)
        os.close(self.descriptor)

    def _tell(self, line: bytes) -> None:
        if line:
            self.listener(line[:LINE_BYTES_MAX].decode(errors="replace"))
