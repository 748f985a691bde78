"""Rows in order that a pattern matches: `Match`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import check_once, key_columns, read_by, time_type, visible
from fabric.plan.durations import DURATION_US_MAX, lengths_text
from fabric.plan.expr import Agg, Alias, Column, Expr, SortKey, output_name
from fabric.plan.faults import ExprFault, listed, nearest, quoted
from fabric.plan.infer import infer, infer_boolean
from fabric.plan.mend import free_name, mended
from fabric.plan.node import Columns, Names, Role, Unary
from fabric.plan.nodes.groups import Late
from fabric.plan.pattern_terms import Split, Term, split
from fabric.plan.places import Settings
from fabric.plan.python import column_text, expr_text, one_or_list, sort_key_text
from fabric.plan.row_automaton import Automaton, automaton
from fabric.plan.row_pattern import parsed, variables_of
from fabric.plan.schema import schema_of
from fabric.plan.stream import LATE, TIMEOUT, Stream
from fabric.plan.types import is_comparable, is_nested, plain

MatchRows = Literal["one", "all", "all_omit_empty", "all_with_unmatched"]
Timeout = Literal["drop", "side"]
SKIP_PAST, NEXT_ROW = "skip_past", "next_row"
TO_FIRST, TO_LAST = "to_first ", "to_last "
VARIABLES_MAX = 60


@dataclass(frozen=True, slots=True)
class Match(Unary):
    """Matches of a row pattern among the rows of each key, in order: SQL's MATCH_RECOGNIZE.

    `pattern` is text (`row_pattern.py`) over variables, of which each means what `define` says:
    conditions under the variables' names, true where there is none. `subsets` are more names, each
    with the variables that it stands for. A match ends at most `within_us` (0: any time) after its
    first row in column `time`; then the search goes on as `after` says. `per_match` says which rows
    are put out: one, the keys and `measures`, or all of them with the measures as of each row.

    On streams rows are in order of event time, `late` ones are dropped or put aside, as are matches
    that were begun and are not completed in time (`timeout`). The planner says whether rows are
    `endless`.
    """

    pattern: str
    keys: tuple[Expr, ...]
    order: tuple[SortKey, ...]
    define: tuple[Expr, ...]
    measures: tuple[Expr, ...]
    subsets: Settings = ()
    within_us: int = 0
    after: str = SKIP_PAST
    per_match: MatchRows = "one"
    late: Late = "drop"
    timeout: Timeout = "drop"
    time: str = ""
    endless: bool = False

    WIRE: ClassVar[str] = "match"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("keys", "order", "define", "measures")
    HOLDS_ROWS: ClassVar[bool] = True
    ROLE: ClassVar[Role] = "group"
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "per_match": get_args(MatchRows),
        "late": get_args(Late),
        "timeout": get_args(Timeout),
        "endless": (False,),
    }
    BOUNDS: ClassVar[Mapping[str, float]] = {"within_us": DURATION_US_MAX}

    # ---- what it means

    @property
    def automaton(self) -> Automaton:
        """The automaton of the pattern; raises `PlanError`."""
        return automaton(parsed(self.pattern))

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The variables that each name means: itself, or those of a subset."""
        known = variables_of(parsed(self.pattern))
        found: dict[str, tuple[str, ...]] = {name: (name,) for name in known}
        for name, members in self.subsets:
            if name in found:
                raise PlanError(
                    f"subset {quoted(name)} has the name of another variable or subset; choose "
                    "another one"
                )
            wrong = [each for each in members.split() if each not in known]
            if wrong or not members.split():
                raise PlanError(
                    f"subset {quoted(name)} needs variables of the pattern, got "
                    f"{listed(members.split())}; they are {listed(known)}"
                )
            found[name] = tuple(members.split())
        return found

    def conditions(self, schema: pa.Schema) -> dict[str, Split]:
        """The condition of each variable that has one, taken apart."""
        names = self.names
        return {output_name(each): split(each, names, schema) for each in self.define}

    def columns(self, schema: pa.Schema) -> dict[str, Split]:
        """The measures by name, taken apart."""
        names = self.names
        return {output_name(each): split(each, names, schema) for each in self.measures}

    @property
    def read(self) -> Names:
        """The columns of the input that decide what matches, and what its measures are."""
        found = read_by((*self.keys, *(key.input for key in self.order)))
        if self.time:
            found |= {self.time}
        named = {name.partition(".")[2] or name for name in self._named()}
        return found | named | self._named()

    def kept(self, schema: pa.Schema) -> pa.Schema:
        """The columns of `schema` that decide what matches and what is put out."""
        names = self.read if self.per_match == "one" else frozenset(schema.names)
        return pa.schema([field for field in schema if field.name in names])

    def _named(self) -> Names:
        return read_by((*self.define, *self.measures))

    # ---- see `Node`

    def output(self, *inputs: pa.Schema) -> Columns:
        """The keys and measures, or the columns of the input and the measures."""
        schema = pa.schema(visible(inputs[0]))
        found, names = self.automaton, self.names
        if len(found.names) > VARIABLES_MAX:
            raise PlanError(f"a pattern has at most {VARIABLES_MAX} variables")
        self._check_order(schema)
        self._check_define(found, schema)
        self._check_after(found, names)
        if self.per_match == "all_with_unmatched" and any(found.excluded):
            raise PlanError(
                'rows="all_with_unmatched" puts out every row, and {- … -} leaves rows out; write '
                'rows="all", or leave the exclusion out'
            )
        keys = self._key_columns(schema)
        columns = keys if self.per_match == "one" else visible(schema)
        taken = [name for name, _ in columns]
        check_once([output_name(each) for each in self.measures], "the measures of match have")
        for name, made in self.columns(schema).items():
            if name in taken:
                renamed = tuple(
                    Alias(each.input if isinstance(each, Alias) else each, free_name(name, taken))
                    if output_name(each) == name else each for each in self.measures
                )  # fmt: skip
                raise mended(
                    f"there is a column {quoted(name)} already", replace(self, measures=renamed)
                )
            taken.append(name)
            columns.append((name, infer(made.outer, made.schema)))
        if not columns:
            raise PlanError(
                "a match without partition_by needs a measure; write for example "
                'measures={"n": count()}'
            )
        return columns

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """Late rows, and matches that were not completed in time, if they go aside."""
        found = {LATE: pa.schema(visible(rows))} if self.late == "side" else {}
        if self.timeout == "side":
            found[TIMEOUT] = pa.schema(visible(schema_of(self)))
        return found

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is read; where rows are put out all, as equal ones are in the order of them all."""
        (schema,) = inputs
        return (frozenset(self.kept(schema).names),)

    def bounded(self) -> None:
        """Rows of a table have no order of their own, and none is late."""
        if not self.order:
            raise PlanError(
                'match goes by the order of rows, which a table has not; write: order_by="ts"'
            )
        if self.late != "drop" or self.timeout != "drop":
            raise PlanError(
                "rows of a table are never late, and no match waits for more; leave late and "
                "timeout out"
            )

    def stream(self, *below: Any) -> Stream:
        """Matches as old as their last row, where `within_us` says how far back that may be."""
        (stream,) = below
        stream.check_append_only("match")
        stream.check_timed("match")
        stream.check_time(self.time or "its order")
        if self.order and self.order[0] != SortKey(Column(self.time)):
            raise PlanError(
                f"match goes by event time, which is {quoted(self.time)}; leave order_by out, or "
                f"let it begin with {quoted(self.time)}, ascending"
            )
        self._check_endless()
        if not self.within_us:
            return Stream(timed=True)
        if self.per_match == "all":
            return Stream(time=self.time, timed=True)
        same = (Column(self.time), Agg("last", Column(self.time)))
        times = (
            output_name(each) for each in self.measures
            if (each.input if isinstance(each, Alias) else each) in same
        )  # fmt: skip
        return Stream(time=next(times, ""), timed=True)

    def text(self) -> str:
        """``.match("A B+", define={"B": …}, measures={"n": …}, partition_by="id")``."""
        parts = [quoted(self.pattern)]
        for name, exprs in (("define", self.define), ("measures", self.measures)):
            if exprs:
                pairs = (f"{quoted(output_name(each))}: {_bare_text(each)}" for each in exprs)
                parts.append(f"{name}={{{', '.join(pairs)}}}")
        parts += [f"partition_by={one_or_list(map(column_text, self.keys))}"] if self.keys else []
        parts += [f"order_by={one_or_list(map(sort_key_text, self.order))}"] if self.order else []
        if self.subsets:
            pairs = (
                f"{quoted(name)}: [{', '.join(map(quoted, members.split()))}]"
                for name, members in self.subsets
            )
            parts.append(f"subsets={{{', '.join(pairs)}}}")
        parts += [f"within={lengths_text(self.within_us)}"] if self.within_us else []
        said = {"after": self.after, "rows": self.per_match, "late": self.late,
                "timeout": self.timeout}  # fmt: skip
        usual = (SKIP_PAST, "one", "drop")
        parts += [f"{name}={quoted(value)}" for name, value in said.items() if value not in usual]
        return f".match({', '.join(parts)})"

    # ---- checks

    def _key_columns(self, schema: pa.Schema) -> Columns:
        for key in self.keys:
            if not isinstance(key, Column):
                name = free_name("key", schema.names)
                named = key if isinstance(key, Alias) else Alias(key, name)
                line = f".with_columns({expr_text(named)})"
                raise mended("match takes columns in partition_by; compute them before", line)
            dtype = infer(key, schema)
            if is_nested(plain(dtype)):
                raise PlanError(
                    f"match can't tell lists and structs apart, and {quoted(key.name)} is {dtype}; "
                    "let partition_by be its parts, or a text made of them"
                )
        return key_columns(self.keys, schema, "match")

    def _check_order(self, schema: pa.Schema) -> None:
        for key in self.order:
            if not is_comparable(dtype := infer(key.input, schema)):
                raise ExprFault(f"match can't order by {dtype}", key.input)
        if self.within_us < 0:
            raise PlanError(f"within must be at least 0, got {self.within_us} microseconds")
        if self.time:
            time_type(self, "time", schema, "the time of a match")
        elif self.within_us:
            raise PlanError(
                "within needs rows in order of one column of times, ascending; write for example "
                'order_by="ts"'
            )

    def _check_define(self, found: Automaton, schema: pa.Schema) -> None:
        known = [output_name(each) for each in self.define]
        for name in known:
            if name not in found.names:
                near = nearest(name, found.names)
                mean = "" if near is None else f"; did you mean {quoted(near)}?"
                raise PlanError(
                    f"define has {quoted(name)}, which is no variable of the pattern "
                    f"{quoted(self.pattern)}{mean}"
                )
            if known.count(name) > 1:
                raise PlanError(f"define has two conditions of {quoted(name)}; join them with &")
        for name, made in self.conditions(schema).items():
            infer_boolean(made.outer, made.schema, f"the condition of {quoted(name)}")
            for term in made.terms.values():
                if term.final or term.kind in ("classifier", "number"):
                    raise PlanError(
                        f"the condition of {quoted(name)} asks what only measures know: a final "
                        "value, a classifier or the number of the match; leave it out"
                    )

    def _check_after(self, found: Automaton, names: Mapping[str, tuple[str, ...]]) -> None:
        if self.after in (SKIP_PAST, NEXT_ROW):
            return
        way, _, name = self.after.partition(" ")
        if way + " " not in (TO_FIRST, TO_LAST) or name not in names:
            raise PlanError(
                f'after={quoted(self.after)} is not one of "skip_past", "next_row", and '
                f'"to_first A" and "to_last A" with a variable: {listed(names)}'
            )
        begins = found.begins_with()
        if way + " " == TO_FIRST and begins and begins <= set(names[name]):
            raise PlanError(
                f"the pattern {quoted(self.pattern)} can match for ever: "
                f"after={quoted(self.after)} goes back to the row where the match began; write: "
                'after="next_row"'
            )

    def _check_endless(self) -> None:
        found = self.automaton
        if found.may_be_empty:
            raise PlanError(
                f"the pattern {quoted(self.pattern)} can match no row at all, so it matches at "
                "every row of the stream; write + for a * or leave a ? out, so that a match has a "
                "row"
            )
        if found.is_unbounded and not self.within_us:
            raise PlanError(
                f"the pattern {quoted(self.pattern)} can match for ever: nothing says how long a "
                'match may take, and its rows are kept as long; write: within="10 minutes"'
            )
        if self.timeout == "side" and not self.within_us:
            raise PlanError(
                'without within no match is ever too late; write: within="10 minutes", or leave '
                "timeout out"
            )
        if found.is_anchored:
            raise PlanError("a stream has no last row, and its first is long gone; leave ^ and $ "
                            "out of the pattern")  # fmt: skip
        if self.per_match not in ("one", "all"):
            raise PlanError(f'rows={quoted(self.per_match)} is for tables; write: rows="all"')
        below = pa.schema(visible(schema_of(self.input)))
        for made in (*self.conditions(below).values(), *self.columns(below).values()):
            self._check_terms(made.terms)
        for field in below:
            if (self.per_match == "all" or field.name in self.read) and is_nested(
                plain(field.type)
            ):
                raise PlanError(
                    "match on a stream keeps no lists and structs, and "
                    f"{quoted(field.name)} is {field.type}; leave it out before, or its parts in"
                )

    def _check_terms(self, terms: Mapping[str, Term]) -> None:
        for name, term in terms.items():
            if term.shift > 0:
                raise PlanError(
                    f"{name} reads a row that has not come yet; on a stream let the pattern have a "
                    "variable for that row"
                )
            if term.kind == "number":
                raise PlanError(
                    "match_number() would keep a number of every key of the stream for ever; "
                    "leave it out"
                )


def _bare_text(expr: Expr) -> str:
    return expr_text(expr.input if isinstance(expr, Alias) else expr)
