"""What an agent is: its function, looked at before anything runs.

One job: `Agent`, and what can be refused where it is declared: a function that is not asynchronous,
that takes other arguments or never uses its stream. `tables_of` finds the tables that it names.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_origin, get_type_hints

import pyarrow as pa

from fabric.clients.app.agent_process import EventStream
from fabric.clients.app.events import is_event_type, schema_of_event
from fabric.clients.app.tables import Table
from fabric.clients.dataframe.durations import Length
from fabric.clients.dataframe.expressions.literal import SchemaLike
from fabric.clients.dataframe.targets import Target
from fabric.errors import PlanError
from fabric.ids import check_name
from fabric.plan.faults import with_article
from fabric.plan.stream import OnBad

if TYPE_CHECKING:
    from fabric.clients.dataframe.frame import DataFrame

Yields: TypeAlias = SchemaLike | type
"""An event type, or the types of columns by their names."""


@dataclass(eq=False)
class Agent:
    """An asynchronous function over the events of a source; `App.agent` makes one.

    Called, it is the function itself. It may be the source or the sink of other agents.
    """

    name: str
    function: FunctionType
    source: DataFrame | Agent | None
    key: tuple[str, ...]
    sinks: tuple[Target | Agent, ...]
    events: type | None
    yields: type | None
    schema: pa.Schema | None
    on_error: OnBad = "fail"
    errors: Target | None = None
    timeout: Length | None = None
    tables: tuple[Table, ...] = ()
    feeders: list[Agent] = field(default_factory=list)

    def __call__(self, *arguments: Any) -> Any:
        """The function's own call."""
        return self.function(*arguments)

    def __reduce__(self) -> Any:
        """Where a function that travels names an agent, it is the agent's function."""
        return _itself, (self.function,)

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    @property
    def inputs(self) -> Iterator[Agent]:
        """The agents whose rows it reads."""
        if isinstance(self.source, Agent):
            yield self.source
        yield from self.feeders


def _itself(function: FunctionType) -> FunctionType:
    return function


def declared(
    name: str,
    function: Any,
    source: DataFrame | Agent | None,
    key: tuple[str, ...],
    sinks: tuple[Target | Agent, ...],
    *,
    events: type | None,
    yields: Yields | None,
    on_error: OnBad,
    errors: Target | None,
    timeout: Length | None,
    tables: Sequence[Table],
) -> Agent:
    """The agent that `function` is; a `PlanError` says why it can't be one."""
    made = checked(function, check_name(name, "agent"))
    kind, schema = yielded(made, yields, name)
    if schema is None and sinks:
        raise never_yields(name, "it has a sink")
    found = tuple(dict.fromkeys((*tables, *tables_of(made))))
    return Agent(
        name, made, source, key, sinks, event_type(made, events, name), kind, schema, on_error,
        errors, timeout, found,
    )  # fmt: skip


def checked(function: Any, name: str) -> FunctionType:
    """`function` itself, if an agent can run it.

    >>> def count(orders): ...
    >>> checked(count, "count")
    Traceback (most recent call last):
    fabric.errors.PlanError: the agent count is not an async function; write: \
async def count(orders): …
    """
    if not inspect.isfunction(function):
        got = with_article(type(function).__name__)
        raise PlanError(f"an agent is an async function, got {got}; write: @app.agent(source)")
    if not (inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)):
        arguments = ", ".join(inspect.signature(function).parameters)
        raise PlanError(
            f"the agent {name} is not an async function; write: "
            f"async def {function.__name__}({arguments}): …"
        )
    parameters = list(inspect.signature(function).parameters.values())
    needed = [each for each in parameters if each.default is each.empty]
    if len(needed) != 1 or needed[0] is not parameters[0]:
        raise PlanError(
            f"the agent {name} takes one argument, its stream of events, and its function has "
            f"{len(needed)}; write: async def {function.__name__}(events): …"
        )
    if not _uses(function.__code__, parameters[0].name):
        raise PlanError(
            f"the agent {name} never loops over its stream; write: "
            f"async for event in {parameters[0].name}: …"
        )
    return function


def event_type(function: FunctionType, given: type | None, name: str) -> type | None:
    """The type of the events of an agent: that of its argument, or `given`; None are dicts."""
    if given is None:
        hints = _hints(function)
        first = next(iter(inspect.signature(function).parameters))
        hint = hints.get(first)
        inner = get_args(hint) if get_origin(hint) is EventStream else ()
        given = inner[0] if inner else None
        if given in (None, dict, Any) or get_origin(given) is dict:
            return None
    if not is_event_type(given):
        raise PlanError(
            f"the agent {name}: events are of a dataclass or a pydantic model, got "
            f"{str(given)[:80]}; without a type they are dicts"
        )
    return given


def yielded(
    function: FunctionType, given: Yields | None, name: str
) -> tuple[type | None, pa.Schema | None]:
    """The type and the columns of what an agent yields; None where it yields nothing."""
    if inspect.iscoroutinefunction(function):
        if given is not None:
            raise never_yields(name, "yields= says what it yields")
        return None, None
    if given is None:
        inner = get_args(_hints(function).get("return"))
        given = inner[0] if inner and is_event_type(inner[0]) else None
    if given is None:
        raise PlanError(
            f"the agent {name} does not say what it yields; write: "
            f"async def {function.__name__}(…) -> AsyncIterator[Total]: … with a dataclass, or "
            f'@app.agent(…, yields={{"user": "string", "n": "int64"}})'
        )
    kind = given if isinstance(given, type) and is_event_type(given) else None
    return kind, schema_of_event(given, "yields")


def never_yields(name: str, why: str) -> PlanError:
    """What is wrong with an agent without a ``yield``, and `why` it should have one."""
    return PlanError(f"the agent {name} never yields, and {why}; write: yield …")


def tables_of(function: FunctionType) -> list[Table]:
    """The tables that a function names, or functions of its module that it names.

    >>> tables_of(checked)
    []
    """
    found: dict[int, Table] = {}
    seen: set[int] = set()
    todo: list[Any] = [function]
    while todo:
        each = todo.pop()
        if isinstance(each, Table):
            found[id(each)] = each
        elif isinstance(each, FunctionType) and id(each) not in seen:
            seen.add(id(each))
            todo += _named(each) if each.__module__ == function.__module__ else ()
    return list(found.values())


def _named(function: FunctionType) -> Iterator[Any]:
    for code in _codes(function.__code__):
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is not set yet
            continue


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _uses(code: CodeType, name: str) -> bool:
    loads = (each for each in dis.get_instructions(code) if each.opname.startswith("LOAD_"))
    return any(each.argval == name for each in loads)


def _hints(function: FunctionType) -> dict[str, Any]:
    """Its annotations; none where their names are not known here."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    try:
        known = {name: cell.cell_contents for name, cell in cells}
        return get_type_hints(function, localns=known)
    except (NameError, TypeError, ValueError):
        return {}


def as_names(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    """One name, or several.

    >>> as_names("user", "key"), as_names(["a", "b"], "key")
    (('user',), ('a', 'b'))
    """
    names = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(name, str) and name for name in names):
        raise PlanError(f'{what} is a column or several, got {given!r}; write: {what}="user"')
    return names


Declared = Callable[[Any], Agent]
"""What ``@app.agent(…)`` does with a function."""
