"""What an asynchronous function gave back, as rows of the schema that was declared.

One job: `answers_of`, which looks at the shape of what one call gave, in the thread of the event
loop, and `Columns`, which makes the columns of many answers at once. A value that does not fit is
found row by row, so that the error names the row whose answer it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from fabric.errors import DataError, FabricError
from fabric.operators.async_calls.pending import Failure
from fabric.operators.functions.table_functions import as_table
from fabric.operators.functions.user_code import said
from fabric.plan.faults import with_article
from fabric.plan.literals import array_of

Rows: TypeAlias = list[Mapping[str, Any]]
Answers: TypeAlias = list["Rows | Failure"]
"""By row of the call: the rows that come out for it, or why there are none."""
_SHOWN = 80


class UnfitError(Exception):
    """What a function gave is no answer: its text goes on after "the function f"."""


def failure_of(error: BaseException) -> Failure:
    """Why a call failed. What Fabric's errors say of retries holds; other exceptions are retried,
    and those of connections may also go with a restart.

    >>> failure_of(ValueError("no")), failure_of(ConnectionResetError()).external
    (Failure(reason='raised ValueError: no', retries=True, external=False, fatal=False), True)
    """
    if isinstance(error, UnfitError):
        return Failure(str(error), retries=False)
    if isinstance(error, FabricError):
        return Failure(f"failed: {error.message}", error.retryable, external=error.retryable)
    external = isinstance(error, OSError)
    return Failure(f"raised {said(error)}", isinstance(error, Exception), external)


def answers_of(given: Any, schema: pa.Schema, n_rows: int, *, is_batch: bool) -> Answers:
    """The rows that come out for each of the `n_rows` rows of a call.

    Raises
    ------
    UnfitError
        If it is something else, or of other columns.

    Examples
    --------
    >>> schema = pa.schema([("a", pa.int8())])
    >>> answers_of({"a": 1}, schema, 1, is_batch=False)
    [[{'a': 1}]]
    >>> answers_of([{"a": 1}, None, [{"a": 2}, {"a": 3}]], schema, 3, is_batch=True)
    [[{'a': 1}], [], [{'a': 2}, {'a': 3}]]
    >>> answers_of({"a": [1, 2]}, schema, 2, is_batch=True)
    [[{'a': 1}], [{'a': 2}]]
    """
    if not is_batch:
        return [_rows_of(given, schema)]
    if isinstance(given, list | tuple):
        found: Answers = [
            failure_of(one) if isinstance(one, BaseException) else _rows_of(one, schema)
            for one in given
        ]
    else:
        found = [[row] for row in _table_of(given, schema).to_pylist()]
    if len(found) != n_rows:
        raise UnfitError(
            f"gave answers for {len(found)} rows, and was called with {n_rows}; give one for each "
            "row, in their order: None where no row comes out"
        )
    return found


_FORMS = "give a dict with the columns, a list of them, or None for no row"
_BATCH_FORMS = (
    "with batch=, give a list with an answer for each row (a dict, a list of dicts, None, or an "
    "exception), or a table with a row for each"
)


def _table_of(given: Any, schema: pa.Schema) -> pa.Table:
    try:
        table = as_table(given, "it")
    except DataError:
        raise UnfitError(f"gave {with_article(type(given).__name__)}; {_BATCH_FORMS}") from None
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise UnfitError(f"gave columns that make no table: {str(error)[:_SHOWN]}") from error
    _check_names(table.column_names, schema)
    return table.select(schema.names)


def _rows_of(given: Any, schema: pa.Schema) -> Rows:
    if given is None:
        return []
    rows = given if isinstance(given, list | tuple) else [given]
    for row in rows:
        if not isinstance(row, Mapping):
            raise UnfitError(f"gave {with_article(type(row).__name__)}; {_FORMS}")
        _check_names(row, schema)
    return list(rows)


def _check_names(names: Sequence[str] | Mapping[str, Any], schema: pa.Schema) -> None:
    if len(names) != len(schema.names) or any(name not in names for name in schema.names):
        got = ", ".join(map(str, names))[:_SHOWN]
        raise UnfitError(
            f"gave the columns {got or 'none'}, and schema= says {', '.join(schema.names)}"
        )


class Columns:
    """Columns of `schema` from the rows of answers."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def of(self, rows: Rows) -> list[pa.Array] | None:
        """The columns; None where a value does not fit."""
        try:
            return [array_of([row[f.name] for row in rows], f.type) for f in self._schema]
        except _MISFITS:
            return None

    def misfit(self, rows: Rows) -> Failure | None:
        """Why the rows that came out for a row do not fit, if they do not."""
        for field in self._schema:
            for row in rows:
                try:
                    array_of([row[field.name]], field.type)
                except _MISFITS as error:
                    return Failure(
                        f"gave a value for {field.name} that is not a valid {field.type}: "
                        f"{str(error)[:_SHOWN]}",
                        retries=False,
                    )
        return None


_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)
