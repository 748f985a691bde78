"""What DataFrame methods accept, as plan expressions and options of a plan.

One job: strings, expressions, lists, keyword names and `Order`s into tuples of plan nodes; options
of files under the names that other libraries give them too, and the certificates of an address.
Names of columns are not looked up here; the dependency check does that on the whole plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from fabric.clients.dataframe.expressions.literal import SchemaLike, to_schema
from fabric.clients.dataframe.expressions.types import (
    Columns,
    Expression,
    IntoExpr,
    KeyColumns,
    Order,
    all_of,
    column_node,
    to_node,
)
from fabric.clients.dataframe.names import whole
from fabric.config import TLS
from fabric.errors import ConfigError, PlanError
from fabric.io.files.options import check_names
from fabric.plan import expr as plan
from fabric.plan import places
from fabric.plan.faults import nearest, quoted
from fabric.plan.mend import free_name
from fabric.plan.nodes import JoinHow
from fabric.plan.python import expr_text
from fabric.security.tls import check_clear, read_pem

Exprs = tuple[plan.Expr, ...]
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "and", "or", "not"))
JoinName = Literal[
    "inner", "left", "right", "full", "cross", "semi", "anti", "outer", "full_outer", "fullouter",
    "left_outer", "leftouter", "right_outer", "rightouter", "left_semi", "leftsemi", "left_anti",
    "leftanti",
]  # fmt: skip
_JOINS: dict[str, JoinHow] = {
    "outer": "full", "full_outer": "full", "left_outer": "left", "right_outer": "right",
    "left_semi": "semi", "left_anti": "anti",
}  # fmt: skip
_JOINS |= {name.replace("_", ""): how for name, how in _JOINS.items()}


def flatten(arguments: Iterable[Any]) -> list[Any]:
    """Arguments given one by one or as lists, as one list."""
    flat: list[Any] = []
    for argument in arguments:
        flat.extend(argument if isinstance(argument, list | tuple) else [argument])
    return flat


def expressions(
    arguments: Iterable[Any], named: dict[str, Any], schema: pa.Schema
) -> tuple[plan.Expr, ...]:
    """`arguments` (a string is a column, ``"*"`` all of `schema`, a selection those it chooses),
    then the `named` ones alike."""
    found: list[plan.Expr] = []
    for argument in flatten(arguments):
        if isinstance(argument, str) and argument == "*":
            found.extend(plan.Column(name) for name in schema.names)
        elif isinstance(argument, Columns):
            found.extend(argument.expand(schema))
        else:
            found.append(top(argument))
    for name, value in named.items():
        inner = plan.Column(value) if isinstance(value, str) else to_node(value)
        found.append(plan.Alias(inner, name))
    return tuple(found)


def top(argument: IntoExpr | Columns) -> plan.Expr:
    """One output expression; its alias stays."""
    if isinstance(argument, str):
        return plan.Column(argument)
    return argument.node if isinstance(argument, Expression) else to_node(argument)


def predicate(arguments: Iterable[Any], equal: dict[str, Any], verb: str = "filter") -> plan.Expr:
    """All `arguments` and all ``column=value`` of `equal`, joined by and."""
    conditions = [_condition(argument, verb) for argument in flatten(arguments)]
    conditions += [plan.Call("eq", (plan.Column(k), to_node(v))) for k, v in equal.items()]
    if not conditions:
        raise PlanError(f'{verb} needs a condition, for example {verb}(col("x") > 0)')
    return all_of(conditions)


def _condition(argument: Any, verb: str) -> plan.Expr:
    if isinstance(argument, Expression | Columns):
        return to_node(argument)
    if isinstance(argument, str) and argument.isidentifier():
        return plan.Column(argument)
    if isinstance(argument, bool):
        raise PlanError(
            f"{verb} got the Python value {argument}, not an expression; a side of the comparison "
            f'must be a column: {verb}(col("x") == "JFK")'
        )
    raise PlanError(
        f"{verb} takes expressions, got {argument!r}; SQL text is not read, write "
        f'{verb}(col("x") > 0)'
    )


def sort_keys(
    arguments: Iterable[Any], descending: bool | Sequence[bool], nulls_last: bool | None
) -> tuple[plan.SortKey, ...]:
    """Keys of a sort: names, expressions and `Order`s; flags are for names and expressions."""
    keys = flatten(arguments)
    if not keys:
        raise PlanError('sort needs a column, for example sort("x") or sort(col("x").desc())')
    flags = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
    if len(flags) != len(keys):
        raise PlanError(
            f"sort got {len(keys)} keys and {len(flags)} descending flags; give as many"
        )
    return tuple(_sort_key(*pair, nulls_last) for pair in zip(keys, flags, strict=True))


def _sort_key(key: Any, descending: bool, nulls_last: bool | None) -> plan.SortKey:
    if isinstance(key, Order):
        return key.key
    last = descending if nulls_last is None else nulls_last
    return plan.SortKey(column_node(key), descending, last)


def join_keys(
    on: KeyColumns | None,
    left_on: KeyColumns | None,
    right_on: KeyColumns | None,
    verb: str = "join",
) -> tuple[tuple[plan.Expr, ...], tuple[plan.Expr, ...]]:
    """Keys of both sides: `on` for both, or `left_on` and `right_on`."""
    if on is not None and left_on is None and right_on is None:
        keys = tuple(column_node(key) for key in flatten([on]))
        return keys, keys
    if on is not None or left_on is None or right_on is None:
        raise PlanError(
            f'{verb} needs on="id", or left_on="id" with right_on="key"; '
            f"got on={on!r}, left_on={left_on!r}, right_on={right_on!r}"
        )
    left = tuple(column_node(key) for key in flatten([left_on]))
    right = tuple(column_node(key) for key in flatten([right_on]))
    if len(left) != len(right):
        raise PlanError(
            f"{verb} got {len(left)} left and {len(right)} right keys; give as many on both sides"
        )
    return left, right


def pairs_of(
    on: KeyColumns, left: Sequence[str], right: Sequence[str]
) -> tuple[Exprs, Exprs, plan.Expr | None] | None:
    """PySpark's condition ``col("a") == col("b")`` as keys of both sides and what is left of it.

    None where `on` compares nothing: then it names keys. A column that only one side has is that
    side's; of a name on both sides the left expression is the left's, the right one the right's.
    """
    given = [one.node for one in flatten([on]) if isinstance(one, Expression)]
    parts = [part for node in given for part in _conjuncts(node)]
    if len(given) != len(flatten([on])) or not any(map(_compares, parts)):
        return None
    pairs: list[tuple[plan.Expr, plan.Expr]] = []
    rest: list[plan.Expr] = []
    for part in parts:
        pair = _pair(part, frozenset(left), frozenset(right))
        if pair is None:
            _check_whose(part, left, right)
            rest.append(part)
        else:
            pairs.append(pair)
    condition = all_of(rest) if rest else None
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs), condition


def _check_whose(part: plan.Expr, left: Sequence[str], right: Sequence[str]) -> None:
    """Refuse a column that could be either side's."""
    for name in sorted(plan.columns_of(part)):
        if name in left and name in right:
            free = free_name(f"{name}_right", [*left, *right])
            raise PlanError(
                f"join: both sides have a column {quoted(name)}, and {expr_text(part)} does not "
                f"say whose it means; write: other.rename({{{quoted(name)}: {quoted(free)}}})"
            )


def _conjuncts(node: plan.Expr) -> list[plan.Expr]:
    if isinstance(node, plan.Call) and node.function == "and":
        return [part for arg in node.args for part in _conjuncts(arg)]
    return [node]


def _compares(part: plan.Expr) -> bool:
    return isinstance(part, plan.Call) and part.function in _COMPARISONS


def _pair(
    part: plan.Expr, left: frozenset[str], right: frozenset[str]
) -> tuple[plan.Expr, plan.Expr] | None:
    """The two sides of an equality, the left frame's first; None where it is no pair of keys."""
    if not isinstance(part, plan.Call) or part.function != "eq":
        return None
    one, other = part.args
    ones, others = plan.columns_of(one), plan.columns_of(other)
    if not ones or not others:
        return None
    if ones <= left and others <= right:
        return one, other
    return (other, one) if ones <= right and others <= left else None


def join_how(how: str) -> JoinHow:
    """The kind of join `how` names in Polars or PySpark."""
    name = how.lower()
    if name in get_args(JoinHow):
        return name  # type: ignore[return-value]
    if name in _JOINS:
        return _JOINS[name]
    near = nearest(name, [*get_args(JoinHow), *_JOINS])
    raise PlanError(
        f"how={how!r} is not a valid kind of join; use {', '.join(map(repr, get_args(JoinHow)))}"
        + (f"; write: how={quoted(near)}" if near else "")
    )


FileOption: TypeAlias = bool | int | str | Sequence[str] | SchemaLike | None
"""An option of a reader or writer of files, by its kind."""
StorageOptions: TypeAlias = Mapping[str, str | bool | None] | None
"""Options of the store that a URL names; None: as the environment says."""
_ALIASES = {
    "sep": "delimiter", "separator": "delimiter", "has_header": "header", "dtypes": "types",
}  # fmt: skip
"""What Polars and pandas call options of CSV; the last one is of JSON, too."""


_NONE = {"header": "header=False", "compression": 'compression="none"'}
"""What None means in other libraries, where it would be taken for the default."""


def file_options(options: Mapping[str, Any], verb: str, known: Iterable[str]) -> places.Options:
    """Options as they travel, by their own names; Python's own words for them are taken, too."""
    ours = {given: _ALIASES.get(given, given) for given in options}
    names = {given: name if name in known else given for given, name in ours.items()}
    check_names(verb, known, names.values())
    found: dict[str, places.OptionValue] = {}
    for given, value in options.items():
        name = names[given]
        if twin := next((one for one in names if names[one] == name and one != given), None):
            raise PlanError(f"{verb} was given {given} and {twin}, which are one; leave one out")
        if value is None and name in _NONE:
            raise PlanError(f"{verb}: {given}=None is not a valid {given}; write: {_NONE[name]}")
        if value is not None or name == "quote":  # None is what is not given, and no quoting
            found[name] = _option(name, value, verb)
    return tuple(sorted(found.items()))


def _option(name: str, value: Any, verb: str) -> places.OptionValue:
    match value:
        case None:
            return ""
        case bool() | int():
            if name in ("skip_rows", "n_rows", "sample_bytes"):
                return whole(value, 0, verb, name)
            return value
        case str():
            return (value,) if name in ("null_values", "names") else value
        case pa.Schema() | Mapping() if name in ("types", "schema"):
            return to_schema(value, verb, name)
        case list() | tuple() if all(isinstance(part, str) for part in value):
            return tuple(value)
    hint = '; write: null_values=["NA"], for all columns' if name == "null_values" else ""
    raise PlanError(f"{verb}: option {name} can't be {value!r}{hint}")


def roots_of(uri: str, path: str | Path | None, token: str, insecure: bool) -> bytes:
    """What the file of roots holds; a token that would go in the clear is refused here already."""
    if token:
        check_clear(uri, insecure)
    if path is None:
        return b""
    if not uri.startswith(TLS):
        raise ConfigError(f"tls_roots is for addresses with TLS ({TLS}host:port), got {uri!r}")
    return read_pem(Path(path))
