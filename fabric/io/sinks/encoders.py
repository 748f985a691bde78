"""Rows into bytes of one file: Parquet, CSV, IPC.

One job: the three encoders and their options. Small batches are gathered into row groups of
`ROW_GROUP_ROWS` (Parquet) so that a file never consists of crumbs. Options:

    parquet   compression (snappy, zstd, lz4, gzip, none)
    csv       delimiter, header ("true", "false")
    ipc       compression (zstd, lz4, none; none can be read without a copy)
"""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from fabric.errors import ConfigError, PlanError

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 128 << 20
OPTIONS = {
    "parquet": frozenset(("compression",)),
    "csv": frozenset(("delimiter", "header")),
    "ipc": frozenset(("compression",)),
}


class Encoder(Protocol):
    """Writes batches to a file that somebody else opened."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; they may stay in memory until `close`."""

    def close(self) -> None:
        """Write what is left and the footer; the file stays open."""


def open_encoder(
    format: str, file: pa.NativeFile, schema: pa.Schema, options: dict[str, str]
) -> Encoder:
    """The encoder of `format`, writing to `file`."""
    if format == "parquet":
        return _Parquet(file, schema, options)
    if format == "csv":
        return _csv(file, schema, options)
    codec = options.get("compression", "none")
    ipc_options = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec)
    return pa.ipc.new_file(file, schema, options=ipc_options)  # type: ignore[no-any-return]


def check_options(format: str, options: dict[str, str]) -> None:
    """Refuse an unknown format, option or value."""
    if format not in OPTIONS:
        raise ConfigError(f"there is no file format {format!r}; use {', '.join(OPTIONS)}")
    for name, value in options.items():
        if name not in OPTIONS[format]:
            known = ", ".join(sorted(OPTIONS[format]))
            raise ConfigError(f"write_{format} has no option {name!r}; it has: {known}")
        if name == "compression":
            _check_codec(format, value)
    if len(options.get("delimiter", ",").encode()) != 1:
        raise ConfigError(f"option delimiter must be one character, got {options['delimiter']!r}")
    if options.get("header", "true") not in ("true", "false"):
        raise ConfigError(f"option header must be true or false, got {options['header']!r}")


def check_schema(format: str, schema: pa.Schema, path: str) -> None:
    """Refuse a column that the format can't hold."""
    if format != "csv":
        return
    for field in schema:
        dtype = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_nested(dtype):
            raise PlanError(
                f"a CSV file can't hold column {field.name!r} of type {field.type} ({path}); write "
                "Parquet, or select its parts"
            )


def _check_codec(format: str, value: str) -> None:
    known = (
        ("zstd", "lz4", "none") if format == "ipc" else ("snappy", "zstd", "lz4", "gzip", "none")
    )
    if value not in known:
        raise ConfigError(f"option compression must be one of {', '.join(known)}, got {value!r}")


def _csv(file: pa.NativeFile, schema: pa.Schema, options: dict[str, str]) -> Encoder:
    import pyarrow.csv as pc

    write = pc.WriteOptions(
        include_header=options.get("header", "true") == "true",
        delimiter=options.get("delimiter", ","),
    )
    return pc.CSVWriter(file, schema, write_options=write)  # type: ignore[no-any-return]


class _Parquet:
    """Gathers batches into row groups."""

    def __init__(self, file: pa.NativeFile, schema: pa.Schema, options: dict[str, str]) -> None:
        import pyarrow.parquet as pq

        codec = options.get("compression", "snappy")
        self._schema = schema
        self._writer: Any = pq.ParquetWriter(file, schema, compression=codec)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows to the row group in work."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the footer."""
        try:
            self._flush()
        finally:
            self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._rows, self._bytes = [], 0, 0
