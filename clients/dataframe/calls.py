"""Calls of public methods: a wrong keyword is told by its nearest name, tracebacks are short.

One job: `helpful`, which wraps the public methods of a class. An error that the caller can mend
shows the caller's line and one of ours, not the way through Fabric; all others keep theirs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import update_wrapper
from types import FunctionType
from typing import Any

from fabric.clients.dataframe.names import no_attribute
from fabric.errors import UserError
from fabric.plan.faults import listed, nearest

_DUNDERS = ("__getitem__", "__iter__", "__len__", "__bool__", "__contains__", "__call__")
_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")
_WRAPPED: dict[FunctionType, FunctionType] = {}
"""By what they wrap, so that two names of one method stay one."""


def helpful(*kinds: type) -> None:
    """Wrap the public methods that `kinds` define themselves."""
    for kind in kinds:
        for name, value in list(vars(kind).items()):
            if isinstance(value, FunctionType) and (name[0] != "_" or name in _DUNDERS):
                setattr(kind, name, guarded(value))


def helpful_functions(module: dict[str, Any]) -> None:
    """Wrap the public functions among the names of a `module`."""
    for name, value in list(module.items()):
        if isinstance(value, FunctionType) and name[0] != "_":
            module[name] = guarded(value)


def suggesting(kind: type, shown: str, also: Callable[[], Mapping[str, str]] = dict) -> None:
    """Let `kind`, which users know as `shown`, tell the nearest name it has; see `no_attribute`."""

    def missing(self: Any, name: str) -> Any:
        known = {} if name.startswith("_") else also()
        raise no_attribute(self, name, shown=shown, also=known)

    kind.__getattr__ = missing  # type: ignore[attr-defined]


def guarded(function: FunctionType) -> FunctionType:
    """`function` with errors as this module says, else the same: name, signature, docstring."""
    if function in _WRAPPED.values():
        return function
    if function not in _WRAPPED:
        _WRAPPED[function] = _guarded(function, _for_the_caller)
    return _WRAPPED[function]


def _guarded(
    function: FunctionType, for_the_caller: Callable[[Exception, FunctionType], Exception | None]
) -> FunctionType:
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except Exception as error:
            if (shown := for_the_caller(error, function)) is None:
                raise
            caught = shown
        raise caught

    # With the globals of the module it stands in doctests find it there.
    made = FunctionType(
        call.__code__, function.__globals__, function.__name__, None, call.__closure__
    )
    update_wrapper(made, function)
    return made


def _for_the_caller(error: Exception, function: FunctionType) -> Exception | None:
    """What to raise instead of `error`; None: itself, with all of its traceback."""
    if isinstance(error, UserError):
        return error.with_traceback(None)
    trace = error.__traceback__
    if type(error) is TypeError and trace is not None and trace.tb_next is None:
        return TypeError(call_mistake(str(error), function))
    return None


def call_mistake(message: str, function: Callable[..., Any]) -> str:
    """Python's message about a call of `function`, with the name that users know and the nearest
    keyword.

    >>> def sort(self, *keys, descending=False): ...
    >>> print(call_mistake("X.sort() got an unexpected keyword argument 'desending'", sort))
    sort() got an unexpected keyword argument 'desending'; did you mean descending=?
    """
    shown = message.replace(f"{function.__qualname__}()", f"{function.__name__}()")
    shown = re.sub(r"^[\w.]*\.(\w+\(\))", r"\1", shown)
    if found := _UNEXPECTED.search(shown):
        parameters = inspect.signature(function).parameters.values()
        known = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        known = [name for name in known if name != "self"]
        near = nearest(found[1], known)
        if near:
            return f"{shown}; did you mean {near}=?"
        return f"{shown}; it takes {listed(known)}" if known else f"{shown}; it takes none"
    return shown
