"""Patterns and what they ask: what is refused says where, and what to write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from fabric import DataFrame, col, count, lag, lit, max, streams
from fabric.errors import PlanError
from fabric.patterns import classifier, final, first, last, match_number, next, prev
from fabric.plan.row_automaton import POSITIONS_MAX, automaton
from fabric.plan.row_pattern import is_unbounded, parsed, variables_of
from fabric.plan.stream_facts import stream_of

TABLE = DataFrame(pa.table({
    "k": ["a"], "price": [1], "at": pa.array([0], pa.timestamp("us")), "xs": [[1]], "A.n": [1],
    "n": [1],
}))  # fmt: skip
ROWS = streams.generator(n_rows=10)
STREAM = ROWS.with_watermark("ts", "1 second")
UP = {"B": col("price") > prev("price")}


@pytest.mark.parametrize(("text", "words"), [
    ("A B+ )", '")" closes nothing at character 6'), ("A (", "is missing at character 4"),
    ("A**", "a quantifier follows a quantifier"), ("A{3,2}", "at least 3 and at most 2"),
    ("A - B", '"-" has no meaning at character 3'), ("", "is missing at character 1"),
    ("A |", "is missing at character 4"), ("A {- B", 'not closed with "-}", but there is nothing'),
    ("A{}", "is no quantifier such as"), ("A{x}", "is no quantifier such as"), ("^", "no variable"),
    ("PERMUTE(A", 'not closed with ")"'), ("A, B", '"," closes nothing'), ("(A", "a group is not"),
    ("PERMUTE(A, B, C, D, E, F, G)", "at most 6 parts, got 7"), ("(" * 60 + "A", "more than 50"),
    ("A" * 10_001, "at most 10000 characters"), ("(A{900}){900}", "at most 1,000 variables"),
    ("(){99999999} A", "is too large"), ("(A?){999} (A?){999}", "at most 1,000|is too large"),
    ("((A | B | ()){500})", "is too large|at most 1,000"),
])  # fmt: skip
def test_bad_patterns(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words.replace("(", r"\(").replace(")", r"\)")):
        automaton(parsed(text))


def test_what_is_known_of_a_pattern() -> None:
    assert variables_of(parsed("PERMUTE(B, A) | {- C+ -}")) == ("B", "A", "C")
    assert not is_unbounded(parsed("A{3} ()* B?"))
    assert is_unbounded(parsed("A{3,}?"))
    assert len(automaton(parsed(f"A{{{POSITIONS_MAX}}}")).follow) == POSITIONS_MAX


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: TABLE.match("A B", define={"C": col("price") > 1}, order_by="at"),
     'define has "C", which is no variable of the pattern "A B"'),
    (lambda: TABLE.match("UP DOWN", define={"DWN": lit(True)}, order_by="at"),
     'did you mean "DOWN"'),
    (lambda: TABLE.match("A B", define=UP, measures={"n": count()}), 'write: order_by="ts"'),
    (lambda: TABLE.match("A B", define=UP, order_by="at"), "needs a measure; write"),
    (lambda: TABLE.match("A", measures={"n": count()}, order_by="xs"), "can't order by list"),
    (lambda: TABLE.match("A", define={"A": col("price")}, order_by="at", measures={"n": count()}),
     'the condition of "A" must be true or false, got int64'),
    (lambda: TABLE.match("A", define={"A": final(col("price")) > 1}, order_by="at", rows="all"),
     "asks what only measures know"),
    (lambda: TABLE.match("A", define={"A": classifier() == "A"}, order_by="at", rows="all"),
     "asks what only measures know"),
    (lambda: TABLE.match("A", measures={"x": "A.prise"}, order_by="at"),
     'there is no column "prise"; .*write: .*A.price'),
    (lambda: TABLE.match("UP", measures={"x": "UPP.price"}, order_by="at"),
     '"UPP" is not a variable of the pattern; .*write: .*UP.price'),
    (lambda: TABLE.match("A", measures={"x": "prise"}, order_by="at"), 'no column "prise".*price'),
    (lambda: TABLE.match("A", measures={"x": col("A.n")}, order_by="at"), '"A.n" is a column, and'),
    (lambda: TABLE.match("A B", measures={"x": last(col("A.price") + col("B.price"))},
                         order_by="at"), "reads rows of one variable"),
    (lambda: TABLE.match("A", measures={"x": lag("price")}, order_by="at"), r"write: prev\(…\)"),
    (lambda: TABLE.match("A", measures={"x": prev(max("price"))}, order_by="at"),
     r"prev takes a column, or first\(…\) or last\(…\) of one"),
    (lambda: TABLE.match("A", measures={"x": last(prev("price"))}, order_by="at"),
     "takes columns of one row"),
    (lambda: TABLE.match("A", measures={"x": prev("price", 20_000)}, order_by="at"),
     "a constant number of rows from 0 to 10,000"),
    (lambda: TABLE.match("A", measures={"x": classifier("U")}, order_by="at"),
     "classifier needs a variable of the pattern"),
    (lambda: TABLE.match("A", measures={"price": count()}, order_by="at", rows="all"),
     'there is a column "price" already; write: .*"price_2"'),
    (lambda: TABLE.match("A", measures={"n": count()}, order_by="at",
                         partition_by=col("price") + 1), r"write: \.with_columns\(.*alias"),
    (lambda: TABLE.match("A", measures={"n": count()}, order_by="at", partition_by="xs"), "xs"),
    (lambda: TABLE.match("A", measures={"n": count()}, order_by="price", within="1 hour"),
     "the time of a match must be a timestamp"),
    (lambda: TABLE.match("A", measures={"n": count()}, order_by=col("at").desc(), within="1 hour"),
     "one column of times, ascending"),
    (lambda: TABLE.match("A", measures={"n": count()}, order_by="at", within="0 s"), "at least"),
    (lambda: TABLE.match("A", measures={"n": count()}, order_by="at", late="side"),
     "leave late and timeout out"),
    (lambda: TABLE.match("A B", measures={"n": count()}, order_by="at", after="to_first A"),
     'can match for ever: .*write: after="next_row"'),
    (lambda: TABLE.match("A B", measures={"n": count()}, order_by="at", after="to_last X"),
     'is not one of "skip_past", "next_row"'),
    (lambda: TABLE.match("A", measures={"n": count()}, order_by="at", rows="many"),
     "use 'one', 'all'"),
    (lambda: TABLE.match("A {- B -}", order_by="at", rows="all_with_unmatched"),
     'write rows="all", or leave the exclusion out'),
    (lambda: TABLE.match("A", order_by="at", rows="all", subsets={"A": ["A"]}), "another one"),
    (lambda: TABLE.match("A", order_by="at", rows="all", subsets={"U": ["X"]}),
     "needs variables of the pattern"),
    (lambda: TABLE.match("A", order_by="at", rows="all", subsets={"U": "A"}), r'\["UP", "DOWN"\]'),
    (lambda: TABLE.match("A", order_by="at", rows="all", define=[lit(True)]), "write for example"),
    (lambda: TABLE.match("A", order_by="at", rows="all", define={1: lit(True)}), "got the name 1"),
    (lambda: TABLE.select(prev("price")), r"prev is for conditions and measures of \.match"),
    (lambda: STREAM.match("A B+", measures={"n": count()}, partition_by="key"),
     'can match for ever: .*write: within="10 minutes"'),
    (lambda: STREAM.match("A B", measures={"n": count()}, timeout="side"),
     'no match is ever too late; write: within="10 minutes"'),
    (lambda: STREAM.match("A*", measures={"n": count()}, within="1 s"), "can match no row at all"),
    (lambda: STREAM.match("^A", measures={"n": count()}, within="1 s"), r"leave \^ and \$ out"),
    (lambda: STREAM.match("A", measures={"n": next("value")}), "reads a row that has not come yet"),
    (lambda: STREAM.match("A", measures={"n": match_number()}), r"match_number\(\) would keep"),
    (lambda: STREAM.match("A", rows="all_with_unmatched"), 'is for tables; write: rows="all"'),
    (lambda: STREAM.match("A", measures={"n": count()}, order_by="value"),
     'goes by event time, which is "ts"'),
    (lambda: ROWS.match("A", measures={"n": count()}), r"\.with_watermark\("),
    (lambda: STREAM.group_by("key").count().match("A", measures={"n": count()}),
     "left out or changed|can't take changing results"),
    (lambda: STREAM.with_columns(col("ts") + timedelta(1), replace=True).match(
        "A", measures={"n": count()}), "left out or changed"),
    (lambda: STREAM.with_columns(xs=fabric_array()).match("A", measures={"n": "xs"}),
     "keeps no lists and structs"),
    (lambda: STREAM.match("A B", measures={"n": count()}, within="1 s").side_output("timeout"),
     r'it has none, \.match\(…, within=…, timeout="side"\) makes it'),
]  # fmt: skip


def fabric_array() -> Any:
    from fabric import array

    return array(col("value"), col("value"))


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused_with_a_way_out(number: int) -> None:
    make, words = REFUSED[number]
    with pytest.raises(PlanError, match=words):
        make()


def test_event_time_after_a_match() -> None:
    measures = {"n": count(), "end": last("ts")}
    bounded = STREAM.match("A B", measures=measures, partition_by="key", within="1 minute")
    stream = stream_of(bounded._node)
    assert stream is not None
    assert stream.time == "end"
    assert bounded.group_by("key").window("1 hour").count().columns[-1] == "count"
    for other in (
        STREAM.match("A B", measures=measures, partition_by="key"),
        STREAM.match("A B", measures={"n": first("ts")}, partition_by="key", within="1 minute"),
    ):
        with pytest.raises(PlanError, match="left out or changed"):
            other.group_by("n").window("1 hour").count()
    rows = STREAM.match("A B", measures={"v": classifier()}, rows="all", within="1 minute")
    assert rows.columns == [*STREAM.columns, "v"]
    assert rows.group_by("key").window("1 hour").count().columns[0] == "key"


def test_what_a_match_reads() -> None:
    frame = TABLE.match("A", define={"A": prev("price") > 0}, measures={"m": "A.at"}, order_by="k")
    (needs,) = frame._node.needs(frozenset(["m"]), TABLE.schema)
    assert needs == {"price", "at", "k"}
    every = TABLE.match("A", measures={"m": "price"}, order_by="k", rows="all")
    assert every._node.needs(frozenset(["m"]), TABLE.schema) == (frozenset(TABLE.columns),)
