"""Every refusal: what is wrong, and the line to write instead, as the user will read it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    IsIn,
    Literal,
    SortKey,
)
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Filter,
    Join,
    Limit,
    Node,
    Plan,
    Scan,
    Select,
    Sink,
    Sort,
    Union,
    WithColumns,
)
from fabric.plan.sources import MemorySource
from fabric.plan.targets import DatasetTarget, FileTarget

C = Column


def lit(value: object, dtype: pa.DataType | None = None) -> Literal:
    return Literal(value, dtype or pa.scalar(value).cast(pa.int32()).type)


def text(value: str) -> Literal:
    return Literal(value, pa.string())


def call(name: str, *args: Expr) -> Call:
    return Call(name, args)


def cols(node: Node, *names: str) -> Select:
    return Select(node, tuple(map(Column, names)))


def refused(node: Node) -> str:
    with pytest.raises(PlanError) as caught:
        check(Plan(node))
    assert caught.value.where.node
    return caught.value.message


REFUSALS: dict[str, tuple[Callable[[Scan], Node], str, str | None]] = {
    "unknown column": (
        lambda s: Filter(s, call("gt", C("dealy"), lit(5))),
        'there is no column "dealy" here; did you mean "delay"?; the columns are "carrier", "dela',
        '.filter(col("delay") > 5)',
    ),
    "unknown column in another case": (
        lambda s: Sort(s, (SortKey(C("DELAY"), True, True),)),
        'there is no column "DELAY" here; did you mean "delay"?',
        '.sort(col("delay").desc())',
    ),
    "unknown column like no other": (
        lambda s: cols(s, "zzz"),
        'there is no column "zzz" here; the columns are',
        None,
    ),
    "column left out before": (
        lambda s: Filter(Limit(cols(s, "delay"), 3), call("eq", C("carrier"), text("AA"))),
        "an earlier step leaves it out, there",
        '.select("delay", "carrier")',
    ),
    "column grouped away": (
        lambda s: Sort(Aggregate(s, (C("carrier"),), (Agg("count", None),)), (SortKey(C("day")),)),
        "an earlier step leaves it out, there",
        '.group_by("carrier", "day").agg(count())',
    ),
    "predicate is a number": (
        lambda s: Filter(s, C("delay")),
        "a filter must be true or false, got int32",
        '.filter(col("delay") != 0)',
    ),
    "predicate is a string": (
        lambda s: Filter(s, C("carrier")),
        "a filter must be true or false, got string",
        '.filter(col("carrier").is_not_null())',
    ),
    "overwrite": (
        lambda s: WithColumns(s, (Alias(call("add", C("delay"), lit(1)), "delay"),)),
        'would overwrite "delay"; give it a name of its own, .alias("delay_2"), or say',
        '.with_columns((col("delay") + 1).alias("delay"), replace=True)',
    ),
    "double output": (
        lambda s: Select(s, (C("delay"), call("abs", C("delay")))),
        'two columns would be called "delay"',
        '.select("delay", col("delay").abs().alias("delay_2"))',
    ),
    "double in with_columns": (
        lambda s: WithColumns(s, (Alias(C("delay"), "x"), Alias(C("late"), "x"))),
        'two columns would be called "x"',
        '.with_columns(col("delay").alias("x"), col("late").alias("x_2"))',
    ),
    "double aggregate": (
        lambda s: Aggregate(s, (C("carrier"),), (Agg("sum", C("delay")), Agg("mean", C("delay")))),
        'two columns would be called "delay"',
        '.group_by("carrier").agg(col("delay").sum(), col("delay").mean().alias("delay_mean"))',
    ),
    "no column": (lambda s: Select(s, ()), "a select needs at least one column", None),
    "string and number": (
        lambda s: Filter(s, call("gt", C("carrier"), lit(4))),
        '> can\'t compare string and int32 in col("carrier") > 4',
        '.filter(col("carrier").cast("int32") > 4)',
    ),
    "date and string": (
        lambda s: Filter(s, call("ge", C("day"), text("2013-01-01"))),
        ">= can't compare date32[day] and string",
        '.filter(col("day") >= datetime.date(2013, 1, 1))',
    ),
    "date and what is no date": (
        lambda s: Filter(s, call("ge", C("day"), text("yesterday"))),
        '>= can\'t compare date32[day] and string in col("day") >= "yesterday"',
        None,
    ),
    "sum of strings": (
        lambda s: Aggregate(s, (), (Agg("sum", C("carrier")),)),
        "sum takes numbers, got string",
        '.agg(col("carrier").cast("double").sum())',
    ),
    "min of lists": (
        lambda s: Aggregate(s, (), (Agg("min", C("tags")),)),
        "min takes single values, got list<item: string>",
        None,
    ),
    "string function of a number": (
        lambda s: Select(s, (call("upper", C("delay")),)),
        ".str.upper takes a string, got int32 in",
        '.select(col("delay").cast("string").str.upper())',
    ),
    "boolean function of a number": (
        lambda s: Filter(s, call("and", C("late"), C("delay"))),
        "& takes true or false, got int32 on its right",
        '.filter(col("late") & (col("delay") != 0))',
    ),
    "too few arguments": (
        lambda s: Select(s, (call("add", C("delay")),)),
        "+ takes 2 arguments, got 1",
        None,
    ),
    "digits that are no constant": (
        lambda s: Select(s, (call("round", C("distance"), C("delay")),)),
        "round needs a constant as argument 1",
        None,
    ),
    "unknown unit": (
        lambda s: Select(s, (call("date_trunc", text("hours"), C("at")),)),
        "date_trunc knows no unit 'hours'; use one of microsecond,",
        '.select(col("at").dt.date_trunc("hour"))',
    ),
    "unknown function": (
        lambda s: Select(s, (call("uper", C("carrier")),)),
        "there is no function 'uper', did you mean upper?",
        '.select(col("carrier").str.upper())',
    ),
    "unknown aggregate": (
        lambda s: Aggregate(s, (), (Agg("maen", C("delay")),)),
        "there is no aggregate 'maen'",
        '.agg(col("delay").mean())',
    ),
    "case of two types": (
        lambda s: Select(s, (Alias(Case(((C("late"), C("carrier")),), C("delay")), "x"),)),
        "the values of a case must be one type, got string and int32",
        '.select(when(col("late")).then(col("carrier"))'
        '.otherwise(col("delay").cast("string")).alias("x"))',
    ),
    "condition that is none": (
        lambda s: Select(s, (Alias(Case(((C("delay"), lit(1)),), lit(2)), "x"),)),
        "the condition of a when must be true or false, got int32",
        '.select(when(col("delay") != 0).then(1).otherwise(2).alias("x"))',
    ),
    "cast that is none": (
        lambda s: Select(s, (Cast(C("day"), pa.int32()),)),
        "there is no cast from date32[day] to int32",
        None,
    ),
    "is_in of another type": (
        lambda s: Filter(s, IsIn(C("delay"), (text("1"), text("2")))),
        "is_in can't compare int32 and string",
        '.filter(col("delay").is_in([1, 2]))',
    ),
    "alias inside": (
        lambda s: Select(s, (call("abs", Alias(C("delay"), "x")),)),
        "an alias goes around the whole expression",
        '.select(col("delay").abs())',
    ),
    "constant of another type": (
        lambda s: Filter(s, call("eq", C("delay"), Literal("x", pa.int32()))),
        "'x' is not a valid int32",
        None,
    ),
    "decimal that would crash Arrow": (
        lambda s: Filter(s, call("eq", C("price"), Literal(
            Decimal("1E-999999999"), pa.decimal128(10, 2)))),
        "'1E-999999999' is not a decimal of up to 100 digits",
        None,
    ),
    "aggregate in a filter": (
        lambda s: Filter(s, call("gt", C("delay"), Agg("mean", C("delay")))),
        "the aggregate mean needs a group_by(...).agg(...)",
        None,
    ),
    "aggregate in a select": (
        lambda s: Select(s, (Alias(Agg("max", C("delay")), "worst"),)),
        "the aggregate max is only allowed in group_by(...).agg(...)",
        '.agg(col("delay").max().alias("worst"))',
    ),
    "aggregate of an aggregate": (
        lambda s: Aggregate(s, (), (Agg("max", Agg("sum", C("delay"))),)),
        "the aggregate sum needs a group_by",
        None,
    ),
    "aggregate as a key": (
        lambda s: Aggregate(s, (Agg("max", C("delay")),), (Agg("count", None),)),
        "the aggregate max is only allowed in",
        None,
    ),
    "column in agg": (
        lambda s: Aggregate(s, (C("carrier"),), (C("day"), Agg("count", None))),
        'agg takes aggregates only, and "day" is not one; make it a key',
        '.group_by("carrier", "day").agg(count())',
    ),
    "only a column in agg": (
        lambda s: Aggregate(s, (C("carrier"),), (C("day"),)),
        'agg takes aggregates only, and "day" is not one; make it a key',
        '.select("carrier", "day").distinct()',
    ),
    "arithmetic in agg": (
        lambda s: Aggregate(s, (C("carrier"),), (
            Alias(call("divide", Agg("sum", C("delay")), Agg("count", None)), "rate"),)),
        "agg takes aggregates only, not arithmetic around them; compute it after",
        '.group_by("carrier").agg(col("delay").sum().alias("delay_sum"), count().alias("n"))'
        '.with_columns((col("delay_sum") / col("n")).alias("rate"))',
    ),
    "empty aggregate": (
        lambda s: Aggregate(s, (), ()), "an aggregate needs a key or an aggregate", None,
    ),
    "sum without input": (
        lambda s: Aggregate(s, (), (Agg("sum", None),)), "sum needs an input; only count", None,
    ),
    "sort by lists": (
        lambda s: Sort(s, (SortKey(C("tags")),)), 'a sort can\'t order by "tags"', None,
    ),
    "sort by nothing": (lambda s: Sort(s, ()), "a sort needs a key", None),
    "negative limit": (
        lambda s: Limit(s, -1), "a limit needs n of at least 0, got -1", ".limit(0)",
    ),
    "join of string and number": (
        lambda s: Join(s, cols(s, "delay"), (C("carrier"),), (C("delay"),)),
        'the join keys can\'t be compared: "carrier" is string and "delay" is int32',
        '.join(other, left_on=col("carrier").cast("int32"), right_on="delay")',
    ),
    "join key unknown on the right": (
        lambda s: Join(s, cols(s, "carrier"), (C("carrier"),), (C("carier"),)),
        'right side: there is no column "carier" here; did you mean "carrier"?',
        '.join(other, on="carrier")',
    ),
    "join without keys": (lambda s: Join(s, s, (), ()), "a join needs as many keys", None),
    "join by lists": (
        lambda s: Join(s, s, (C("tags"),), (C("tags"),)), "a join can't compare values", None,
    ),
    "join by an aggregate": (
        lambda s: Join(s, s, (Agg("max", C("delay")),), (C("delay"),)),
        "a join key can't be an aggregate; aggregate the left side before", None,
    ),
    "join of equal names": (
        lambda s: Join(
            Select(s, (C("delay"), C("late"), Alias(C("late"), "late_right"))),
            cols(s, "delay", "late"), (C("delay"),), (C("delay"),)),
        'the join would put out two columns called "late_right"',
        '.join(other, on="delay", suffix="_right_2")',
    ),
    "union of other widths": (
        lambda s: Union((cols(s, "delay"), s)),
        "a union needs inputs of as many columns: input 1 has 1, input 2 has 8",
        '.union(other.select("delay"))',
    ),
    "union that lacks a column": (
        lambda s: Union((s, cols(s, "delay"))), 'it lacks "carrier", "distance"', None,
    ),
    "union of other types": (
        lambda s: Union((cols(s, "delay"), cols(s, "carrier"))),
        'a union needs one type a column: "delay" is int32 in input 1 and string in input 2',
        '.union(other.with_columns(col("carrier").cast("int32"), replace=True))',
    ),
    "union of nothing": (lambda s: Union(()), "a union needs at least one input", None),
    "exchange by what is not there": (
        lambda s: Exchange(s, "hash", ("carrier", "dya"), 4),
        'there is no column "dya" to exchange by; the columns are',
        '.exchange("carrier", "day", n_partitions=4)',
    ),
    "exchange by one key twice": (
        lambda s: Exchange(s, "hash", ("day", "day")),
        "an exchange key is given twice",
        '.exchange("day")',
    ),
    "hash exchange without keys": (
        lambda s: Exchange(s, "hash"), "a hash exchange needs a key", '.exchange("carrier")',
    ),
    "gather with keys": (
        lambda s: Exchange(s, "gather", ("day",)),
        "a gather exchange takes no keys",
        '.exchange(kind="gather")',
    ),
    "gather to two": (
        lambda s: Exchange(s, "gather", (), 2),
        "a gather exchange has one partition",
        '.exchange(n_partitions=1, kind="gather")',
    ),
    "too many partitions": (
        lambda s: Exchange(s, "round_robin", (), 32_769),
        "an exchange has 1 to 32768 partitions (0: chosen for you), got 32769",
        ".exchange(n_partitions=32768)",
    ),
    "dataset key unknown": (
        lambda s: Sink(s, DatasetTarget("d", ("carier",))),
        'there is no column "carier" to partition by',
        '.write_dataset("d", keys=["carrier"])',
    ),
    "scan predicate": (
        lambda s: Scan(s.source, s.schema, ("delay",), C("delay")),
        "a filter must be true or false, got int32",
        None,
    ),
    "scan column unknown": (
        lambda s: Scan(s.source, s.schema, ("dely",)), 'did you mean "delay"?', None,
    ),
    "scan column twice": (
        lambda s: Scan(s.source, s.schema, ("delay", "delay")),
        'the scan reads the column "delay" twice',
        None,
    ),
    "source column twice": (
        lambda s: Scan(s.source, pa.schema([("a", pa.int8()), ("a", pa.int8())])),
        'the source has the column "a" twice; rename one of them',
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name: str, flights: Scan) -> None:
    build, message, line = REFUSALS[name]
    found = refused(build(flights))
    assert message in found
    if line is not None:
        assert found.endswith(f"; write: {line}")
    assert "\n" not in found
    assert not found.endswith(".")


def test_distinct_and_groups_refuse_maps() -> None:
    schema = pa.schema([("k", pa.int8()), ("m", pa.map_(pa.string(), pa.int8()))])
    scan = Scan(MemorySource("t", 1), schema)
    assert refused(Distinct(scan)).endswith('leave it out; write: .select("k").distinct()')
    assert 'group_by can\'t compare values of "m"' in refused(Aggregate(scan, (C("m"),), ()))
    assert 'an exchange can\'t hash "m"' in refused(Exchange(scan, "hash", ("m",)))
    many = Aggregate(scan, (), (Agg("count_distinct", C("m")),))
    assert "count_distinct takes values that can be compared" in refused(many)


def test_names_may_hold_anything() -> None:
    names = ['a"b', "it's", "two\nlines", "", "日本", "\x00", "a", "A"]
    scan = Scan(MemorySource("t", 1), pa.schema([(name, pa.int8()) for name in names]))
    node = Filter(cols(scan, *names), call("gt", C("two\nlines"), lit(1)))
    assert check(Plan(node)).root.path == "filter_1"
    assert "\n" not in refused(cols(scan, "two\n"))
    assert 'did you mean "two\\nlines"' in refused(cols(scan, "two\nline"))


def test_a_name_that_is_no_text_is_refused(flights: Scan) -> None:
    message = 'the name "x\\ud800" is not Unicode text'
    assert refused(cols(flights, "x\ud800")) == message
    assert refused(Select(flights, (Alias(C("delay"), "x\ud800"),))) == message


def test_an_expression_too_deep_or_too_large_is_refused(flights: Scan) -> None:
    deep: Expr = C("delay")
    for _ in range(300):
        deep = call("add", deep, C("delay"))
    assert "an expression is too large: 201 levels" in refused(Select(flights, (deep,)))
    wide: Expr = C("delay")
    for _ in range(40):  # 2**40 parts, 41 objects
        wide = call("add", wide, wide)
    assert "compute parts of it in an earlier with_columns" in refused(Select(flights, (wide,)))


def test_a_line_too_long_to_read_is_left_out(flights: Scan) -> None:
    exprs = tuple(Alias(C("delay"), f"a_rather_long_name_{i}") for i in range(40))
    message = refused(Select(flights, (*exprs, C("dealy"))))
    assert 'did you mean "delay"' in message
    assert "write:" not in message


def test_a_write_is_the_last_step(flights: Scan) -> None:
    sink = Sink(flights, FileTarget("parquet", "/x", True))
    assert "a write is the last step" in refused(Limit(sink, 1))
