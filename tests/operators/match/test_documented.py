"""Patterns with the answers that other engines document: Flink's page about MATCH_RECOGNIZE, and
the cases by which Trino shows what the standard's clauses mean. Data and answers are facts; the
queries are written as ours.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fabric import DataFrame, col, count, lit
from fabric.errors import DataError, PlanError
from fabric.operators.match.table import matched
from fabric.patterns import classifier, final, first, last, match_number, next, prev, running
from fabric.plan.nodes import Match
from fabric.plan.schema import schema_of

STEP = [90, 80, 70, 70]
VALLEYS = [90, 80, 70, 80, 90, 50, 40, 60]
FALLS = col("value") < prev("value")
RISES = col("value") > prev("value")
LABELS = {"match": match_number(), "val": running(last("value")), "label": classifier()}
EMPTY = [(n, n, None, None) for n in (1, 2, 3, 4)]
B_OF_1 = [(2, 1, 80, "B"), (3, 1, 70, "B"), (4, 1, 70, "B")]
B_OF_2 = [(1, 1, None, None), (2, 2, 80, "B"), (3, 2, 70, "B"), (4, 2, 70, "B")]
B_EACH = [(2, 1, 80, "B"), (3, 2, 70, "B"), (4, 3, 70, "B")]
B_OR_NOT = [(1, 1, None, None), (2, 2, 80, "B"), (3, 3, 70, "B"), (4, 4, 70, "B")]


def numbered(values: list[int]) -> pa.Table:
    return pa.table({"id": list(range(1, len(values) + 1)), "value": values})


def put_out(given: pa.Table, *arguments: Any, **options: Any) -> pa.Table:
    """What ``df.match`` puts out, without a session."""
    node = DataFrame(given).match(*arguments, **options)._node
    assert isinstance(node, Match)
    schema = schema_of(node)
    return pa.Table.from_batches(matched(node, given.to_batches(), given.schema, schema), schema)


def found(given: pa.Table, pattern: str, define: dict[str, Any], *names: str, **more: Any) -> Any:
    """Columns of the rows that a match puts out, by default with the labels of each row."""
    options: dict[str, Any] = {"measures": LABELS, "rows": "all", "order_by": "id", **more}
    table = put_out(given, pattern, define=define, **options)
    names = names or ("id", *LABELS)
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize(("pattern", "answer"), [
    ("B*", B_OF_2), ("B*?", EMPTY), ("B+", B_OF_1), ("B+?", B_EACH), ("B?", B_OR_NOT),
    ("B??", EMPTY), ("B{,}", B_OF_2), ("B{,}?", EMPTY), ("B{1,}", B_OF_1), ("B{1,}?", B_EACH),
    ("B{2,}", B_OF_1), ("B{2,}?", B_OF_1[:2]), ("B{5,}", []), ("B{,1}", B_OR_NOT),
    ("B{,1}?", EMPTY), ("B{,2}", [*B_OF_2[:3], (4, 3, 70, "B")]), ("B{,2}?", EMPTY),
    ("B{,5}", B_OF_2), ("B{1,1}", B_EACH), ("B{1,5}", B_OF_1), ("B{1,5}?", B_EACH),
    ("B{5,7}", []), ("B{2}", B_OF_1[:2]), ("B{2}?", B_OF_1[:2]), ("B{5}", []),
])  # fmt: skip
def test_quantifiers(pattern: str, answer: list[Any]) -> None:
    assert found(numbered(STEP), pattern, {"B": col("value") <= prev("value")}) == answer


@pytest.mark.parametrize(("pattern", "answer"), [
    ("() | A", EMPTY), ("^A", [(1, 1, 90, "A")]), ("A^", []), ("^A^", []),
    ("A$", [(4, 1, 70, "A")]), ("$A", []), ("$A$", []),
    ("A B C", [(2, 1, 80, "A"), (3, 1, 70, "B"), (4, 1, 70, "C")]),
    ("((A) (B (C)))", [(2, 1, 80, "A"), (3, 1, 70, "B"), (4, 1, 70, "C")]),
])  # fmt: skip
def test_parts(pattern: str, answer: list[Any]) -> None:
    define = {"B": FALLS, "C": col("C.value") == prev("C.value")}
    define = {name: condition for name, condition in define.items() if name in pattern}
    assert found(numbered(STEP), pattern, define) == answer


def test_the_first_alternative_and_the_first_permutation_are_preferred() -> None:
    define = {"B": FALLS, "C": col("value") <= prev("value")}
    answer = [(1, 1, 90, "A"), (2, 2, 80, "B"), (3, 3, 70, "B"), (4, 4, 70, "C")]
    assert found(numbered(STEP), "B | C | A", define) == answer
    both = {"B": FALLS, "C": FALLS}
    assert found(numbered(STEP), "PERMUTE(B, C)", both) == [(2, 1, 80, "B"), (3, 1, 70, "C")]


@pytest.mark.parametrize(("pattern", "answer"), [
    ("()* | B", EMPTY), ("()+ | B", EMPTY), ("(){5,} | B", EMPTY),
    ("B | ()*", [*B_OR_NOT[:3], (4, 4, None, None)]),
    ("(B ()*)*", [*B_OF_2[:3], (4, 3, None, None)]), ("(B ()*)*?", EMPTY), ("^* | B", EMPTY),
    ("^+ | B", B_OR_NOT[:3]), ("^* A B", [(1, 1, 90, "A"), (2, 1, 80, "B")]), ("$* | B", EMPTY),
    ("$+ | B", B_EACH[:2]), ("B A $+", [(3, 1, 70, "B"), (4, 1, 70, "A")]),
])  # fmt: skip
def test_iterations_without_a_row(pattern: str, answer: list[Any]) -> None:
    assert found(numbered(STEP), pattern, {"B": FALLS}) == answer


A_AND_C = [(1, 1, 90, "A"), (4, 1, 80, "C"), (5, 1, 90, "C"), (6, 2, 50, "A"), (8, 2, 60, "C")]


@pytest.mark.parametrize(("pattern", "answer"), [
    ("A {- B+ -} C+", A_AND_C),
    ("{- A -} {- B+ -} C+", [row for row in A_AND_C if row[3] == "C"]),
    ("A {- {- B+ -} C+ -}", [row for row in A_AND_C if row[3] == "A"]),
    ("{- A B+ C+ -}", []),
    ("A {- B -}+ {- C -}+", [row for row in A_AND_C if row[3] == "A"]),
    ("A {- B -}{1,2} {- C -}{1,2}", [row for row in A_AND_C if row[3] == "A"]),
    ("A {- C -}{2,3} {- B -}{2,3}", [(3, 1, 70, "A")]),
])  # fmt: skip
def test_exclusions(pattern: str, answer: list[Any]) -> None:
    assert found(numbered(VALLEYS), pattern, {"B": FALLS, "C": RISES}) == answer


def test_conditions_refer_to_what_was_matched() -> None:
    ones = numbered([1, 1])
    for name in ("A", "B"):
        answer = found(ones, "(A | B)* X", {"X": col("value") == col(f"{name}.value")}, "label")
        assert answer == [(name,), ("X",)]
    wanted = prev(last("A.value"), 3) + first("A.value") + prev(last("B.value"), 2)
    answer = found(
        numbered([1, 2, 3, 4, 5, 6]), "(A | B)* X", {"X": col("value") == wanted}, "label", "sum",
        measures={"label": classifier(), "sum": wanted},
    )  # fmt: skip
    assert [label for label, _ in answer] == ["B", "A", "A", "A", "B", "X"]
    assert [total for _, total in answer] == [None, None, None, None, 6, 6]


ALL_B = [(1, None, None), (2, 80, "B"), (2, 70, "B"), (3, None, None)]


@pytest.mark.parametrize(("rows", "pattern", "answer"), [
    ("one", "B*", [(1, None, None), (2, 70, "B"), (3, None, None)]), ("one", "B+", [(1, 70, "B")]),
    ("all", "B*", ALL_B), ("all", "B+", [(1, 80, "B"), (1, 70, "B")]),
    ("all_omit_empty", "B*", ALL_B[1:3]), ("all_omit_empty", "B+", [(1, 80, "B"), (1, 70, "B")]),
    ("all_with_unmatched", "B+",
     [(None, None, None), (1, 80, "B"), (1, 70, "B"), (None, None, None)]),
])  # fmt: skip
def test_output_modes(rows: str, pattern: str, answer: list[Any]) -> None:
    assert found(numbered(STEP), pattern, {"B": FALLS}, *LABELS, rows=rows) == answer


def test_rows_of_earlier_matches_are_not_unmatched() -> None:
    answer = found(
        numbered([100, 100, 90, 80, 70, 100]), "A B{2}", {"B": FALLS}, "id", "match", "label",
        rows="all_with_unmatched", after="next_row",
    )  # fmt: skip
    assert answer == [
        (1, None, None), (2, 1, "A"), (3, 1, "B"), (4, 1, "B"), (3, 2, "A"), (4, 2, "B"),
        (5, 2, "B"), (6, None, None),
    ]  # fmt: skip


ZIGZAG = [90, 80, 70, 80, 70, 80]
FIRST = [(1, 1, 90, "A"), (2, 1, 80, "B"), (3, 1, 70, "B"), (4, 1, 80, "C")]
AT_4 = [(4, 2, 80, "A"), (5, 2, 70, "B"), (6, 2, 80, "C")]


@pytest.mark.parametrize(("after", "answer"), [
    ("skip_past", FIRST),
    ("next_row", [*FIRST, (2, 2, 80, "A"), (3, 2, 70, "B"), (4, 2, 80, "C"),
                  *((n, 3, value, label) for n, _, value, label in AT_4)]),
    ("to_first C", [*FIRST, *AT_4]), ("to_last B", [*FIRST, *AT_4]), ("to_last U", [*FIRST, *AT_4]),
])  # fmt: skip
def test_where_the_search_goes_on(after: str, answer: list[Any]) -> None:
    define = {"B": FALLS, "C": RISES, "D": lit(False)}
    options = {"after": after, "subsets": {"U": ["C", "D"]}}
    assert found(numbered(ZIGZAG), "A B+ C+ D?", define, **options) == answer


def test_where_it_can_not_go_on() -> None:
    define = {"B": FALLS, "C": RISES, "D": lit(False)}
    with pytest.raises(DataError, match=r"the row where the match began.*next_row"):
        found(numbered(ZIGZAG), "A B+ C+ D?", define, after="to_last A")
    with pytest.raises(DataError, match="has no such row"):
        found(numbered(ZIGZAG), "A B+ C+ D?", define, after="to_last D")
    with pytest.raises(PlanError, match=r"can match for ever.*write: after="):
        found(numbered(ZIGZAG), "A B+ C+ D?", define, after="to_first A")


def test_subsets_are_the_rows_of_several_variables() -> None:
    answer = found(
        numbered([90, 80, 70, 80]), "(L | H) A",
        {"A": col("A.value") == 80, "L": col("value") < 80, "H": col("value") > 80},
        "id", "match", "u", "w", subsets={"U": ["L", "H"], "W": ["A", "L", "H"]},
        measures={"match": match_number(), "u": classifier("U"), "w": classifier("W")},
    )  # fmt: skip
    assert answer == [(1, 1, "H", "H"), (2, 1, "H", "A"), (3, 2, "L", "L"), (4, 2, "L", "A")]


@pytest.mark.parametrize(("measure", "answer"), [
    (col("value"), [10, 20, 30]), (last("value"), [10, 20, 30]),
    (running(last("value")), [10, 20, 30]), (final(last("value")), [30, 30, 30]),
    (first("value"), [10, 10, 10]), (final(first("value")), [10, 10, 10]),
    (last("value", 1), [None, 10, 20]), (first("value", 1), [None, 20, 20]),
    (final(first("value", 1)), [20, 20, 20]), (prev("value"), [None, 10, 20]),
    (next("value"), [20, 30, None]), (prev(first("value", 1)), [None, 10, 10]),
    (next(first("value"), 2), [30, 30, 30]), (prev(last("value", 1), 1), [None, None, 10]),
    (final(count()), [3, 3, 3]), (count("A"), [1, 2, 3]), (col("value").sum(), [10, 30, 60]),
    (final(last("value")) - last("value"), [20, 10, 0]),
])  # fmt: skip
def test_navigation(measure: Any, answer: list[Any]) -> None:
    rows = found(numbered([10, 20, 30]), "A+", {}, "m", measures={"m": measure})
    assert [value for (value,) in rows] == answer


def ticker(prices: list[int], *, seconds: int = 1) -> pa.Table:
    """A row every so many seconds."""
    times = [n * seconds for n in range(len(prices))]
    at = pa.array(times, pa.timestamp("s"))
    return pa.table({"at": at, "price": prices, "n": list(range(len(prices)))})


def test_a_falling_price_and_its_turn() -> None:
    down = (last("DOWN.price", 1).is_null() & (col("DOWN.price") < col("START.price"))) | (
        col("DOWN.price") < last("DOWN.price", 1)
    )
    prices = [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]
    answer = put_out(
        ticker(prices), "START DOWN+ UP",
        define={"DOWN": down, "UP": col("UP.price") > last("DOWN.price", 1)},
        measures={"start": "START.n", "bottom": last("DOWN.n"), "end": last("UP.n")},
        after="to_last UP", order_by="at",
    )  # fmt: skip
    assert answer.to_pylist() == [{"start": 4, "bottom": 7, "end": 8}]


def test_a_mean_that_stays_below() -> None:
    answer = put_out(
        ticker([12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30]), "A+ B",
        define={"A": col("A.price").mean() < 15}, order_by="at",
        measures={"start": first("A.n"), "end": last("A.n"), "mean": col("A.price").mean()},
    )  # fmt: skip
    assert answer.to_pylist() == [
        {"start": 0, "end": 3, "mean": 14.5}, {"start": 5, "end": 10, "mean": 13.5}
    ]  # fmt: skip


@pytest.mark.parametrize(("pattern", "answer"), [("A B* C", [16]), ("A B*? C", [13, 16])])
def test_greedy_and_reluctant(pattern: str, answer: list[int]) -> None:
    define = {"A": col("price") > 10, "B": col("price") < 15, "C": col("price") > 12}
    table = put_out(
        ticker([10, 11, 12, 13, 14, 16]),
        pattern,
        define=define,
        measures={"last": "C.price"},
        order_by="at",
    )
    assert table["last"].to_pylist() == answer


def test_a_price_that_drops_within_an_hour() -> None:
    prices = [20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19]
    define = {"B": col("price") > col("A.price") - 10, "C": col("price") < col("A.price") - 10}
    answer = put_out(
        ticker(prices, seconds=1200), "A B* C", define=define, within="1 hour", order_by="at",
        measures={"drop": "C.n", "by": col("A.price") - col("C.price")},
    )  # fmt: skip
    assert answer.to_pylist() == [{"drop": 9, "by": 14}]


@pytest.mark.parametrize(("after", "answer"), [
    ("skip_past", [(26, 0, 3), (17, 4, 6)]),
    # the standard has one match more than Flink's page, in the last two rows
    ("next_row", [(26, 0, 3), (24, 1, 4), (25, 2, 5), (22, 3, 6), (17, 4, 6), (7, 5, 6)]),
    ("to_last C", [(26, 0, 3), (22, 3, 6)]),
])  # fmt: skip
def test_sums_after_each_match(after: str, answer: list[Any]) -> None:
    table = put_out(
        ticker([7, 9, 10, 5, 10, 7, 14]), "A+ C",
        define={"A": col("A.price").sum() < 30}, after=after, order_by="at",
        measures={"sum": col("A.price").sum(), "start": first("n"), "end": last("n")},
    )  # fmt: skip
    assert [tuple(row.values()) for row in table.to_pylist()] == answer


def test_what_is_matched_so_far() -> None:
    def rows_of(prices: list[int], pattern: str, define: dict[str, Any]) -> list[Any]:
        labels = {"label": classifier()}
        options = {"measures": labels, "rows": "all", "order_by": "at"}
        table = put_out(ticker(prices), pattern, define=define, **options)
        return [(row["price"], row["label"]) for row in table.to_pylist()]

    sums = (col("price") > col("A.price")) & (col("B.price").sum() < 80)
    define = {"A": col("price") >= 10, "B": sums & (col("price").sum() < 100)}
    answer = [(10, "A"), (15, "B"), (20, "B"), (31, "B")]
    # the sum of all rows is what ends it, of a bare column that of every variable
    define["B"] = sums & (count() < 5)
    assert rows_of([10, 15, 20, 31, 35], "A B+", define) == answer
    last_two = (last("B.price", 1).is_null() | (col("B.price") > last("B.price", 1))) & (
        last("B.price", 2).is_null() | (col("B.price") > 2 * last("B.price", 2))
    )
    define = {"A": col("price") >= 10, "B": last_two}
    assert rows_of([10, 15, 20, 31, 35], "A B+", define) == answer
    define = {"B": col("B.price") < 20, "C": last("price", 1) < col("C.price")}
    assert rows_of([10, 15, 20], "A B? C", define) == [(10, "A"), (15, "B"), (20, "C")]
    assert rows_of([10, 20], "A B? C", define) == [(10, "A"), (20, "C")]


def test_a_v_of_each_customer() -> None:
    orders = pa.table({
        "customer": ["1", "1", "2", "1", "2", "1", "1", "2"], "day": list(range(11, 19)),
        "price": [100, 200, 8, 100, 4, 50, 100, 6],
    })  # fmt: skip
    answer = put_out(
        orders, "START DOWN+ UP+", partition_by="customer", order_by="day",
        define={"DOWN": col("price") < prev("price"), "UP": col("price") > prev("price")},
        measures={
            "start": "START.price", "bottom": last("DOWN.price"), "final": last("UP.price"),
            "from": "START.day", "to": last("UP.day"),
        },
    )  # fmt: skip
    assert [tuple(row.values()) for row in answer.sort_by("customer").to_pylist()] == [
        ("1", 200, 50, 100, 12, 17), ("2", 8, 4, 6, 13, 18)
    ]  # fmt: skip
