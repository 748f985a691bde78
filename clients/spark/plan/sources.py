"""Scans on Spark.

One job: rows of each kind of source as a Spark frame. A table of this process travels to Spark;
Parquet files that Spark reads to the same values are read by Spark (those of ``s3://`` as
``s3a://``, by Hadoop's connector); other files and Flight streams are read by Fabric's own readers
inside Spark's Python workers, so that the rows are the same; a dataset comes through the connector,
``format("fabric")``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import basename, dirname
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as t
from pyspark.sql import DataFrame as SparkFrame
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from fabric.clients.spark.connection import plainly_each
from fabric.clients.spark.plan.operators import filtered
from fabric.clients.spark.plan.relation import Names, Relation
from fabric.clients.spark.plan.rows import frame_of, inside_schema
from fabric.clients.spark.types import arrow_schema, conform
from fabric.errors import NotFoundError
from fabric.io import sources
from fabric.io.files.hive import useful
from fabric.io.sources.file import check_unchanged, is_plain
from fabric.io.sources.memory import table_of
from fabric.plan.expr import columns_of
from fabric.plan.nodes import Scan
from fabric.plan.schema import schema_of
from fabric.plan.sources import DatasetSource, FileSource, FlightSource, MemorySource, Split
from fabric.plan.types import plain

if TYPE_CHECKING:
    from fabric.clients.session.session import Session

_S3, _S3A = "s3://", "org.apache.hadoop.fs.s3a.S3AFileSystem"
_SPLITS_A_CORE = 2
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./\-]+")
"""Others might be taken for patterns or URLs."""


@dataclass(frozen=True, slots=True)
class DatasetHome:
    """The fabric whose datasets a plan reads and writes: options of ``format("fabric")``."""

    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, session: Session) -> DatasetHome:
        """That of a session."""
        options = {"url": session.flight_url, "token": session.token}
        if session.tls_roots is not None:
            options["tls_ca"] = session.tls_roots.decode("ascii")
        if session.insecure:
            options["insecure"] = "true"
        return cls(options)


FindHome = Callable[[], DatasetHome]


def no_home() -> DatasetHome:
    """There is no fabric to ask."""
    raise NotFoundError(
        "the plan names a dataset, and no fabric is known that has it; write "
        'connect("spark", datasets="fabric://host:6123")'
    )


def has_s3a(spark: SparkSession) -> bool:
    """Whether Spark can read ``s3a://``."""
    jvm: Any = spark._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(_S3A))


def hadoop_version(spark: SparkSession) -> str:
    """Of the libraries that Spark runs with; a connector must be of the same."""
    jvm: Any = spark._jvm
    return str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())


def needs_s3a(node: Scan) -> str:
    """The first object that Spark itself would read; "" where there is none."""
    source = node.source
    if not isinstance(source, FileSource) or not reads_alike(source, _wanted(node)):
        return ""
    return next((path for path in source.paths if path.startswith(_S3)), "")


def _s3a_options(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the variables of the store mean to the connector, which reads those of credentials
    itself; none of these is a secret."""
    known = {name.upper(): value for name, value in environ.items()}
    found = {}
    if endpoint := known.get("AWS_ENDPOINT", known.get("AWS_ENDPOINT_URL", "")):
        found["fs.s3a.endpoint"] = endpoint
        found["fs.s3a.path.style.access"] = "true"
        found["fs.s3a.connection.ssl.enabled"] = str(endpoint.startswith("https:")).lower()
    if region := known.get("AWS_REGION", known.get("AWS_DEFAULT_REGION", "")):
        found["fs.s3a.endpoint.region"] = region
    return found


def _wanted(node: Scan) -> pa.Schema:
    """What is read: columns that come out, and those that the filter reads."""
    out = schema_of(node)
    read_too = set() if node.predicate is None else columns_of(node.predicate)
    return pa.schema([f for f in node.schema if f.name in read_too or f.name in out.names])


def scanned(node: Scan, spark: SparkSession, names: Names, home: FindHome = no_home) -> Relation:
    """The rows and columns of a scan, its filter applied."""
    out, wanted = schema_of(node), _wanted(node)
    inner = tuple(names.fresh(name) for name in wanted.names)
    read = Relation(_frame(node, wanted, inner, spark, home), wanted, inner, names)
    if node.predicate is not None:
        read = filtered(read, node.predicate)
    if wanted.names == out.names:
        return read
    return read.selected([read.place(name) for name in out.names], out)


def _frame(
    node: Scan, wanted: pa.Schema, inner: Sequence[str], spark: SparkSession, home: FindHome
) -> SparkFrame:
    match node.source:
        case MemorySource() as source:
            return frame_of(spark, table_of(source).select(wanted.names), inner)
        case FileSource() as source if reads_alike(source, wanted):
            return _parquet(source, node.schema, wanted, inner, spark)
        case FileSource() | FlightSource():
            return _by_our_readers(node, wanted, inner, spark)
        case DatasetSource(name=name):
            options = {**home().options, "dataset": name}
            schema = inside_schema(wanted, wanted.names)
            frame = spark.read.format("fabric").options(**options).schema(schema).load()
            return frame.toDF(*inner)


def reads_alike(source: FileSource, wanted: pa.Schema) -> bool:
    """Whether Spark's own Parquet reader gives the columns of `wanted` as they are.

    Not where a file would be hidden from it (``_x.parquet``), taken for a pattern, or hold what it
    reads otherwise: units but microseconds, nested values, names it can't spell. Nor with options
    for the store: Hadoop keeps a bucket's connection, and would pass over those of a later reader.
    """
    if source.format != "parquet" or source.store or not wanted.names or "" in wanted.names:
        return False
    if not is_plain(source, wanted, source.paths):
        return False
    for path in source.paths:
        hidden, plain_name = basename(path).startswith(("_", ".")), path.removeprefix(_S3)
        if hidden or not _PLAIN_PATH.fullmatch(plain_name) or "=" in dirname(path):
            return False
    return all(_is_read_alike(dtype) for dtype in wanted.types)


def _is_read_alike(dtype: pa.DataType) -> bool:
    dtype = plain(dtype)
    if t.is_timestamp(dtype):
        return bool(dtype.unit == "us")
    if t.is_decimal(dtype):
        return bool(t.is_decimal128(dtype) and 0 <= dtype.scale <= dtype.precision)
    tests = (
        t.is_signed_integer, t.is_float32, t.is_float64, t.is_boolean, t.is_date32, t.is_string,
        t.is_large_string, t.is_binary, t.is_large_binary,
    )  # fmt: skip
    return any(test(dtype) for test in tests)


def _parquet(
    source: FileSource, schema: pa.Schema, wanted: pa.Schema, inner: Sequence[str],
    spark: SparkSession,
) -> SparkFrame:  # fmt: skip
    """By Spark. Floats are hidden from its filters: statistics of row groups leave NaN out."""
    for path in source.paths:
        check_unchanged(source, schema, path)
    reader = spark.read.schema(inside_schema(wanted, wanted.names))
    if any(path.startswith(_S3) for path in source.paths):
        reader = reader.options(**_s3a_options())
    paths = [f"s3a://{p.removeprefix(_S3)}" if p.startswith(_S3) else p for p in source.paths]
    frame = reader.option("recursiveFileLookup", "true").parquet(*paths).toDF(*inner)
    nan = sf.lit(float("nan"))
    columns = [
        sf.nanvl(sf.col(name), nan.cast("float" if t.is_float32(dtype) else "double")).alias(name)
        if t.is_floating(plain(dtype))
        else sf.col(name)
        for name, dtype in zip(inner, wanted.types, strict=True)
    ]
    return frame.select(*columns)


def _by_our_readers(
    node: Scan, wanted: pa.Schema, inner: Sequence[str], spark: SparkSession
) -> SparkFrame:
    """One Spark partition a split, read in a Python worker."""
    source, schema = node.source, node.schema
    assert isinstance(source, FileSource | FlightSource)
    n_target = _SPLITS_A_CORE * spark.sparkContext.defaultParallelism
    splits: Sequence[Split] = sources.enumerate_splits(source, n_target)
    if isinstance(source, FileSource):
        splits = useful(source, node.predicate, splits)
    struct = inside_schema(wanted, inner)
    if not splits:
        return spark.createDataFrame([], struct)
    read = _Reader(source, schema, tuple(wanted.names), tuple(splits), arrow_schema(struct))
    return spark.range(0, len(splits), 1, len(splits)).mapInArrow(read, struct)


@dataclass(frozen=True)
class _Reader:
    """Reads the splits whose numbers come in; Spark sends it to its workers."""

    source: FileSource | FlightSource
    schema: pa.Schema
    columns: tuple[str, ...]
    splits: tuple[Split, ...]
    wanted: pa.Schema

    @plainly_each
    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for read in sources.read_split(
                    self.source, self.schema, self.splits[number], self.columns
                ):
                    yield conform(read.rename_columns(self.wanted.names), self.wanted)
