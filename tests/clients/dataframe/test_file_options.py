"""Options of files: what is refused at the call, and what each message says to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fabric
from fabric import col, streams
from fabric.errors import ConfigError, DataError, FabricError, PlanError

FRAME = fabric.DataFrame({"column": ["a", None], "n": [1, 2]})
READERS = ("read_parquet", "read_csv", "read_json", "read_ipc")
THEIRS: list[tuple[str, dict[str, Any]]] = [
    ("read_csv", {"schema_overrides": {"column": object()}}),
    ("read_json", {"schema_overrides": {"column": "string"}}),
    ("read_csv", {"usecols": ["column"]}), ("read_parquet", {"usecols": ["column"]}),
    ("read_csv", {"new_columns": ["column"]}), ("read_csv", {"truncate_ragged_lines": True}),
    ("read_csv", {"try_parse_dates": True}), ("read_csv", {"parse_dates": ["column"]}),
    ("read_csv", {"nullstr": "NA"}), ("read_csv", {"null_value": "NA"}),
    ("read_csv", {"na_values": ["NA"]}), ("read_csv", {"inferSchema": True}),
    ("read_parquet", {"hive_partitioning": True}), ("read_csv", {"hive_partitioning": True}),
    ("read_csv", {"header": None}), ("read_csv", {"has_header": None}),
    ("read_csv", {"null_values": {"column": "NA"}}),
    ("write_parquet", {"partition_cols": ["column"]}), ("write_csv", {"partitionBy": "column"}),
    ("write_csv", {"na_rep": "NA"}), ("write_csv", {"null_value": "NA"}),
    ("write_parquet", {"compression": "uncompressed"}), ("write_parquet", {"compression": None}),
    ("write_ipc", {"compression": "uncompressed"}), ("write_parquet", {"compression_level": 3}),
    ("to_files", {"mode": "append"}), ("to_files", {"max_rows_per_file": 5}),
    ("to_files", {"partitionBy": "column"}), ("to_files", {"compression": "uncompressed"}),
    ("read_stream", {"nullstr": "NA"}), ("read_stream", {"schema_overrides": {"a": "int8"}}),
]  # fmt: skip


def places(folder: Path) -> dict[str, Any]:
    """A file for each reader; new folders for writers."""
    (folder / "csv").mkdir()
    (folder / "csv" / "x.csv").write_text("column\na\n")
    for kind in ("parquet", "json", "ipc"):
        getattr(FRAME, f"write_{kind}")(folder / kind)
    return {
        **{verb: folder / verb.removeprefix("read_") for verb in READERS},
        "read_stream": folder / "csv",
    }


def call(verb: str, folder: Path, reads: dict[str, Any]) -> Callable[..., Any]:
    if verb == "to_files":
        return lambda **options: streams.to_files(folder / "out", **options)
    if verb.startswith("write"):
        return lambda **options: getattr(FRAME, verb)(folder / "out", **options)
    return lambda **options: getattr(fabric, verb)(reads[verb], **options)


@pytest.mark.parametrize(("verb", "options"), THEIRS)
def test_what_other_libraries_call_otherwise_is_told_with_what_to_write(
    verb: str, options: dict[str, Any], tmp_path: Path
) -> None:
    reads = places(tmp_path)
    go, before = call(verb, tmp_path, reads), sorted(tmp_path.iterdir())
    with pytest.raises(FabricError) as caught:
        go(**options)
    assert sorted(tmp_path.iterdir()) == before
    line = caught.value.message.partition("write: ")[2].partition("; it has")[0]
    assert line, caught.value.message
    line = line.removeprefix("for dates that are not ISO 8601: ").removesuffix(", for all columns")
    line = line.removeprefix("for types that are not to be guessed: ")
    if line.startswith(".with_columns"):
        scope = {"frame": FRAME, "col": col}
        rows = eval("frame" + line.removesuffix(" before"), scope)
        rows.write_csv(tmp_path / "x.csv")
        assert (tmp_path / "x.csv").read_text() == '"column","n"\n"a",1\n"NA",2\n'
    elif line.startswith(".write_stream"):
        scope = {"rows": streams.generator(n_rows=3), "streams": streams}
        line = line.replace("…", repr(str(tmp_path / "out")))
        eval("rows" + line, scope).wait()
        assert fabric.read_parquet(tmp_path / "out").count() == 3
    else:
        eval(f"go({line})", {"go": go})


@pytest.mark.parametrize(
    ("verb", "options", "error", "message"),
    [
        ("write_csv", {"partition_by": [1]}, PlanError,
         "write_csv: partition_by takes names of columns, got 1"),
        ("write_csv", {"partition_by": col("n")}, PlanError, 'write: "n"'),
        ("to_files", {"partition_by": [None]}, PlanError, "takes names of columns, got None"),
        ("write_csv", {"sep": ";", "delimiter": ";"}, PlanError,
         "write_csv was given sep and delimiter, which are one; leave one out"),
        ("read_csv", {"delimiter": ";", "separator": ";"}, PlanError,
         "read_csv was given delimiter and separator, which are one"),
        ("write_csv", {"sep": "é"}, ConfigError, "must be one ASCII character, got 'é'"),
        ("read_csv", {"sep": "é"}, ConfigError, "must be one ASCII character, got 'é'"),
        ("write_parquet", {"compression_level": 3}, ConfigError, "and the default is 'snappy'"),
        ("write_ipc", {"compression_level": 3}, ConfigError, "no option 'compression_level'"),
        ("to_files", {"compresion": "zstd"}, ConfigError, "did you mean 'compression'?"),
        ("to_files", {"rol_rows": 3}, ConfigError, "did you mean 'roll_rows'?"),
        ("read_parquet", {"colums": ["n"]}, ConfigError,
         "did you mean 'columns'? it has: columns, hive, schema"),
        ("read_csv", {"hiv": False}, ConfigError, "did you mean 'hive'?"),
        ("read_stream", {"setle": "1 s"}, ConfigError, "did you mean 'settle'?"),
        ("write_csv", {"max_rows": 3}, ConfigError, "it has: delimiter, header, max_rows_per_file"),
        ("read_parquet", {"nullstr": "NA"}, ConfigError, "no option 'nullstr'; it has: columns"),
    ],
)  # fmt: skip
def test_options_are_refused_at_the_call(
    verb: str, options: dict[str, Any], error: type[FabricError], message: str, tmp_path: Path
) -> None:
    go = call(verb, tmp_path, places(tmp_path))
    with pytest.raises(error) as caught:
        go(**options)
    assert message in str(caught.value)


def test_names_of_too_few_columns_do_not_blame_the_file(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("a,b\n1,2\n")
    for names in (["x"], ["x", "y", "z"]):
        says = (
            rf"^a line of .*n\.csv has 2 fields, and names= gives {len(names)} columns: a,b; name"
        )
        with pytest.raises(DataError, match=says):
            fabric.read_csv(tmp_path / "n.csv", names=names)


def test_lines_of_json_are_no_option(tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text('[{"a": 1}]')
    with pytest.raises(
        ConfigError, match="lines of objects are told apart by themselves, leave it"
    ):
        fabric.read_json(tmp_path / "n.json", lines=False)
