"""Golden explain texts: what each rule did, the optimised plan, the stages for two agents.

``FABRIC_REGENERATE=1 python -m pytest tests/golden/test_explain.py`` writes the files of
``tests/golden/explain`` anew; look at the difference before committing it. Sources are made up, so
no text depends on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from fabric import DataFrame, col, count, lit, row_number
from fabric.clients.dataframe.render import explanation
from fabric.control import control_pb2 as pb
from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.optimizer.trace import Fired, effects_text
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import graph_text
from fabric.coordinator.submit.constants import constant_value
from fabric.coordinator.submit.facts import needed
from fabric.plan.check import check
from fabric.plan.nodes import Plan, Scan
from fabric.plan.printer import tree
from fabric.plan.sources import FileSource, Split
from fabric.plan.statistics import ColumnFacts, SourceFacts
from fabric.plan.walk import walk

FOLDER = Path(__file__).parent / "explain"
I64 = pa.int64()
TABLES: dict[str, tuple[int, dict[str, pa.DataType]]] = {
    "sales": (6_000_000, {"item": I64, "buyer": I64, "day": pa.date32(), "paid": pa.float64(),
                          "tags": pa.list_(pa.string())}),
    "items": (200_000, {"item": I64, "kind": pa.string(), "price": pa.float64()}),
    "buyers": (150_000, {"buyer": I64, "land": I64, "name": pa.string()}),
    "lands": (25, {"land": I64, "land_name": pa.string()}),
}  # fmt: skip


def table(name: str, path: str = "") -> DataFrame:
    schema = pa.schema(TABLES[name][1])
    return DataFrame.of(
        Scan(FileSource("parquet", (f"/data/{name}.parquet",)), schema, path=path or name)
    )


def facts(name: str) -> SourceFacts:
    n_rows, columns = TABLES[name]
    known = {
        column: ColumnFacts(n_nulls=0, least=0, most=n_rows - 1)
        for column, dtype in columns.items()
        if dtype == I64
    }
    return SourceFacts(n_rows=n_rows, exact=True, columns=known)


def splits(name: str) -> list[Split]:
    n_rows, path = TABLES[name][0], f"/data/{name}.parquet"
    half = n_rows // 2
    return [
        Split(path, 0, 1, n_rows=half, n_bytes=half * 20),
        Split(path, 1, 2, n_rows=n_rows - half, n_bytes=half * 20),
    ]


def filters() -> DataFrame:
    """Conditions are simplified, split, moved to the files; columns nobody reads are not read."""
    wanted = (col("day") == col("day")) & (col("paid") > lit(60.0) * 60.0) & ~(col("kind") != "toy")
    joined = table("sales").join(table("items"), on="item").with_columns(tax=col("paid") * 0.19)
    return joined.filter(wanted).filter(col("tax") > 1.0).select("day", "tax")


def star() -> DataFrame:
    """Joins in the order of their sizes, the small sides broadcast."""
    joined = table("sales").join(table("items"), on="item").join(table("buyers"), on="buyer")
    named = joined.join(table("lands"), on="land").filter(col("land_name") == "Peru")
    return named.group_by("kind").agg(total=col("paid").sum()).sort("kind")


def outer() -> DataFrame:
    """A left join that a filter makes an inner one, and a condition that gives keys."""
    joined = table("buyers").join(table("lands"), on="land", how="left")
    kept = joined.filter(col("land_name").is_not_null() & (col("land") < 5))
    other = table("items").filter(col("price") > 1.0)
    return kept.join(other, how="cross").filter(col("buyer") == col("item"))


def answers() -> DataFrame:
    """Counts and extremes that footers know."""
    return table("sales").agg(n=count(), first=col("item").min(), last=col("item").max())


def limits() -> DataFrame:
    """A limit reaches the file, below a column and a union."""
    both = table("sales").select("item").union(table("items").select("item"))
    return both.with_columns(twice=col("item") * 2).limit(10).limit(3, offset=2)


def shared() -> DataFrame:
    """What is written twice is computed once; a sort that nobody sees is not done."""

    def totals(path: str) -> DataFrame:
        recent = table("sales", path).filter(col("day") > date(2024, 1, 1)).sort("day")
        return recent.group_by("buyer").agg(total=col("paid").sum())

    return (
        totals("sales")
        .join(totals("sales_again").agg(most=col("total").max()), how="cross")
        .filter(col("total") == col("most"))
    )


def windows() -> DataFrame:
    """Filters on partition keys go below windows, on other columns below explode."""
    place = row_number().over("buyer", order_by=col("paid").desc()).alias("place")
    best = table("sales").with_columns(place).filter((col("place") <= 3) & (col("buyer") < 100))
    return best.explode("tags").filter((col("tags") == "new") & (col("item") > 7)).select("tags")


def columns() -> DataFrame:
    """Columns added one by one are added at once."""
    wide = table("items").with_columns(a=col("price") + 1.0).with_columns(b=col("price") + 2.0)
    return wide.select("item", "a", "b").select("item", "a", "b").distinct().distinct()


def nothing() -> DataFrame:
    """A plan that is as good as it gets."""
    return table("items").select("item", "kind", "price").group_by("kind").agg(n=col("price").sum())


CASES: list[Callable[[], DataFrame]] = [
    filters, star, outer, answers, limits, shared, windows, columns, nothing,
]  # fmt: skip


def explained(plan: Plan, *, verbose: bool) -> str:
    """What `explain` says of a checked plan over the tables above."""
    fired: list[Fired] = []
    names = {node.path for node in walk(plan.root) if isinstance(node, Scan)}
    known = {name: facts(name.split("_")[0]) for name in names}
    best = optimize(plan, known, evaluate=constant_value, fired=fired)
    scans = [node for node in walk(best.root) if isinstance(node, Scan)]
    read = {scan.path: needed(scan, splits(scan.path.split("_")[0])) for scan in scans}
    reply = pb.ExplainReply(
        plan=tree(plan.root),
        rules=effects_text(fired),
        rules_verbose=effects_text(fired, verbose=True),
        optimised=tree(best.root),
        stages=graph_text(plan_stages(best, read, 2)),
    )
    return str(explanation(reply, "text", verbose=verbose)) + "\n"


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_golden(make: Callable[[], DataFrame]) -> None:
    verbose = make is columns
    text = explained(check(make().plan), verbose=verbose)
    assert text == explained(check(make().plan), verbose=verbose)
    path = FOLDER / f"{make.__name__}.txt"
    if os.environ.get("FABRIC_REGENERATE"):
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text


def test_every_file_has_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {make.__name__ for make in CASES}
