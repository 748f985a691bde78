"""The data source class that Spark knows as ``fabric``.

One job: hand Spark a schema, a reader and a writer. Spark pickles these objects to its workers,
so they hold plain values only and every client is made where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

from fabric.clients.spark.connection import plainly, stream_info
from fabric.clients.spark.options import parse_options
from fabric.clients.spark.types import arrow_schema, collated_columns, pick, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class FabricDataSource(DataSource):
    """``format("fabric")``, batch: one Spark partition an endpoint when reading."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "fabric"

    @plainly
    def schema(self) -> StructType:
        """The stream's schema as Spark types, from the fabric itself."""
        options = parse_options(self.options, writing=False)
        return spark_schema(pick(stream_info(options).schema, options.columns))

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the stream; `schema` may name a part of its columns, which are then cast."""
        from fabric.clients.spark.reader import FabricReader, FilteringReader

        options, wanted = parse_options(self.options, writing=False), arrow_schema(schema)
        if not options.push_filters:
            return FabricReader(options, wanted)
        return FilteringReader(options, wanted, collated_columns(schema))

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Write a dataset: staged per task attempt, visible all at once when Spark commits."""
        from fabric.clients.spark.writer import FabricWriter

        options = parse_options(self.options, writing=True)
        return FabricWriter(options, arrow_schema(schema), overwrite)
