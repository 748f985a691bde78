"""The questions as Polars, Daft and Fabric frames ask them; tables come by name, lazily."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JOINS: dict[str, tuple[str, str, str]] = {
    "q1": ("small", "id1", "inner"), "q2": ("medium", "id2", "inner"),
    "q3": ("medium", "id2", "left"), "q4": ("medium", "id5", "inner"),
    "q5": ("big", "id3", "inner"),
}  # fmt: skip
"""Right side, key and kind of each join."""
KEYS = {
    "q1": ["id1"], "q2": ["id1", "id2"], "q3": ["id3"], "q4": ["id4"], "q5": ["id6"],
    "q6": ["id4", "id5"], "q7": ["id3"], "q8": ["id6"], "q9": ["id2", "id4"],
    "q10": ["id1", "id2", "id3", "id4", "id5", "id6"],
}  # fmt: skip


def fabric_groupby(question: str, x: Any) -> Any:
    """A group-by as a Fabric frame."""
    import fabric
    from fabric import col

    if question == "q8":
        order = col("v3").desc()
        ranked = x.filter(col("v3").is_not_null()).select("id6", "v3")
        place = fabric.row_number().over("id6", order_by=order)
        return ranked.with_columns(place=place).filter(col("place") <= 2).select("id6", "v3")
    aggregates = {
        "q1": lambda: {"v1": col("v1").sum()},
        "q2": lambda: {"v1": col("v1").sum()},
        "q3": lambda: {"v1": col("v1").sum(), "v3": col("v3").mean()},
        "q4": lambda: {"v1": col("v1").mean(), "v2": col("v2").mean(), "v3": col("v3").mean()},
        "q5": lambda: {"v1": col("v1").sum(), "v2": col("v2").sum(), "v3": col("v3").sum()},
        "q6": lambda: {"median_v3": col("v3").median(), "sd_v3": col("v3").std()},
        "q7": lambda: {"range_v1_v2": col("v1").max() - col("v2").min()},
        "q9": lambda: {"r2": fabric.corr("v1", "v2") ** 2},
        "q10": lambda: {"v3": col("v3").sum(), "n": fabric.count()},
    }
    return x.group_by(*KEYS[question]).agg(**aggregates[question]())


def polars_groupby(question: str, x: Any) -> Any:
    """A group-by as a lazy Polars frame."""
    import polars as pl

    if question == "q8":
        kept = x.filter(pl.col("v3").is_not_null()).group_by("id6").agg(pl.col("v3").top_k(2))
        return kept.explode("v3")
    aggregates = {
        "q1": lambda: {"v1": pl.col("v1").sum()},
        "q2": lambda: {"v1": pl.col("v1").sum()},
        "q3": lambda: {"v1": pl.col("v1").sum(), "v3": pl.col("v3").mean()},
        "q4": lambda: {
            "v1": pl.col("v1").mean(),
            "v2": pl.col("v2").mean(),
            "v3": pl.col("v3").mean(),
        },
        "q5": lambda: {
            "v1": pl.col("v1").sum(),
            "v2": pl.col("v2").sum(),
            "v3": pl.col("v3").sum(),
        },
        "q6": lambda: {"median_v3": pl.col("v3").median(), "sd_v3": pl.col("v3").std()},
        "q7": lambda: {"range_v1_v2": pl.col("v1").max() - pl.col("v2").min()},
        "q9": lambda: {"r2": pl.corr("v1", "v2") ** 2},
        "q10": lambda: {"v3": pl.col("v3").sum(), "n": pl.len()},
    }
    return x.group_by(*KEYS[question]).agg(**aggregates[question]())


def daft_groupby(question: str, x: Any) -> Any:
    """A group-by as a Daft frame; Daft's means, deviations and medians are what it has."""
    from daft import col
    from daft.functions import row_number
    from daft.window import Window

    groups = x.groupby(*KEYS[question])
    match question:
        case "q1" | "q2":
            return groups.agg(col("v1").sum())
        case "q3":
            return groups.agg(col("v1").sum(), col("v3").mean())
        case "q4":
            return groups.agg(col("v1").mean(), col("v2").mean(), col("v3").mean())
        case "q5":
            return groups.agg(col("v1").sum(), col("v2").sum(), col("v3").sum())
        case "q7":
            ends = groups.agg(col("v1").max().alias("top"), col("v2").min().alias("low"))
            return ends.select("id3", (col("top") - col("low")).alias("range_v1_v2"))
        case "q8":
            window = Window().partition_by("id6").order_by("v3", desc=True)
            kept = x.where(~col("v3").is_null()).select("id6", "v3")
            ranked = kept.with_column("place", row_number().over(window))
            place: Any = col("place")
            return ranked.where(place < 3).select("id6", "v3")
        case _:
            return groups.agg(col("v3").sum(), col("v1").count().alias("n"))


def joined(question: str, tables: Mapping[str, Any]) -> Any:
    """A join of Polars' and Fabric's frames, which spell it alike."""
    right, key, how = JOINS[question]
    return tables["x"].join(tables[right], on=key, how=how)


def daft_joined(question: str, tables: Mapping[str, Any]) -> Any:
    """A join as a Daft frame, with the columns in Fabric's order and under its names."""
    right, key, how = JOINS[question]
    left = tables["x"]
    found = left.join(tables[right], on=key, how=how, suffix="_right", prefix="")
    names = [name for name in tables[right].column_names if name != key]
    taken = set(left.column_names)
    others = [f"{name}_right" if name in taken else name for name in names]
    return found.select(*left.column_names, *others)
