"""Python functions in expressions: `udf` of single values, `arrow_udf` of whole arrays.

One job: make a function callable with columns, and choose how one of single values runs: compiled
by Numba where that means the same, else row by row, with a warning that says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.expressions.literal import DTypeLike, to_dtype
from fabric.clients.dataframe.expressions.types import to_node
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.nodes import Node, Plan
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import numeric, plain
from fabric.plan.walk import map_exprs, rewrite, rewrite_expr, walk, walk_expr

if TYPE_CHECKING:
    from fabric.plan.process import Process
    from fabric.state import Aggregate

Function = Callable[..., Any]
_OWN: dict[bytes, Function] = {}
"""The functions that this process has pickled, to try to compile them without unpickling."""


class RowByRowWarning(UserWarning):
    """A function runs row by row: 100 times slower than one compiled or over arrays.

    Examples
    --------
    To refuse such functions:

    >>> import warnings
    >>> from fabric import RowByRowWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", RowByRowWarning)
    """


class UserFunction:
    """A Python function that takes columns and gives an expression; made by `udf`, `arrow_udf`."""

    def __init__(self, function: Function, returns: pa.DataType, kind: plan.UdfKind) -> None:
        update_wrapper(self, function)
        self._function, self._returns, self._kind = function, returns, kind
        self._name = getattr(function, "__name__", "function")
        self._payload = b""

    def __call__(self, *columns: Any) -> Expr:
        """The function of `columns` (names, expressions, constants)."""
        args = tuple(plan.Column(c) if isinstance(c, str) else to_node(c) for c in columns)
        if not args:
            raise PlanError(f"the function {self._name} needs a column, to know how many rows")
        if not self._payload:
            self._payload = _pickled(self._function, self._name)
            _OWN[self._payload] = self._function
        return Expr(plan.Udf(self._name, args, self._returns, self._kind, self._payload))

    def __repr__(self) -> str:
        return f"{self._name}(...) -> {self._returns}"


def udf(
    function: Function | None = None, *, returns: DTypeLike, compile: bool | None = None
) -> Any:
    """A function of single values, as a decorator or a call.

    A null argument gives null without a call.

    Parameters
    ----------
    returns
        The type of the answer, as `cast` takes it; an answer of another is an error.
    compile
        None compiles with Numba where that means the same and warns where it can't; False runs row
        by row; True refuses what can't be compiled, and lets integers wrap.

    Examples
    --------
    >>> from fabric import DataFrame, col, udf
    >>> @udf(returns="float64")
    ... def celsius(fahrenheit: float) -> float:
    ...     return (fahrenheit - 32.0) / 1.8
    >>> DataFrame({"f": [32.0, 212.0]}).select(c=celsius("f")).collect().to_pydict()
    {'c': [0.0, 100.0]}
    """
    kind: plan.UdfKind = "auto" if compile is None else "numba" if compile else "row"
    return _decorated(function, to_dtype(returns), kind)


def arrow_udf(function: Function | None = None, *, returns: DTypeLike) -> Any:
    """A function of Arrow arrays, giving an array of as many values; it sees nulls.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> from fabric import DataFrame, arrow_udf
    >>> half = arrow_udf(lambda values: pc.divide(values, 2.0), returns="float64")
    >>> DataFrame({"a": [1.0, None]}).select(b=half("a")).collect().to_pydict()
    {'b': [0.5, None]}
    """
    return _decorated(function, to_dtype(returns), "arrow")


def _decorated(function: Function | None, returns: pa.DataType, kind: plan.UdfKind) -> Any:
    if function is None:
        return lambda given: UserFunction(given, returns, kind)
    if not callable(function):
        raise PlanError(f"a user function must be callable, got {function!r}")
    return UserFunction(function, returns, kind)


OwnObject: TypeAlias = "Function | Process | Aggregate | tuple[Function, ...]"
"""What a step of a stream may call: functions, or an object with methods that are known."""


def own_object(thing: OwnObject, name: str) -> plan.Udf:
    """What a step of a stream calls in its tasks: a function, or an object with methods."""
    return plan.Udf(name, (), pa.null(), "object", _pickled(thing, name))


def _pickled(function: OwnObject, name: str) -> bytes:
    import cloudpickle  # for start-up time: most plans have no functions of their own

    try:
        payload: bytes = cloudpickle.dumps(function)
    except Exception as error:  # whatever the objects it closes over raise
        raise PlanError(
            f"the function {name} can't travel: {type(error).__name__}: {error}; make what it "
            "closes over inside it"
        ) from error
    return payload


def chosen(given: Plan) -> Plan:
    """The plan with every function's way to run decided; itself when there is none."""
    if not any(_open(part) for node in walk(given.root) for part in _parts(node)):
        return given
    root = rewrite(given.root, _choose_in)
    return given if root is given.root else Plan(root, given.config)


def _parts(node: Node) -> list[plan.Expr]:
    return [part for expr in node.expressions for part in walk_expr(expr)]


def _open(part: plan.Expr) -> bool:
    return isinstance(part, plan.Udf) and part.kind in ("auto", "numba")


def _choose_in(node: Node) -> Node:
    if not any(map(_open, _parts(node))):
        return node
    fields = [field for child in node.children for field in schema_of(child)]
    schema = pa.schema({field.name: field.type for field in fields})

    def choose(part: plan.Expr) -> plan.Expr:
        if not isinstance(part, plan.Udf) or not _open(part):
            return part
        types = tuple(_taken(type_of(arg, schema)) for arg in part.args)
        reason = _refusal(part.payload, types, part.dtype, part.kind == "numba")
        if reason and part.kind == "numba":
            raise PlanError(f"the function {part.name} can't be compiled: {reason}")
        if reason:
            warnings.warn(
                f"{part.name} runs row by row: {reason}; a function of arrays (arrow_udf) is "
                "faster, compile=False silences this",
                RowByRowWarning,
                stacklevel=2,
            )
        kind: plan.UdfKind = "row" if reason else "numba"
        return plan.Udf(part.name, part.args, part.dtype, kind, part.payload, part.mac)

    return map_exprs(node, lambda expr: rewrite_expr(expr, choose))


def _taken(dtype: pa.DataType) -> pa.DataType:
    return numeric(dtype) or plain(dtype)


@lru_cache(maxsize=256)
def _refusal(
    payload: bytes, types: tuple[pa.DataType, ...], returns: pa.DataType, may_wrap: bool
) -> str:
    """Why a function of this process can't be compiled; empty when it can."""
    # an optional package: Numba
    from fabric.operators.functions.compilation import NotCompiledError, compiled

    if payload not in _OWN:
        return "it was pickled by another process"
    try:
        compiled(_OWN[payload], types, returns, may_wrap=may_wrap)
    except NotCompiledError as error:
        return str(error)
    return ""
