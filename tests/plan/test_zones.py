"""Zones of types: which clocks count, and that a zone there is not is an error at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col, streams
from fabric.errors import PlanError
from fabric.plan.zones import divides_offsets, local_zone, no_zone

HOUR = 3_600_000_000
AT = fabric.from_arrow(pa.table({"at": pa.array([0], pa.timestamp("us", "Europe/Berlin"))}))


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Z", "+00:00", None])
def test_clocks_that_show_utc(zone: str | None) -> None:
    assert local_zone(pa.timestamp("us", zone)) is None


def test_a_zone_there_is_not_names_the_nearest() -> None:
    assert no_zone("Europe/Berlin") is None
    assert no_zone(None) is not None
    message, near = no_zone("Europe/Berln") or ("", "")
    assert near == "Europe/Berlin"
    assert "did you mean 'Europe/Berlin'?" in message


@pytest.mark.parametrize(
    "build",
    [
        lambda f: f.select(col("at").dt.convert_time_zone("Mars/Base")),
        lambda f: f.select(col("at").dt.replace_time_zone("Mars/Base")),
        lambda f: f.select(col("at").cast(pa.timestamp("us", "Mars/Base"))),
        lambda f: f.select(col("at").cast("timestamp[us, tz=Mars/Base]")),
        lambda f: f.select(col("at").dt.from_utc_timestamp("Mars/Base")),
    ],
)
def test_while_the_plan_is_written(build: object) -> None:
    assert callable(build)
    with pytest.raises(PlanError, match="no zone 'Mars/Base'"):
        build(AT)


MARS = pa.timestamp("us", "Mars/Base")
TYPES = [
    MARS, pa.list_(MARS), pa.struct([("a", pa.int8()), ("b", MARS)]), pa.map_(pa.string(), MARS),
    pa.dictionary(pa.int8(), MARS), pa.timestamp("s", "Europe/Berln"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_columns_of_a_zone_there_is_not(dtype: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"n": [1], "at": pa.nulls(1, dtype)})
    with pytest.raises(PlanError, match=r"column 'at' is .*: there is no zone '.*; use a name"):
        fabric.from_arrow(table)
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(PlanError, match=r"column 'at' is .*: there is no zone "):
        fabric.read_ipc(tmp_path / "x.arrow")


def test_files_and_folders_of_a_zone_there_is_not(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([0], MARS)}), tmp_path / "x.parquet")
    with pytest.raises(PlanError, match=r"column 'at' is .*no zone 'Mars/Base'"):
        fabric.read_parquet(tmp_path / "x.parquet")
    (tmp_path / "t=2024-01-01").mkdir()
    pq.write_table(pa.table({"n": [1]}), tmp_path / "t=2024-01-01" / "x.parquet")
    with pytest.raises(PlanError, match=r"column 't' is .*no zone 'Mars/Base'"):
        fabric.read_parquet(tmp_path / "t=2024-01-01", hive={"t": "timestamp[us, tz=Mars/Base]"})


def test_zones_of_old_files_are_read() -> None:
    """Java reads them another way, so that no cast takes them, but there they are."""
    old = pa.table({"at": pa.array([0], pa.timestamp("us", "EST"))})
    assert fabric.from_arrow(old).schema.equals(old.schema)


@pytest.mark.parametrize(("option", "value"), [("ambiguous", "first"), ("non_existent", "shift")])
def test_options_there_are_not(option: str, value: str) -> None:
    with pytest.raises(PlanError, match=f"has no {option}='{value}'; use one of raise, "):
        AT.select(col("at").dt.replace_time_zone("Asia/Tokyo", **{option: value}))


def test_steps_that_clocks_of_a_zone_take() -> None:
    assert divides_offsets("Europe/Berlin", HOUR)
    assert not divides_offsets("Europe/Berlin", 24 * HOUR)
    assert not divides_offsets("Asia/Kolkata", HOUR)
    assert divides_offsets("Asia/Kolkata", HOUR // 2)


def test_windows_that_begin_by_the_clocks_of_the_zone() -> None:
    rows = streams.generator(n_rows=1).select(at=col("ts").dt.convert_time_zone("Europe/Berlin"))
    marked = rows.with_watermark("at", "1 second")
    assert marked.group_by().window("1 hour").count().columns[0] == "window_start"
    days = marked.group_by().window("1 day").count()
    assert days.schema.field("window_start").type == pa.timestamp("us", "Europe/Berlin")
    with pytest.raises(
        PlanError, match=r"tumbling\(7 minutes\): clocks in Europe/Berlin show .* twice"
    ):
        marked.group_by().window("7 minutes").count()
