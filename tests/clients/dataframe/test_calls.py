"""What is typed wrong, or is called otherwise elsewhere: the nearest name, a line that runs."""

from __future__ import annotations

import datetime
import os
import traceback
from pathlib import Path
from typing import Any

import pytest

import fabric
from fabric import DataFrame, col, streams, udf
from fabric.clients.dataframe.calls import guarded
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.names import INSTEAD, MODULE_INSTEAD
from fabric.errors import ExpressionError, InternalError, PlanError


@pytest.fixture
def df() -> DataFrame:
    return DataFrame({"k": ["b", "a"], "n": [1, 2]})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.fliter, r"DataFrame has no attribute 'fliter'; did you mean \.filter\?"),
        (lambda f: f.wiht_columns, r"did you mean \.with_columns\?"),
        (lambda f: f.k, r'DataFrame has no attribute .k.; write col\("k"\)'),
        (lambda f: f.shape, r"not counted yet; write: \(df\.count\(\), len\(df\.columns\)\)"),
        (lambda f: f.merge, r'no .merge.; write: df\.join\(other, on="k"\)'),
        (lambda f: f.group_by("k").summ, r"GroupBy has no attribute .summ.; did you mean \.sum\?"),
        (lambda f: f.group_by("k").filter, r"GroupBy .*\.agg\(n=count\(\)\)\.filter"),
        (lambda _: col("k").summ, r"an expression has no attribute .summ.; did you mean \.sum\?"),
        (lambda _: col("k").year, r"an expression has no attribute .year.; write: \.dt\.year"),
        (lambda _: col("k").yaer, r"did you mean \.dt\.year\?"),
        (lambda _: col("k").astype, r'write: \.cast\("int64"\)'),
        (lambda _: col("k").str.uper, r"^\.str has no attribute .uper.; did you mean \.upper\?"),
        (lambda _: col("k").dt.yaer, r"^\.dt has no attribute .yaer.; did you mean \.year\?"),
        (lambda _: col("k").list.lenn, r"^\.list has no attribute .lenn.; did you mean \.len\?"),
        (lambda _: col("k").struct.feild, r"^\.struct has no .*did you mean \.field\?"),
        (lambda _: col("k").str.join, r'write: \.collect_list\(\)\.list\.join\("-"\)'),
        (lambda _: col("k").list.gather, r'write: fabric\.array\(col\("x"\)\.list\.get\(0\), '),
        (lambda _: col("k").list.eval, r'write: df\.explode\("x"\), then'),
        (lambda _: col("k").dt.replace, r'write: fabric\.make_date\(col\("x"\)\.dt\.year\(\), 1'),
        (lambda _: col("k").dt.time, r'write: \.dt\.strftime\("%H:%M:%S"\)$'),
        (lambda _: col("k").dt.combine, r"write: \.cast\(.*\) \+ datetime\.timedelta"),
        (lambda _: col("k").implode, r"write: \.collect_list\(\)$"),
        (lambda _: fabric.functions.implode, r'write collect_list\("x"\)$'),
        (lambda f: f.itemz, "^DataFrame has no attribute 'itemz'$"),
        (lambda f: f.xyzzy, "^DataFrame has no attribute 'xyzzy'$"),
        (lambda f: f._fliter, "^DataFrame has no attribute '_fliter'$"),
    ],
)  # fmt: skip
def test_an_unknown_attribute(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        wrong(df)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.sort("n", desending=True),
         r"^sort\(\) got an unexpected keyword argument 'desending'; did you mean descending=\?$"),
        (lambda f: f.sort("n", x=1), r'it takes "descending", "nulls_last"$'),
        (lambda f: f.sort("n", ascending=False), r"'ascending'; write: descending=True$"),
        (lambda f: f.orderBy("n", "k", ascending=[True, False]),
         r"^orderBy\(\) .*; write: descending=\[False, True\]$"),
        (lambda f: f.join(f, on="n", type="left"), r'; write: how="left"$'),
        (lambda _: fabric.date_range(1, 2, interval="1d"), r'; write: every="1d"$'),
        (lambda f: f.join(f, onn="n"), r"^join\(\) .*; did you mean on=\?$"),
        (lambda f: f.with_column("x"), r"^with_column\(\) missing 1 required .*: 'column'$"),
        (lambda _: col("n").cast("int8", strikt=True), r"^cast\(\) .*did you mean strict=\?$"),
        (lambda _: col("n").round(1, 2), r"^round\(\) takes from 1 to 2 positional"),
        (lambda f: f.group_by("k").count(1), r"^count\(\) takes 1 positional"),
    ],
)  # fmt: skip
def test_a_wrong_call(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        wrong(df)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: col("s").str[0], r"^\.str has no \[0\]; write: \.str\.slice\(0, 1\)$"),
        (lambda: col("s").str[2:5], r"\[2:5\]; write: \.str\.slice\(2, 3\)$"),
        (lambda: col("s").str[-2:], r"\[-2:\]; write: \.str\.slice\(-2\)$"),
        (lambda: col("s").list[-1], r"^\.list has no \[-1\]; write: \.list\.get\(-1\)$"),
    ],
)
def test_brackets_say_what_to_write(wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong()


@pytest.mark.parametrize("name", MODULE_INSTEAD)
def test_what_to_write_for_a_name_of_the_module_runs(name: str, df: DataFrame) -> None:
    with pytest.raises(AttributeError, match="; write: ") as caught:
        getattr(fabric, name)
    line = str(caught.value).split("; write: ")[1]
    found = eval(line, {"fabric": fabric, "col": col, "lit": fabric.lit, "datetime": datetime})
    if isinstance(found, Expr):
        df.select(a="k", b="n").select(found.alias("x")).collect()


def test_a_column_that_is_not_there_is_no_key(df: DataFrame) -> None:
    with pytest.raises(
        PlanError, match=r'^agg: there is no column "sum"; the columns are "k", "n"$'
    ):
        df.agg("sum")


def test_a_name_that_must_be_a_column_is_no_text(df: DataFrame, tmp_path: Path) -> None:
    df.write_parquet(tmp_path / "p")
    for call in (
        lambda: df.select(fabric.selectors.by_name("zz")),
        lambda: fabric.read_parquet(tmp_path / "p", columns=["zz"]),
    ):
        with pytest.raises(PlanError, match=r'no column "zz"; the columns are "k", "n"$'):
            call()
    with pytest.raises(PlanError, match=r'write: read_parquet\(\.\.\., columns=\["k", "n"\]\)$'):
        fabric.read_parquet(tmp_path / "p", columns=["k", "nn"])


@pytest.mark.parametrize("name", INSTEAD)
def test_what_to_write_instead_runs(name: str, df: DataFrame, tmp_path: Path) -> None:
    """For a frame of any type, with its first column; `other` is a frame alike."""
    assert not hasattr(DataFrame, name)
    with pytest.raises(AttributeError, match="; write: ") as caught:
        getattr(df, name)
    line = str(caught.value).split("; write: ")[1]
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        found = eval(line, {"df": df, "other": df, "col": col, "udf": udf})
    finally:
        os.chdir(before)
    if isinstance(found, DataFrame):
        found.collect()


def test_lines_of_frames_that_are_told_for_expressions_run(df: DataFrame) -> None:
    for name, space in (("upper", "str"), ("year", "dt"), ("get", "list")):
        with pytest.raises(AttributeError, match=rf"write: \.{space}\.{name}$"):
            getattr(col("k"), name)
        assert hasattr(getattr(col("k"), space), name)
    assert isinstance(col("n").cast("int64"), Expr)
    with pytest.raises(PlanError, match=r"write: df\.filter|, or df\.filter"):
        _ = 1 in df
    assert df.filter(col("n") == 1).count() > 0


def frames_of(call: Any) -> list[str]:
    """The files that a traceback names, from this test's line on."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    return [Path(frame.filename).name for frame in traceback.extract_tb(caught.tb)][2:]


def test_tracebacks_of_users_errors_are_short(df: DataFrame) -> None:
    assert frames_of(lambda: df.filter(col("x") > 1)) == ["calls.py"]
    assert frames_of(lambda: df.sort("n", desending=True)) == ["calls.py"]
    zero = df.select(1 / (col("n") - 1))
    assert frames_of(lambda: zero.limit(1).collect()) == ["calls.py"]
    with pytest.raises(ExpressionError) as caught:
        zero.collect()
    assert caught.value.__context__ is None


def test_other_errors_keep_their_tracebacks(df: DataFrame) -> None:
    def fails(_: DataFrame) -> None:
        raise InternalError("a bug")

    assert frames_of(lambda: df.pipe(fails))[-1] == Path(__file__).name

    def calls_wrongly(_: DataFrame) -> None:
        fails()  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="fails"):
        df.pipe(calls_wrongly)
    assert len(frames_of(lambda: df.pipe(calls_wrongly))) > 2


def test_a_guarded_method_is_the_same_to_who_looks_at_it() -> None:
    where: Any = DataFrame.where
    assert where.__wrapped__ is DataFrame.filter.__wrapped__  # type: ignore[attr-defined]
    assert (where.__name__, where.__qualname__) == ("where", "RowVerbs.where")
    assert where.__doc__ == DataFrame.filter.__doc__
    assert DataFrame.filter.__name__ == "filter"
    assert DataFrame.filter.__doc__
    method: Any = DataFrame.filter
    assert guarded(method) is method
    assert DataFrame.sort.__wrapped__.__qualname__ == "RowVerbs.sort"  # type: ignore[attr-defined]
    assert fabric.DataFrame.sort.__globals__["__name__"].endswith("verbs.rows")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.unique("z"), '^unique: there is no column "z"'),
        (lambda f: f.head("n"), "^head needs n of at least 0, got 'n'"),
        (lambda f: f.limit("n"), "^limit needs n of at least 0, got 'n'"),
        (lambda f: f.pipe(lambda g: g.limit("n")), "^limit needs n"),
        (lambda f: f.pipe(lambda g: g.head("n")), "^head needs n"),
        (lambda f: f.pipe(lambda g: g.unique("z")), "^unique: "),
        (lambda f: f.select(col("n").cum_sum()), r"^cum_sum needs an order"),
    ],
)
def test_an_error_names_the_method_that_was_written(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says) as caught:
        wrong(df)
    assert str(caught.value) == caught.value.message == caught.value.args[0]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: col("n").skew(bias=False), r"^skew\(\) got an .* 'bias'; it takes none$"),
        (lambda: col("n").all(x=1), r"^all\(\) got an unexpected"),
        (lambda: col("n").bool_and(x=1), r"^bool_and\(\) got an unexpected"),
    ],
)
def test_a_wrong_call_names_the_method_that_was_written(wrong: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        wrong()


def test_functions_have_the_names_that_users_know(df: DataFrame) -> None:
    for wrong, says in (
        (lambda: df.filter(col("n") > "x"), r"^> can't compare int64 and string"),
        (
            lambda: df.select(col("n") + col("k")),
            r"^\+ takes two numbers or two texts, got int64 on its left",
        ),
        (lambda: df.filter(~col("n")), r"^~ takes true or false, got int64 in ~"),
        (lambda: df.select(col("n").str.upper()), r"^\.str\.upper takes a string, got int64 in"),
    ):
        with pytest.raises(PlanError, match=says):
            wrong()


def test_a_stream_is_guarded_too() -> None:
    with pytest.raises(AttributeError, match=r"did you mean \.with_watermark\?"):
        _ = streams.generator(rows_per_s=1).with_watermrak


def test_functions_of_the_package() -> None:
    with pytest.raises(
        AttributeError, match=r"no attribute 'read_cvs'; did you mean fabric\.read_"
    ):
        _ = fabric.read_cvs
    with pytest.raises(TypeError, match=r"^connect\(\) .* did you mean parallelism=\?$"):
        fabric.connect(paralelism=2)  # type: ignore[call-arg]
    assert frames_of(lambda: fabric.read_csv("/nowhere/at/all.csv")) == ["calls.py"]
    assert not hasattr(fabric, "__path_of_nothing__")
