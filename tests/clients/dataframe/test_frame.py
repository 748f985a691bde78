"""DataFrame methods: the plan they make, the schema they promise, the line they refuse."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, col, count, functions, lit, mean, sum, when
from fabric.errors import ConfigError, DataError, FabricError, PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes


@pytest.fixture
def flights() -> DataFrame:
    return DataFrame({"carrier": ["AA", "UA"], "dep_delay": [1, 20], "distance": [1.5, None]})


def test_each_method_makes_its_node(flights: DataFrame) -> None:
    made = {
        nodes.Select: flights.select("carrier"),
        nodes.WithColumns: flights.with_column("x", col("dep_delay") + 1),
        nodes.Filter: flights.where(col("dep_delay") > 15),
        nodes.Sort: flights.order_by(col("dep_delay").desc()),
        nodes.Limit: flights.head(3),
        nodes.Distinct: flights.unique(),
        nodes.Aggregate: flights.groupby("carrier").agg(count()),
        nodes.Join: flights.join(flights, on="carrier", suffix="_2"),
        nodes.Union: flights.union(flights),
        nodes.Exchange: flights.repartition(4, "carrier"),
    }
    for kind, frame in made.items():
        assert type(frame.plan.root) is kind


@pytest.mark.parametrize(
    ("build", "columns"),
    [
        (lambda f: f.select("*", x=lit(1)), ["carrier", "dep_delay", "distance", "x"]),
        (lambda f: f.select(["carrier", col("distance").alias("miles")]), ["carrier", "miles"]),
        (lambda f: f.drop("carrier", "distance"), ["dep_delay"]),
        (lambda f: f.rename({"carrier": "line"}), ["line", "dep_delay", "distance"]),
        (lambda f: f.withColumnRenamed("carrier", "line"), ["line", "dep_delay", "distance"]),
        (lambda f: f.withColumn("x", lit(1)), ["carrier", "dep_delay", "distance", "x"]),
        (lambda f: f.with_columns(dep_delay=lit(1), replace=True),
         ["carrier", "dep_delay", "distance"]),
        (lambda f: f[["carrier"]], ["carrier"]),
        (lambda f: f.group_by("carrier").count(), ["carrier", "count"]),
        (lambda f: f.groupBy("carrier").avg("distance"), ["carrier", "distance"]),
        (lambda f: f.group_by("carrier").sum(), ["carrier", "dep_delay", "distance"]),
        (lambda f: f.group_by("carrier").agg({"dep_delay": "sum", "*": "count"}),
         ["carrier", "sum(dep_delay)", "count(*)"]),
        (lambda f: f.group_by(short=col("carrier").str.slice(0, 1)).agg(n=count()), ["short", "n"]),
        (lambda f: f.group_by("carrier").agg((sum("distance") / count()).alias("r")),
         ["carrier", "r"]),
        (lambda f: f.select(col("dep_delay").max(), n=count()), ["dep_delay", "n"]),
        (lambda f: f.agg(mean("distance")), ["distance"]),
        (lambda f: f.join(f, on="carrier", how="left_semi"), ["carrier", "dep_delay", "distance"]),
        (lambda f: f.join(f.select("carrier", "distance"), on="carrier"),
         ["carrier", "dep_delay", "distance", "distance_right"]),
    ],
)  # fmt: skip
def test_columns(flights: DataFrame, build: Any, columns: list[str]) -> None:
    frame = build(flights)
    assert frame.columns == columns
    assert list(frame.dtypes) == columns
    assert frame.schema.names == columns


def test_types_are_known_at_once(flights: DataFrame) -> None:
    frame = flights.select(
        ratio=col("dep_delay") / 2,
        name=when(col("dep_delay") > 15).then(lit("late")).otherwise(lit("on time")),
        n=col("dep_delay").cast("int32"),
    )
    assert frame.dtypes == {"ratio": pa.float64(), "name": pa.string(), "n": pa.int32()}


def test_shared_parts_stay_one_object(flights: DataFrame) -> None:
    late = flights.filter(col("dep_delay") > 15)
    both = late.select("carrier").union(late.select("carrier")).plan.root
    assert isinstance(both, nodes.Union)
    assert both.inputs[0].children[0] is both.inputs[1].children[0] is late.plan.root


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.filter(col("dep_dlay") > 15), r'\.filter\(col\("dep_delay"\) > 15\)'),
        (lambda f: f.filter(col("dep_dlay") > 15), 'did you mean "dep_delay"'),
        (lambda f: f.select("carier"), r'\.select\("carrier"\)'),
        (lambda f: f.filter("dep_delay > 15"), "SQL text is not read"),
        (lambda f: f.with_columns(carrier=lit(1)), "would overwrite.*replace=True"),
        (lambda f: f.select("carrier", "carrier"), "two columns would be called"),
        (lambda f: f.filter(col("dep_delay") + 1), "must be true or false"),
        (lambda f: f.select(col("carrier") + 1), r"\+ takes two numbers or two texts"),
        (lambda f: f.drop("carier"), 'drop: there is no column "carier"; did you mean "carrier"'),
        (lambda f: f.rename({"x": "y"}), 'rename: there is no column "x"'),
        (lambda f: f["carier"], 'did you mean "carrier"'),
        (lambda f: f[0], "use df.limit"),
        (lambda f: f.group_by("carrier").agg(col("distance")), r'col\("distance"\).max\(\)'),
        (lambda f: f.group_by("carrier").agg(), "agg needs an aggregate"),
        (lambda f: f.group_by("carrier").agg({"distance": "medain"}),
         'write: {"distance": "median"}'),
        (lambda f: f.select("carrier", count()), "one value a row"),
        (lambda f: f.join(f, on="x"), 'there is no column "x"'),
        (lambda f: f.join("x", on="x"), "join takes a DataFrame, got a str"),
        (lambda f: f.join(f, on="carrier", how="across"), "is not a valid kind of join"),
        (lambda f: f.union(1), "union takes DataFrames, got int"),
        (lambda f: f.union(f.select("carrier")), "as many columns"),
        (lambda f: f.limit(-1), "at least 0, got -1"),
        (lambda f: f.configure("late", parallelism=2), 'no step "late" to configure'),
        (lambda f: f.limit(1).named("a/b").configure("a/c", parallelism=2), "a/b"),
        (bool, "no truth value"),
        (lambda f: f.write_parquet("x", mode="apend"), "write: mode=.append."),
        (lambda f: f.explain("png"), "no format 'png'"),
        (lambda f: fabric.concat([]), "at least one frame"),
        (lambda f: fabric.read_arrow(1), "can't read an int as a table"),
        (lambda f: fabric.read_arrow([1]), "one dict a row"),
        (lambda f: fabric.read_parquet("no/such/*.parquet"), "no file matches"),
        (lambda f: fabric.read_parquet("no/such"), "there is no file or folder"),
    ],
)  # fmt: skip
def test_refused_at_the_line_that_is_wrong(flights: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(FabricError, match=says):
        wrong(flights)


@pytest.mark.parametrize(
    ("make", "value", "way"),
    [
        (lambda: fabric.from_dicts([{"a": 1}, {"a": 1 << 63}]), 1 << 63, r"give pa\.array.*uint64"),
        (lambda: fabric.DataFrame({"b": ["x"], "a": [1 << 64]}), 1 << 64, r"give decimal\.Decimal"),
        (lambda: fabric.DataFrame({"a": [[{"x": 1 << 65}]]}), 1 << 65, "give decimal"),
        (lambda: fabric.from_dict({"a": [-(1 << 63) - 1]}), -(1 << 63) - 1, "give decimal"),
    ],
)
def test_integers_that_are_too_large_are_named(make: Any, value: int, way: str) -> None:
    with pytest.raises(DataError, match=f"column 'a' has the integer {value}, .*; {way}"):
        make()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.select(col("carrier").rlike("(")), "^rlike: a group without"),
        (lambda f: f.select(col("carrier").str.rlike("(")), "^rlike: a group without"),
        (lambda f: f.select(functions.rlike("carrier", "(")), "^rlike: a group without"),
        (lambda f: f.select(functions.to_date("carrier", "qq")), "^to_date knows no 'qq'"),
        (lambda f: f.select(functions.try_to_timestamp("carrier", "qq")), "^try_to_timestamp know"),
        (lambda f: fabric.from_dicts([{"a": 1}], schema={"a": "int8"}), r"^from_dicts\(\) got an"),
        (lambda f: fabric.from_arrow(1, x=2), r"^from_arrow\(\) got an"),
        (lambda f: fabric.from_dict({}, x=2), r"^from_dict\(\) got an"),
        (lambda f: fabric.from_polars(1, x=2), r"^from_polars\(\) got an"),
    ],
)  # fmt: skip
def test_errors_name_what_was_called(flights: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises((PlanError, TypeError), match=says):
        wrong(flights)


def test_unknown_attributes_help(flights: DataFrame) -> None:
    with pytest.raises(AttributeError, match=r'write col\("carrier"\)'):
        flights.carrier  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'frobnicate'"):
        flights.frobnicate  # noqa: B018
    assert "withColumn" not in dir(flights)
    assert "with_columns" in dir(flights)


def test_a_frame_has_no_rows_yet(flights: DataFrame) -> None:
    with pytest.raises(PlanError, match=r"write: for row in df\.to_dicts\(\)"):
        list(flights)
    with pytest.raises(PlanError, match=r'write: "x" in df\.columns'):
        _ = "carrier" in flights
    with pytest.raises(PlanError, match=r"write: df\.count\(\), or len\(df\.columns\)"):
        len(flights)


def test_looking_at_it_runs_nothing(flights: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_session() -> None:
        raise AssertionError("a session was started")

    monkeypatch.setattr("fabric.clients.dataframe.actions.default_session", no_session)
    late = flights.filter(col("dep_delay") > 15).named("late")
    assert "DataFrame[carrier: string, dep_delay: int64, distance: double]" in repr(late)
    assert 'late: .filter(col("dep_delay") > 15)' in repr(late)
    assert "<td>dep_delay</td><td>int64</td>" in late._repr_html_()
    assert "GroupBy" in repr(late.group_by("carrier"))


def test_settings_travel_with_the_plan(flights: DataFrame) -> None:
    late = flights.filter(col("dep_delay") > 15).named("late").configure("late", parallelism=2)
    both = late.configure("late", exchange="pipelined").join(
        flights.distinct().named("d").configure("d", parallelism=3), on="carrier", how="semi"
    )
    assert dict(both.plan.config) == {
        "late": nodes.NodeConfig(parallelism=2, exchange="pipelined"),
        "d": nodes.NodeConfig(parallelism=3),
    }


def test_state_of_a_step(flights: DataFrame) -> None:
    counts = fabric.streams.generator(n_rows=9).group_by("key").count().named("c")
    kept = counts.configure("c", state="arrow", parallelism=2).configure("c", state_memory="64 MB")
    assert dict(kept.plan.config)["c"] == nodes.NodeConfig(
        parallelism=2, state="arrow", state_memory=64_000_000
    )
    tapped = dict(kept.configure("c", tap=True).plan.config)
    assert tapped["c"] == nodes.NodeConfig()
    assert tapped["c/rows"] == dict(kept.plan.config)["c"]
    for wrong, says in (
        ({"state": "disk"}, "state must be 'memory', .* or 'auto', got 'disk'"),
        ({"state_memory": "12 parsecs"}, "a size is a number and a unit, .* not '12 parsecs'"),
        ({"state_memory": 0}, "state_memory must be positive, got 0"),
    ):
        with pytest.raises(ConfigError, match=says):
            counts.configure("c", **wrong)  # type: ignore[arg-type]
    late = flights.filter(col("distance") > 1).named("late")
    with pytest.raises(PlanError, match='filter "late" keeps no state'):
        late.configure("late", state="arrow")


def test_compression_of_an_exchange(flights: DataFrame) -> None:
    sent = flights.exchange("carrier", compression="lz4").named("e")
    assert '.exchange("carrier", compression="lz4")' in repr(sent)
    plain = sent.configure("e", compression="none").configure("e", parallelism=2)
    assert dict(plain.plan.config)["e"] == nodes.NodeConfig(parallelism=2, compression="none")
    with pytest.raises(PlanError, match='did you mean compression="zstd"'):
        flights.exchange("carrier", compression="zst").plan  # type: ignore[arg-type]  # noqa: B018


def test_a_tapped_step_ends_in_a_pipelined_exchange(flights: DataFrame) -> None:
    late = flights.filter(col("dep_delay") > 15).named("late").configure("late", parallelism=2)
    plan = late.configure("late", tap=True, buffer_batches=4).plan
    assert isinstance(plan.root, nodes.Exchange)
    assert (plan.root.kind, plan.root.mode, plan.root.path) == ("forward", "pipelined", "late")
    assert plan.root.input.path == "late/rows"
    assert dict(plan.config) == {
        "late": nodes.NodeConfig(buffer_batches=4),
        "late/rows": nodes.NodeConfig(parallelism=2),
    }
    with pytest.raises(PlanError, match='no step "early" to tap'):
        flights.configure("early", tap=True)


def test_aggregates_in_expressions_are_computed_once(flights: DataFrame) -> None:
    frame = flights.group_by("carrier").agg(
        mean=sum("distance") / count(), twice=sum("distance") * 2
    )
    root = frame.plan.root
    assert isinstance(root, nodes.Select)
    inner = root.input
    assert isinstance(inner, nodes.Aggregate)
    assert [plan.output_name(agg) for agg in inner.aggs] == ["__agg_0", "__agg_1"]


def test_frames_from_anything_that_speaks_arrow() -> None:
    import pandas as pd
    import polars as pl

    table = pa.table({"a": [1, 2]})
    frames = pl.from_arrow(table), pd.DataFrame({"a": [1, 2]})
    plain = [{"a": 1}, {"a": 2}], {"a": [1, 2]}
    for data in (table, table.to_batches()[0], table.to_batches(), *frames, *plain):
        assert fabric.read_arrow(data).dtypes == {"a": pa.int64()}
    assert fabric.from_pandas(pd.DataFrame({"a": [1]}, index=["x"])).columns == ["a"]


def test_error_is_a_plan_error(flights: DataFrame) -> None:
    with pytest.raises(PlanError) as caught:
        flights.named("all").filter(col("x") > 1).named("late")
    assert caught.value.where.node == "filter_1"
