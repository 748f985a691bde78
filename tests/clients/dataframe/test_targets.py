"""What users say of a table to write to, and what is refused at once."""

from __future__ import annotations

import pytest

from fabric import DataFrame, col, count, streams
from fabric.clients.dataframe.targets import by_changes, postgres_target
from fabric.errors import ConfigError, PlanError
from fabric.plan.check import check
from fabric.plan.nodes import Changes, Node, Plan, Sink
from fabric.plan.targets import PostgresTarget

DSN = "postgresql://ann:gehe1m@localhost/shop"


def counts() -> DataFrame:
    return streams.generator(n_rows=10).group_by("key", "split").agg(n=count())


def sunk(root: Node, target: PostgresTarget) -> None:
    check(Plan(Sink(root, target)))


@pytest.mark.parametrize(
    ("table", "schema", "name"),
    [
        ("t", "public", "t"),
        ("s.t", "s", "t"),
        (("s", "a.b"), "s", "a.b"),
        ('Odd "name"', "public", 'Odd "name"'),
    ],
)
def test_tables_are_named_as_they_are_written(
    table: str | tuple[str, str], schema: str, name: str
) -> None:
    target = postgres_target(table, DSN)
    assert (target.schema, target.table, target.mode) == (schema, name, "create")
    assert target.secrets == (("password", "gehe1m"),)


def test_a_key_means_upsert_unless_it_is_said_otherwise() -> None:
    assert postgres_target("t", DSN, key="a").mode == "upsert"
    assert postgres_target("t", DSN, key=["a", "b"], mode="create").key == ("a", "b")
    appended = streams.to_postgres("t", dsn=DSN, mode="append")
    assert (appended.key, appended.mode) == ((), "append")


@pytest.mark.parametrize("table", ["", "a.b.c", "a.", ".a", ("a", "b", "c"), "x" * 64, "a\0"])
def test_what_names_no_table_is_refused(table: str) -> None:
    with pytest.raises(PlanError, match=r"write_postgres: (the|table) "):
        postgres_target(table, DSN)


def test_what_is_no_address_or_mode_is_refused() -> None:
    with pytest.raises(PlanError, match="mode"):
        postgres_target("t", DSN, mode="replace")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="to_postgres: dsn is not a valid connection"):
        streams.to_postgres("t", dsn="somewhere")


def test_results_that_change_are_written_by_their_changes() -> None:
    node, target = by_changes(counts().plan.root, postgres_target("t", DSN, key=["split", "key"]))
    assert isinstance(node, Changes)
    assert (node.column, target.kind) == ("row_kind", "row_kind")
    sunk(node, target)
    rows = streams.generator(n_rows=10).plan.root
    assert by_changes(rows, target) == (rows, target)


@pytest.mark.parametrize("key", [(), ("key",), ("n",)])
def test_changes_need_a_key_that_tells_the_groups_apart(key: tuple[str, ...]) -> None:
    """Else changes of one row come from several tasks, and nobody knows which is the last."""
    renamed = counts().with_columns(more=col("n") + 1)
    with pytest.raises(PlanError, match=r'key=\["key", "split"\]'):
        by_changes(renamed.plan.root, postgres_target("t", DSN, key=key))
    with pytest.raises(PlanError, match="results change"):
        sunk(counts().plan.root, postgres_target("t", DSN, key="key"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "kay"}, r'no column "kay" to upsert by.*key="key"'),
        ({"key": ["key", "key"]}, 'the key names the column "key" twice'),
        ({"mode": "upsert"}, "needs the columns that a row is known by"),
        ({"key": "key", "mode": "append"}, "a row that is appended has no key"),
        ({"mode": "overwrite"}, "a stream adds to a table with each checkpoint"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, object], message: str) -> None:
    rows = streams.generator(n_rows=10).plan.root
    with pytest.raises(PlanError, match=f"(?s){message}"):
        sunk(rows, postgres_target("t", DSN, **options))  # type: ignore[arg-type]
