"""One call of a user's function: whole, or as if it had not been.

One job: `Calls`. What a call raises, or returns of another schema, ends the job by policy "fail";
by "skip" and "side" the states, timers and rows of that call are taken back, and the caller learns
why. Errors of Fabric and of the world outside are nobody's policy: they end the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from fabric.errors import CancelledError, ExpressionError, ExternalError, InternalError
from fabric.operators.contract import Batches
from fabric.operators.functions.raised import said
from fabric.operators.functions.watched import watched
from fabric.operators.streams.process.context import CallContext
from fabric.operators.streams.process.deadline import Deadline, TookTooLongError
from fabric.operators.streams.process.requests import Requests
from fabric.operators.streams.process.returned import rows_of_returned
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

    def run(self, call: Callable[[], Returned]) -> Batches | str:
        """The rows of a call; the reason as text when it failed and was taken back."""
        n_asked, n_aside = len(self._requests), self._context.n_aside
        undoes = self._on_error != "fail"
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
