"""Several columns at once: ``col("a", "b")``, ``all()``, selectors; what is done to each of them.

One job: `Selection`, which becomes one expression a column where a verb knows the columns.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.expressions.types import Columns, ManyNames, to_node
from fabric.clients.dataframe.names import unknown_name
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import listed, nearest

Choose = Callable[[pa.Schema], list[str]]
_PROBE = Expr(plan.Column("x"))
_SPACES = ("str", "dt", "list", "struct")


class Selection(Columns):
    """Columns that a verb will choose, and what is done to each; methods are those of `Expr`.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> df = DataFrame({"a": [1], "b": [2], "c": ["x"]})
    >>> df.select((col("a", "b") * 10).name.suffix("_ten")).collect().to_pylist()
    [{'a_ten': 10, 'b_ten': 20}]
    """

    __slots__ = ("_choose", "_done", "_rename", "_text")
    __hash__ = None  # type: ignore[assignment]  # `==` is done to each column

    def __init__(
        self,
        choose: Choose,
        text: str,
        done: Callable[[Expr], Expr] = lambda expr: expr,
        rename: Callable[[str], str] | None = None,
    ) -> None:
        self._choose, self._text, self._done, self._rename = choose, text, done, rename

    def expand(self, schema: pa.Schema, verb: str = "a selection") -> list[plan.Expr]:
        """An expression for each column of `schema` that is chosen."""
        names = self._choose(schema)
        if not names:
            raise PlanError(f"{self._text} chooses none of the columns {listed(schema.names)}")
        found = []
        for name in names:
            if name not in schema.names and nearest(name, schema.names) is None:
                raise unknown_name(name, schema.names, self._text)
            made = self._done(Expr(plan.Column(name))).node
            if self._rename is not None:
                made = plan.Alias(to_node(Expr(made)), self._rename(plan.output_name(made)))
            found.append(made)
        return found

    def names(self, schema: pa.Schema) -> list[str]:
        """The columns of `schema` that are chosen.

        >>> import pyarrow as pa
        >>> from fabric import selectors
        >>> selectors.numeric().names(pa.schema({"a": pa.int64(), "b": pa.string()}))
        ['a']
        """
        return self._choose(schema)

    def exclude(self, *names: ManyNames) -> Selection:
        """All of these but `names`: texts, lists of them, or a selector; ``"^a.*$"`` is a pattern.

        >>> from fabric import DataFrame, all
        >>> DataFrame({"a": [1], "b": [2]}).select(all().exclude("a")).columns
        ['b']
        """
        left_out = _chosen_by(names, "exclude")

        def choose(schema: pa.Schema) -> list[str]:
            out = left_out(schema)
            patterns = [_pattern(one) for one in out if one[:1] == "^" and one[-1:] == "$"]
            return [
                name
                for name in self._choose(schema)
                if name not in out and not any(one.search(name) for one in patterns)
            ]

        return Selection(choose, f"{self._text}.exclude(...)", self._done, self._rename)

    @property
    def name(self) -> SelectionNames:
        """How the columns are called: ``.name.suffix("_x")``.

        >>> from fabric import DataFrame, all
        >>> DataFrame({"a": [1], "b": [2]}).select(all().name.suffix("_x")).columns
        ['a_x', 'b_x']
        """
        return SelectionNames(self)

    def _then(self, do: Callable[[Expr], Expr], text: str) -> Selection:
        before = self._done
        return Selection(
            self._choose, f"{self._text}{text}", lambda expr: do(before(expr)), self._rename
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a selection of columns has no attribute {name!r}", name=name)
        getattr(_PROBE, name)  # a typo is told
        return _Member(self, (name,))

    def __bool__(self) -> bool:
        raise PlanError(
            f"{self._text} has no truth value; with & and | put each comparison in brackets"
        )

    def __repr__(self) -> str:
        return self._text


class _Member:
    """A method of each column, or a namespace of methods."""

    __slots__ = ("_path", "_selection")

    def __init__(self, selection: Selection, path: tuple[str, ...]) -> None:
        self._selection, self._path = selection, path

    def __call__(self, *arguments: Any, **named: Any) -> Selection:
        def do(expr: Expr) -> Expr:
            method: Any = reduce(getattr, self._path, expr)
            found: Expr = method(*arguments, **named)
            return found

        return self._selection._then(do, f".{'.'.join(self._path)}(...)")

    def __getattr__(self, name: str) -> _Member:
        if name.startswith("_") or self._path[0] not in _SPACES:
            raise AttributeError(f".{self._path[-1]} has no attribute {name!r}", name=name)
        getattr(reduce(getattr, self._path, _PROBE), name)
        return _Member(self._selection, (*self._path, name))


class SelectionNames:
    """``.name`` of several columns: what each is called."""

    __slots__ = ("_selection",)

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def suffix(self, text: str) -> Selection:
        """Each name with `text` after it.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1], "b": [2]}).select(col("a", "b").name.suffix("_x")).columns
        ['a_x', 'b_x']
        """
        return self.map(lambda name: name + text)

    def prefix(self, text: str) -> Selection:
        """Each name with `text` before it.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1], "b": [2]}).select(col("a", "b").name.prefix("x_")).columns
        ['x_a', 'x_b']
        """
        return self.map(lambda name: text + name)

    def to_lowercase(self) -> Selection:
        """Each name in lower case.

        >>> from fabric import DataFrame, all
        >>> DataFrame({"A": [1], "b": [2]}).select(all().name.to_lowercase()).columns
        ['a', 'b']
        """
        return self.map(str.lower)

    def to_uppercase(self) -> Selection:
        """Each name in upper case.

        >>> from fabric import DataFrame, all
        >>> DataFrame({"A": [1], "b": [2]}).select(all().name.to_uppercase()).columns
        ['A', 'B']
        """
        return self.map(str.upper)

    def map(self, function: Callable[[str], str]) -> Selection:
        """The name that `function` returns for each name.

        >>> from fabric import DataFrame, all
        >>> DataFrame({"dep": [1]}).select(all().name.map(lambda name: f"{name}_min")).columns
        ['dep_min']
        """
        given = self._selection
        before = given._rename
        rename = function if before is None else lambda name: function(before(name))
        return Selection(given._choose, f"{given._text}.name", given._done, rename)


class Selector(Selection):
    """Columns by name or type, before anything is done to them: ``|``, ``&``, ``-``, ``~``."""

    __slots__ = ()

    def __or__(self, other: Any) -> Any:
        return self._with(other, operator.or_, "|")

    def __and__(self, other: Any) -> Any:
        return self._with(other, operator.and_, "&")

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub, "-")

    def __invert__(self) -> Selector:
        def choose(schema: pa.Schema) -> list[str]:
            mine = set(self._choose(schema))
            return [name for name in schema.names if name not in mine]

        return Selector(choose, f"~{self._text}")

    def _with(self, other: Any, join: Callable[[set[str], set[str]], set[str]], sign: str) -> Any:
        if not isinstance(other, Selector):
            return self._then(lambda expr: _OPERATORS[sign](expr, other), f" {sign} {other!r}")

        def choose(schema: pa.Schema) -> list[str]:
            names = join(set(self._choose(schema)), set(other._choose(schema)))
            return [name for name in schema.names if name in names]

        return Selector(choose, f"({self._text} {sign} {other._text})")


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "&": operator.and_, "|": operator.or_,
}  # fmt: skip


def _operators() -> None:
    """Give `Selection` the operators of expressions, done to each column."""

    def done(sign: str, do: Callable[[Any, Any], Any]) -> Callable[[Selection, Any], Selection]:
        return lambda self, other: self._then(lambda expr: do(expr, other), f" {sign} {other!r}")

    for sign, do in _OPERATORS.items():
        name = do.__name__.strip("_")
        setattr(Selection, f"__{name}__", done(sign, do))
        if name not in ("eq", "ne", "lt", "le", "gt", "ge"):
            swapped = lambda expr, other, do=do: do(other, expr)  # noqa: E731
            setattr(Selection, f"__r{name}__", done(sign, swapped))
    for name, one in (("neg", operator.neg), ("invert", operator.invert), ("abs", abs)):
        setattr(
            Selection, f"__{name}__",
            lambda self, one=one: self._then(one, ""),
        )  # fmt: skip


_operators()


def by_names(names: Sequence[str]) -> Selector:
    """The columns `names`, in this order; one that is not there is refused by the verb."""
    shown = ", ".join(f'"{name}"' for name in names)
    return Selector(lambda _: list(names), f"col({shown})")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise PlanError(f"exclude: {text!r} is not a valid pattern: {error}") from error


def _chosen_by(given: Sequence[Any], verb: str) -> Choose:
    """Of names, lists of names and selectors, what they choose together."""
    flat = [one for item in given for one in (item if isinstance(item, list | tuple) else [item])]
    for one in flat:
        if not isinstance(one, str | Selection):
            raise PlanError(f"{verb} takes names of columns and selectors, got {one!r}")

    def choose(schema: pa.Schema) -> list[str]:
        found: list[str] = []
        for one in flat:
            found += [one] if isinstance(one, str) else one._choose(schema)
        return found

    return choose
