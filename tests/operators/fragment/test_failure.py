"""What users see of what the engine says."""

import pyarrow as pa
import pytest

from fabric.errors import DataError, ExpressionError, InternalError, StorageError
from fabric.operators.fragment.failure import failure
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import Filter, Scan, Select, StageInput
from fabric.plan.sources import FileSource, Split

SOURCE = StageInput(0, pa.schema([("a", pa.int64())]))
POSITIVE = Call("gt", (Column("a"), Literal(0, pa.int64())))


class PanicException(BaseException):
    """What pyo3 raises when Rust panics: not an Exception."""


@pytest.mark.parametrize(
    "error",
    [
        PanicException("called `Option::unwrap()` on a `None` value at src/lib.rs:12"),
        Exception("DataFusion error: External error: task 12 panicked at src/lib.rs"),
    ],
)
def test_a_panic_is_a_bug_and_shows_no_rust(error):
    found = failure(error, SOURCE, {})
    assert isinstance(found, InternalError)
    assert found.message == "the query engine broke off; its own log says where"


def test_engine_names_are_left_out():
    error = Exception("DataFusion error: Arrow error: no such thing\n backtrace: 1 2 3")
    assert failure(error, SOURCE, {}).message == "the query engine refused: no such thing"


@pytest.mark.parametrize("at", ["", ' at path "/spill/x/.tmpA"'])
def test_a_disk_that_is_full_is_told_without_its_path(at):
    text = f"DataFusion error: IO error: No space left on device (os error 28){at}"
    found = failure(Exception(text), SOURCE, {})
    assert isinstance(found, StorageError)
    assert "no room to spill" in found.message
    assert "/spill" not in found.message
    other = failure(Exception(f"IO error: Is a directory{at}"), SOURCE, {})
    assert other.message == "the query engine refused: IO error: Is a directory"


def test_our_own_errors_stay_as_they_are():
    ours = DataError("a file is broken")
    assert failure(ours, SOURCE, {}) is ours


def test_the_node_is_named_only_where_it_is_the_only_one():
    error = Exception("DataFusion error: Arrow error: Divide by zero error")
    one = Select(Filter(SOURCE, POSITIVE, path="keep"), (Column("a"),), path="plain")
    found = failure(error, one, {})
    assert isinstance(found, ExpressionError)
    assert found.where.node == "keep"
    two = Filter(one, POSITIVE, path="again")
    assert failure(error, two, {}).where.node == ""


def test_an_unknown_error_over_a_changed_file_is_about_the_file(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1")
    source = FileSource("parquet", (str(path),))
    scan = Scan(source, pa.schema([("a", pa.int64())]), scan_id=0, path="read")
    found = failure(Exception("DataFusion error: EOF"), scan, {0: [Split(str(path), n_rows=1)]})
    assert isinstance(found, DataError)
    assert str(path) in found.message
    assert found.where.node == "read"
