"""Calls of public methods: a wrong keyword is told by its nearest name, tracebacks are short.

One job: `helpful`, which wraps the public methods of a class. An error that the caller can mend
names the method that the caller wrote, which may have called another one, and shows the caller's
line and one of ours, not the way through Fabric; all others keep theirs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import update_wrapper
from types import FunctionType, MappingProxyType, TracebackType
from typing import Any

from fabric.clients.dataframe.expressions.types import Expression
from fabric.clients.dataframe.names import no_attribute, value_text
from fabric.errors import PlanError, UserError
from fabric.plan import expr as plan
from fabric.plan.faults import listed, nearest
from fabric.plan.mend import Written, keep_call
from fabric.plan.python import function_text

Made = Callable[[Any, str, tuple[Any, ...], dict[str, Any]], None]
"""Is told the answer of a method, its name and its arguments."""
_DUNDERS = ("__getitem__", "__iter__", "__len__", "__bool__", "__contains__", "__call__")
_SAID = "_said"
"""Attribute of an error: the name of a method that its message begins with."""
_PLAIN = frozenset(("alias", "cast", "try_cast", "over", "is_in", "__getitem__"))
"""Methods that an error shows as they were written anyway."""
_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'")


def _same(value: Any) -> Any:
    return value


def _not(value: Any) -> Any:
    """Flags the other way round."""
    return [not one for one in value] if isinstance(value, list | tuple) else not value


_KEYWORDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "ascending": ("descending", _not), "reverse": ("descending", _same),
    "interval": ("every", _same), "frac": ("fraction", _same), "num": ("n", _same),
    "type": ("how", _same),
}  # fmt: skip
"""Keywords of other libraries: ours where a function has that one, and its value."""
_WRAPPED: dict[tuple[FunctionType, str], FunctionType] = {}
"""By what they wrap, and the name that users call it by."""


def helpful(*kinds: type, space: str | None = None) -> None:
    """Wrap the public methods that `kinds` define themselves; those of expressions, written behind
    `space` (``str.``, or ""), keep the call beside what it made."""
    made = None if space is None else keep_call_in(space)
    for kind in kinds:
        for name, value in list(vars(kind).items()):
            if isinstance(value, FunctionType) and (name[0] != "_" or name in _DUNDERS):
                setattr(kind, name, guarded(value, name, made))


def helpful_functions(module: dict[str, Any]) -> None:
    """Wrap the public functions among the names of a `module`."""
    for name in module["__all__"]:
        if isinstance(module[name], FunctionType):
            module[name] = guarded(module[name], name)


def keep_call_in(space: str) -> Made:
    """Keeps the call of a method of `space` (``str.``, or "" for `Expr`) beside the expression that
    it made of several parts, for errors to show."""

    def made(answer: Any, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not isinstance(answer, Expression) or name in _PLAIN:
            return
        node = answer.node.input if isinstance(answer.node, plan.Alias) else answer.node
        if isinstance(node, plan.Call | plan.Agg):
            if function_text(node.function).rpartition(".")[2] == name:
                return
        elif isinstance(node, plan.Column | plan.Literal):
            return
        subject, *args = arguments
        subject = _given(getattr(subject, "_expr", subject))
        if node is not subject:
            keep_call(node, Written(space + name, subject, _given(args), _given(named)))

    return made


def _given(value: Any) -> Any:
    """What the user gave to a call, expressions as those of the plan."""
    match value:
        case Expression(node=node):
            return node.input if isinstance(node, plan.Alias) else node
        case list() | tuple():
            return [_given(one) for one in value]
        case dict():
            return {key: _given(one) for key, one in value.items()}
    return value


def suggesting(
    kind: type,
    shown: str,
    also: Callable[[], Mapping[str, str]] = dict,
    part: Callable[[Any], str] | None = None,
) -> None:
    """Let `kind`, which users know as `shown`, tell the nearest name it has; see `no_attribute`.

    `part` says how what stands in brackets is written.
    """

    def missing(self: Any, name: str) -> Any:
        known = {} if name.startswith("_") else also()
        raise no_attribute(self, name, shown=shown, also=known)

    def subscript(self: Any, item: Any) -> Any:
        assert part is not None
        raise PlanError(f"{shown} has no [{_bracket(item)}]; write: {part(item)}")

    kind.__getattr__ = missing  # type: ignore[attr-defined]
    if part is not None:
        kind.__getitem__ = subscript  # type: ignore[index]


def part_of(space: str, item: int | slice, one: str) -> str:
    """How to take the places that `item`, of brackets, means; `one` takes a single one."""
    match item:
        case slice(start=start, stop=None, step=None):
            return f".{space}.slice({start or 0})"
        case slice(start=start, stop=int() as stop, step=None) if stop >= 0 <= (start or 0):
            return f".{space}.slice({start or 0}, {max(stop - (start or 0), 0)})"
        case int():
            return one.format(item)
    return f".{space}.slice(0, 1)"


def _bracket(item: Any) -> str:
    if not isinstance(item, slice):
        return value_text(item)
    ends = [item.start, item.stop, *([] if item.step is None else [item.step])]
    return ":".join("" if end is None else str(end) for end in ends)


def guarded(function: FunctionType, name: str = "", made: Made | None = None) -> FunctionType:
    """`function` under `name` (its own if ""), with the errors that this module describes; its
    signature and docstring stay."""
    name = name or function.__name__
    inner = getattr(function, "__wrapped__", function)
    if _WRAPPED.get((inner, function.__name__)) is not function:
        inner = function  # what somebody else wrapped
    if (inner, name) not in _WRAPPED:
        _WRAPPED[inner, name] = _guarded(inner, name, made)
    return _WRAPPED[inner, name]


def _guarded(function: FunctionType, name: str, made: Made | None) -> FunctionType:
    for_the_caller = _for_the_caller  # `call` has the globals of another module

    def call(*arguments: Any, **named: Any) -> Any:
        try:
            answer = function(*arguments, **named)
        except Exception as error:
            if (shown := for_the_caller(error, function, name, named)) is None:
                raise
            caught = shown
        else:
            if made is not None:
                made(answer, name, arguments, named)
            return answer
        raise caught

    # With the globals of the module it stands in doctests find it there.
    wrapper = FunctionType(
        call.__code__, function.__globals__, function.__name__, None, call.__closure__
    )
    update_wrapper(wrapper, function)
    if name != function.__name__:
        wrapper.__name__ = name
        wrapper.__qualname__ = f"{function.__qualname__.removesuffix(function.__name__)}{name}"
    return wrapper


def _for_the_caller(
    error: Exception, function: FunctionType, name: str, named: dict[str, Any]
) -> Exception | None:
    """What to raise instead of `error`; None: itself, with all of its traceback."""
    if isinstance(error, UserError):
        _name(error, function, name)
        return error.with_traceback(None)
    trace = error.__traceback__
    if type(error) is TypeError and trace is not None and trace.tb_next is None:
        return TypeError(call_mistake(str(error), function, name, named))
    return None


def _name(error: UserError, function: FunctionType, name: str) -> None:
    """Put `name` in the place of the method name that the message begins with, unless the user's
    own code called that method."""
    said = getattr(error, _SAID, function.__name__)
    if not re.match(rf"{said}[ :(]", error.message) or not _is_ours(error.__traceback__):
        return
    setattr(error, _SAID, name)
    error.message = name + error.message.removeprefix(said)
    error.args = (error.message, *error.args[1:])


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether all that is below the first frame is Fabric's."""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != "fabric":
            return False
        trace = trace.tb_next
    return True


def call_mistake(
    message: str,
    function: Callable[..., Any],
    name: str = "",
    named: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Python's message about a call of `function` with the keywords `named`, with the name that
    users know, and the keyword that was meant.

    >>> def sort(self, *keys, descending=False): ...
    >>> print(call_mistake("X.sort() got an unexpected keyword argument 'desending'", sort))
    sort() got an unexpected keyword argument 'desending'; did you mean descending=?
    """
    shown = message.replace(f"{function.__qualname__}()", f"{name or function.__name__}()")
    shown = re.sub(r"^[\w.]*\.(\w+\(\))", r"\1", shown)
    if found := _UNEXPECTED.search(shown):
        parameters = inspect.signature(function).parameters.values()
        known = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        known = [name for name in known if name != "self"]
        ours, to_ours = _KEYWORDS.get(found[1], ("", _same))
        if ours in known and found[1] in named:
            return f"{shown}; write: {ours}={value_text(to_ours(named[found[1]]))}"
        near = nearest(found[1], known)
        if near:
            return f"{shown}; did you mean {near}=?"
        return f"{shown}; it takes {listed(known)}" if known else f"{shown}; it takes none"
    return shown
