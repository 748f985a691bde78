"""One call of a user's function: whole, or as if it had not been, and with an end.

One job: `Calls`. What a call raises, or returns of another schema, ends the job by policy "fail";
by "skip" and "side" the states, timers and rows of that call are taken back, and the caller learns
why. Errors of Fabric and of the world outside are nobody's policy: they end the task. `Deadline`
raises `TookTooLongError` inside a call from another thread, wherever its Python code is then; a
call that hangs outside of Python (in a C function) only ends when it comes back, or when the
agent's own deadline ends the process of such a task.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from fabric.errors import CancelledError, ExpressionError, ExternalError, InternalError
from fabric.operators.contract import Batches
from fabric.operators.functions.user_code import raise_in, raise_nothing, said, watched
from fabric.operators.streams.process.context import CallContext
from fabric.operators.streams.process.returned_rows import rows_of_returned
from fabric.operators.streams.process.timer_service import Requests
from fabric.plan.expr import Udf
from fabric.plan.process import Returned
from fabric.plan.stream import OnBad
from fabric.state import StateStore

_SHOWN = 80


class Calls:
    """Calls `function`, whose rows are of `schema`."""

    def __init__(
        self,
        function: Udf,
        schema: pa.Schema,
        on_error: OnBad,
        *,
        context: CallContext,
        requests: Requests,
        store: StateStore,
        deadline: Deadline | None,
    ) -> None:
        self._function, self._name = function, function.name
        self._schema = schema
        self._on_error = on_error
        self._context = context
        self._requests = requests
        self._store = store
        self._deadline = deadline

    def run(self, call: Callable[[], Returned], *, must: bool = False) -> Batches | str:
        """The rows of a call; the reason as text when it failed and was taken back. One that `must`
        not fail ends the job, whatever the policy."""
        n_asked, n_aside = len(self._requests), self._context.n_aside
        undoes = self._on_error != "fail" and not must
        if undoes:
            self._store.begin()
        try:
            with self._limited():
                rows = list(rows_of_returned(call(), self._schema))
        except (ExternalError, InternalError, CancelledError):
            raise
        except BaseException as error:  # it is the user's, also a SystemExit
            reason = self._reason(error)
            if not undoes:
                raise ExpressionError(reason + self._whose()) from error
            self._requests.forget(n_asked)
            self._context.forget_sides(n_aside)
            self._store.rollback()
            return reason
        if undoes:
            self._store.commit()
        return rows

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Somebody looks on, and ends what takes too long."""
        with watched(self._function.payload):
            if self._deadline is None:
                yield
            else:
                with self._deadline.call():
                    yield

    def _whose(self) -> str:
        """Whose call it is, where it is a single key's."""
        context = self._context
        if context.row is None:
            return ""
        try:
            key = repr(context.key)
        except Exception:  # of whatever a key is made
            return ""
        return f", for the key {key if len(key) <= _SHOWN else key[:_SHOWN] + '…'}"

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, TookTooLongError) and self._deadline is not None:
            return f"the function {self._name} took longer than {self._deadline.limit_s:g} s"
        if isinstance(error, ExpressionError) and error.message.startswith("it returned "):
            return f"the function {self._name}: {error.message}"
        return f"the function {self._name} raised {said(error)}"


_S = 1_000_000


class TookTooLongError(BaseException):
    """Raised in a user's code; not an `Exception`, so that its own handlers leave it alone."""


class Deadline:
    """Watches the calls of one thread; `limit_us` is for each of them.

    >>> deadline = Deadline(60_000_000)
    >>> with deadline.call():
    ...     pass
    >>> deadline.close()
    """

    def __init__(self, limit_us: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.limit_s = limit_us / _S
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._number = 0
        self._since_s: float | None = None
        self._thread_id = 0
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around one call; raises `TookTooLongError` in it once the time is over."""
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="deadline", daemon=True)
            self._watcher.start()
        self._thread_id = threading.get_ident()
        try:
            self._begin()
            yield
        finally:
            try:
                self._end()
            except TookTooLongError:  # it came just now: the call was too long all the same
                self._end()
                raise

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()

    def _begin(self) -> None:
        with self._lock:
            self._number += 1
            self._since_s = self._clock_s()

    def _end(self) -> None:
        with self._lock:
            was_raised, self._since_s = self._since_s is None, None
            if was_raised:  # perhaps it has not come yet
                raise_nothing()

    def _watch(self) -> None:
        wait_s = self.limit_s
        while not self._closed.wait(wait_s):
            wait_s = self._check()

    def _check(self) -> float:
        """End the call if its time is over; returns when to look again."""
        with self._lock:
            if self._since_s is None:
                return self.limit_s
            left_s = self._since_s + self.limit_s - self._clock_s()
            if left_s > 0:
                return left_s
            self._since_s = None
            raise_in(self._thread_id, TookTooLongError)
            return self.limit_s
