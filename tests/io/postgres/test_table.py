"""What a table can't take is refused before a job starts, by an error whose SQL mends it."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.ids import TaskId, new_id
from fabric.io import sinks
from fabric.io.postgres import sink
from fabric.io.postgres.table import quoted, table_name
from fabric.plan.sources import PostgresTarget
from tests.support.postgres import PostgresServer

SCHEMA = pa.schema(
    [("id", pa.int64()), ("price", pa.decimal128(9, 2)), ("tags", pa.list_(pa.string()))]
)
ROW = pa.record_batch(
    [[1], pa.array([1], pa.int8()).cast(SCHEMA.field(1).type), [["a"]]], schema=SCHEMA
)
FITS = "id bigint, price numeric, tags text[]"
REFUSED = [
    ("", {}, "there is no table"),
    ("id bigint, price numeric", {}, "has no column 'tags'"),
    ("id int, price numeric, tags text[]", {}, "'id' of type int64 does not fit into integer"),
    ("id bigint, price numeric(9, 1), tags text[]", {}, r"does not fit into numeric\(9,1\)"),
    ("id bigint, price numeric, tags text", {}, r"'tags' .* does not fit into text"),
    (f"{FITS}, kept date NOT NULL", {}, "column 'kept' .* must hold a value"),
    (FITS, {"key": ("id",), "mode": "upsert"}, r"no unique constraint .* \(\"id\"\)"),
    (f"{FITS}, UNIQUE (id, price)", {"key": ("id",), "mode": "upsert"}, "no unique constraint"),
    (f"{FITS}, UNIQUE (id) DEFERRABLE", {"key": ("id",), "mode": "upsert"}, "is deferrable"),
]


def target_of(server: PostgresServer, **options) -> PostgresTarget:
    return PostgresTarget(new_id("t"), settings=server.settings(), **{"mode": "append", **options})


def write(target: PostgresTarget) -> None:
    writer = sinks.open_sink(target, SCHEMA, TaskId(new_id("job"), 0, 0), 1)
    writer.write(ROW)
    sinks.publish([writer.prepare()], target)


@pytest.mark.parametrize(("columns", "options", "message"), REFUSED)
def test_refused_and_mended(
    postgres: PostgresServer, columns: str, options: dict[str, object], message: str
) -> None:
    target = target_of(postgres, **options)
    if columns:
        postgres.execute(f"CREATE TABLE {table_name(target)} ({columns})")
    with pytest.raises(PlanError, match=message) as error:
        sink.check_target(target, SCHEMA)
    found = re.search(r"run: (.*?;)", error.value.message)
    assert found is not None, error.value.message
    postgres.execute(found[1])
    sink.check_target(target, SCHEMA)
    write(target)
    assert postgres.execute(f"SELECT id FROM {table_name(target)}") == [(1,)]


def test_columns_that_fill_themselves_may_be_left_out(postgres: PostgresServer) -> None:
    target = target_of(postgres)
    postgres.execute(
        f"CREATE TABLE {table_name(target)} ({FITS}, n int NOT NULL GENERATED ALWAYS AS IDENTITY, "
        "at timestamptz NOT NULL DEFAULT now(), half numeric GENERATED ALWAYS AS (price / 2) "
        "STORED, note text)"
    )
    sink.check_target(target, SCHEMA)
    write(target)
    assert postgres.execute(f"SELECT n, half * 2 FROM {table_name(target)}") == [(1, 1)]
    for name, dtype in (("half", pa.decimal128(9, 2)), ("n", pa.int32())):
        with pytest.raises(PlanError, match=rf"makes its values itself.*drop\('{name}'\)"):
            sink.check_target(target, SCHEMA.append(pa.field(name, dtype)))


def test_enums_domains_partitions_and_triggers(postgres: PostgresServer) -> None:
    name = new_id("t").replace("-", "_")
    postgres.execute(f"CREATE TYPE {name}_mood AS ENUM ('sad', 'glad')")
    postgres.execute(f"CREATE DOMAIN {name}_id AS bigint CHECK (VALUE > 0)")
    postgres.execute(
        f"CREATE TABLE {name} (id {name}_id, mood {name}_mood, moods {name}_mood[], "
        "made int NOT NULL) PARTITION BY RANGE (id)"
    )
    postgres.execute(f"CREATE TABLE {name}_1 PARTITION OF {name} FOR VALUES FROM (1) TO (100)")
    postgres.execute(
        f"CREATE FUNCTION {name}_fill() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN NEW.made := 7; RETURN NEW; END'"
    )
    postgres.execute(
        f"CREATE TRIGGER fill BEFORE INSERT ON {name} FOR EACH ROW EXECUTE FUNCTION {name}_fill()"
    )
    target = replace(target_of(postgres), table=name)
    schema = pa.schema(
        [("id", pa.int64()), ("mood", pa.string()), ("moods", pa.list_(pa.string()))]
    )
    sink.check_target(target, schema)
    writer = sinks.open_sink(target, schema, TaskId(new_id("job"), 0, 0), 1)
    writer.write(pa.record_batch([[1, 2], ["sad", None], [["glad", None], []]], schema=schema))
    sinks.publish([writer.prepare()], target)
    rows = postgres.execute(f"SELECT id, mood::text, moods::text[], made FROM {name} ORDER BY 1")
    assert rows == [(1, "sad", ["glad", None], 7), (2, None, [], 7)]


def test_a_view_a_taken_name_and_a_name_that_is_cut_are_refused(postgres: PostgresServer) -> None:
    target = target_of(postgres)
    postgres.execute(f"CREATE VIEW {table_name(target)} AS SELECT 1::bigint AS id")
    with pytest.raises(PlanError, match="is no table"):
        sink.check_target(target, SCHEMA)
    with pytest.raises(PlanError, match='exists already; use mode="append"'):
        sink.check_target(replace(target, mode="create"), SCHEMA)
    with pytest.raises(PlanError, match="1 to 63 bytes"):
        sink.check_target(replace(target_of(postgres, mode="create"), table="ü" * 32), SCHEMA)
    with pytest.raises(PlanError, match="staging must be"):
        sink.check_target(target_of(postgres, mode="create", staging='a"b'), SCHEMA)
    other = target_of(postgres)
    postgres.execute(f"CREATE TABLE {table_name(other)} (id bigint)")
    with pytest.raises(PlanError, match="has no column 'ID'; it has 'id', rename"):
        sink.check_target(other, pa.schema([("ID", pa.int64())]))


def test_what_a_user_may_not_is_said_with_what_its_owner_runs(postgres: PostgresServer) -> None:
    user, area = (new_id("u").replace("-", "_") for _ in range(2))
    postgres.execute(f"CREATE ROLE {user} LOGIN")
    postgres.execute("CREATE TABLE IF NOT EXISTS owned (id bigint PRIMARY KEY)")
    target = replace(
        target_of(postgres, key=("id",), mode="upsert"), table="owned", staging=area,
        settings=postgres.settings(user=user),
    )  # fmt: skip
    schema = pa.schema([("id", pa.int64())])
    for _ in range(3):
        with pytest.raises(PlanError, match="run: ") as error:
            sink.check_target(target, schema)
        found = re.search(r"run: (.*?;)", error.value.message)
        assert found is not None
        postgres.execute(found[1])
        if found[1].startswith("GRANT INSERT"):
            break
    sink.check_target(target, schema)
    made = replace(target, mode="create", table=new_id("t"), key=())
    with pytest.raises(PlanError, match="may make no table in public; have its owner run: CREATE"):
        sink.check_target(made, schema)
    with pytest.raises(PlanError, match="there is no schema nowhere"):
        sink.check_target(replace(made, schema="nowhere"), schema)
    writer = sinks.open_sink(target, schema, TaskId(new_id("job"), 0, 0), 1)
    writer.write(pa.record_batch([[5]], schema=schema))
    sinks.publish([writer.prepare()], target)
    assert postgres.execute("SELECT * FROM owned") == [(5,)]


def test_names_are_quoted() -> None:
    assert quoted('a"; DROP TABLE b') == '"a""; DROP TABLE b"'
