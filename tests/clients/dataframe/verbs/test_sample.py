"""Samples of rows: how many, which, and each by itself. Bounds are six deviations wide or more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fabric import DataFrame, col, count, streams
from fabric.errors import PlanError

N_ROWS = 4000
ROWS = pa.table({"i": list(range(N_ROWS)), "k": [f"k{n % 3}" for n in range(N_ROWS)]})


@pytest.fixture
def df() -> DataFrame:
    return DataFrame(ROWS)


def test_equal_rows_are_drawn_one_by_one() -> None:
    same = DataFrame({"a": ["x"] * 1000, "b": [None] * 1000})
    for seed in (None, 0, 1, 2, 3):
        assert 40 < same.sample(0.1, seed=seed).count() < 170
        assert same.sample(n=10, seed=seed).count() == 10
        assert 800 < same.sample(1.0, with_replacement=True, seed=seed).count() < 1200


def test_a_seed_draws_the_same_rows_every_time(df: DataFrame) -> None:
    def drawn(seed: int | None, **how: Any) -> list[int]:
        return sorted(df.sample(seed=seed, **how).collect()["i"].to_pylist())

    hows: list[dict[str, Any]] = [
        {"fraction": 0.25}, {"n": 1000}, {"fraction": 0.25, "with_replacement": True},
        {"n": 1000, "with_replacement": True},
    ]  # fmt: skip
    for how in hows:
        first, again, other = drawn(1, **how), drawn(1, **how), drawn(2, **how)
        assert first == again != other
        assert 800 < len(first) < 1200
        assert 130 < len(set(first) & set(other)) < 370  # about a sixteenth: independent
        assert drawn(None, **how) != drawn(None, **how)


@pytest.mark.parametrize("seed", [None, 7])
def test_each_row_is_as_likely(df: DataFrame, seed: int | None) -> None:
    for how in ({"fraction": 0.5}, {"n": N_ROWS // 2}):
        found = df.sample(seed=seed, **how).collect()["i"].to_numpy()
        assert len(np.unique(found)) == len(found)
        by_tenth = np.bincount(found * 10 // N_ROWS, minlength=10)
        assert by_tenth.min() > 130
        assert by_tenth.max() < 270


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("how", [{"n": 2 * N_ROWS}, {"fraction": 2.0}])
def test_with_replacement_rows_come_as_often_as_poisson_says(
    df: DataFrame, seed: int | None, how: dict[str, Any]
) -> None:
    found = df.sample(seed=seed, with_replacement=True, **how).collect()["i"].to_pylist()
    if "n" in how:
        assert len(found) == how["n"]
    times = Counter(Counter(found).values())
    never = N_ROWS - sum(times.values())
    assert 400 < never < 690
    assert 930 < times[1] < 1240
    assert 930 < times[2] < 1240


def test_all_and_none(df: DataFrame) -> None:
    assert df.sample(0).count() == df.sample(n=0).count() == 0
    assert df.sample(0, with_replacement=True).count() == 0
    assert df.sample(1).count() == df.sample(1, seed=3).count() == N_ROWS
    assert df.sample(n=5000).count() == N_ROWS
    nothing = df.filter(col("i") < 0)
    assert nothing.sample(n=3).count() == nothing.sample(n=3, with_replacement=True).count() == 0
    assert df.sample(n=3).columns == df.columns


def test_a_sample_that_is_read_twice_is_drawn_once(df: DataFrame) -> None:
    for sample in (df.sample(0.5), df.sample(n=2000), df.sample(0.5, with_replacement=True)):
        part, rest = sample.distinct(), df.join(sample, on="i", how="anti")
        assert part.join(sample, on="i", how="anti").count() == 0
        both = part.select("i").union(rest.select("i"))
        assert sorted(both.collect()["i"].to_pylist()) == ROWS["i"].to_pylist()


def test_two_samples_are_two(df: DataFrame) -> None:
    twice = df.sample(0.5).sample(0.5).count()
    assert 800 < twice < 1200  # a quarter, not a half
    assert 800 < df.sample(0.5).join(df.sample(0.5), on="i").count() < 1200


def test_what_is_below_is_not_sampled_instead(df: DataFrame) -> None:
    """A group or a joined row is drawn by itself, not with the rows it was made of."""
    for seed in (None, 1):
        groups = df.group_by("k").agg(n=count()).sample(0.99999, seed=seed).collect()
        assert sum(groups["n"].to_pylist()) == N_ROWS
        three = DataFrame({"k": ["k0"], "z": [1]})
        joined = three.join(df, on="k").select("k", "z").sample(0.5, seed=seed)
        assert 500 < joined.count() < 850  # of 1334 equal rows
        lists = DataFrame({"a": [list(range(1000))]}).explode("a").select(z=col("a") * 0)
        assert 400 < lists.sample(0.5, seed=seed).count() < 600


def test_a_stream_is_sampled_row_by_row() -> None:
    rows = streams.generator(rows_per_s=1_000_000, n_rows=4000)
    assert 800 < rows.sample(0.25).count() < 1200
    assert 2500 < rows.sample(0.75, with_replacement=True).count() < 3500


def test_column_names_of_its_own_are_free() -> None:
    odd = DataFrame({"__row": [1, 2], "__copy": [1, 2], "__draw": [3, 4], "__times": [5, 6]})
    assert odd.sample(n=2, seed=1).sort("__row").collect().equals(odd.collect())
    assert odd.sample(n=9, seed=1, with_replacement=True).columns == odd.columns


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.sample(), r"write \.sample\(0\.1\) or \.sample\(n=100\)"),
        (lambda f: f.sample(0.1, n=3), "a fraction or n"),
        (lambda f: f.sample(10), r"from 0 to 1, got 10; write: \.sample\(n=10\) for so many rows"),
        (lambda f: f.sample(1.5), r"write: \.sample\(1\.5, with_replacement=True\)"),
        (lambda f: f.sample(float("nan")), "from 0 to 1, got nan"),
        (lambda f: f.sample(True), "from 0 to 1, got True"),
        (lambda f: f.sample("0.1"), "from 0 to 1, got '0.1'"),
        (lambda f: f.sample(-1, with_replacement=True), "from 0 to 1000000, got -1"),
        (lambda f: f.sample(n=-1), "n of at least 0"),
        (lambda f: f.sample(n=1.5), "n of at least 0"),
        (lambda f: f.sample(0.1, seed="a"), "whole number of 64 bits as seed"),
        (lambda f: f.sample(0.1, seed=1 << 63), "whole number of 64 bits as seed"),
        (lambda _: DataFrame({}).sample(0.1), "a frame with a column"),
        (lambda _: streams.generator(rows_per_s=1).sample(0.2, seed=1),
         r"a sample with a seed.*can't be taken of a stream.*write: \.sample\(0\.2\)"),
        (lambda _: streams.generator(rows_per_s=1).sample(n=3), r"n rows can't be taken of a stre"),
    ],
)  # fmt: skip
def test_refused(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(df)
