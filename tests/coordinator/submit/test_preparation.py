"""Preparing a plan: what is remembered of it, and what never is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fabric.control import control_pb2 as pb
from fabric.coordinator.submit.preparation import Prepared, prepare
from fabric.coordinator.submit.splits import Surroundings
from fabric.plan.codec import encode
from fabric.plan.expr import Agg, Alias, Column, Expr, Udf
from fabric.plan.nodes import Aggregate, Plan, Scan, Select
from fabric.plan.sources import FileSource
from fabric.security.tokens import Signer

AROUND = Surroundings(parallelism=1, n_cpus=2, embedded=True, datasets={}, agents=frozenset())


def scan(folder: Path, *values: int) -> Scan:
    table = pa.table({"a": pa.array(values, pa.int64())})
    path = folder / "t.parquet"
    pq.write_table(table, path)
    return Scan(FileSource("parquet", (str(path),)), table.schema)


def prepared(root: object, parallelism: int = 0, signer: Signer | None = None) -> Prepared:
    request = pb.SubmitRequest(plan=encode(Plan(root)), parallelism=parallelism)
    return prepare(request, AROUND, 1 << 20, signer)


def total(source: Scan, function: str = "max") -> Aggregate:
    return Aggregate(source, (), (Alias(Agg(function, Column("a")), "total"),))


def test_the_same_plan_over_the_same_files_is_prepared_once(tmp_path: Path) -> None:
    root = total(scan(tmp_path, 1, 2))
    first = prepared(root)
    assert prepared(root) is first
    assert first.fragments() is prepared(root).fragments()


def test_other_settings_are_planned_anew(tmp_path: Path) -> None:
    root = Select(scan(tmp_path, 1, 2), (Column("a"),))
    one, four = prepared(root, 1), prepared(root, 4)
    assert one is not four
    assert prepared(root, 4).fragments() == four.fragments()


def test_files_that_say_something_else_are_asked_again(tmp_path: Path) -> None:
    root = total(scan(tmp_path, 1, 2))
    before = prepared(root)
    scan(tmp_path, 1, 2, 7)
    after = prepared(root)
    assert after.optimised != before.optimised  # the answer comes from the footer
    assert prepared(root) is after


def test_what_was_signed_for_one_is_given_to_no_other(tmp_path: Path) -> None:
    call: Expr = Udf("f", (Column("a"),), pa.int64(), "arrow", b"payload")
    root = Select(scan(tmp_path, 1), (Alias(call, "b"),))
    prepared(root)
    made = [prepared(root, signer=Signer(bytes([n]) * 32)) for n in (1, 2, 2)]
    macs = [one.plan.root.exprs[0].input.mac for one in made]
    assert all(macs)
    assert macs[0] != macs[1] == macs[2]
    assert made[1] is not made[2]
    assert not prepared(root).plan.root.exprs[0].input.mac
