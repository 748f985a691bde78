"""Rows into bytes of one file: Parquet, CSV, JSON, IPC.

One job: the encoders and their options. Small batches are gathered into row groups of
`ROW_GROUP_ROWS` (Parquet) so that a file never consists of crumbs. Options:

    parquet   compression (snappy, zstd, lz4, gzip, brotli, none), compression_level,
              row_group_size (rows)
    csv       delimiter, header, quote_style (necessary: all texts, always: all but nulls, never)
    json      lines (True: an object a line, False: one array of objects); see `json_texts`
    ipc       compression (zstd, lz4, none; none can be read without a copy)

In CSV null is an empty field, the text "" a quoted one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from fabric.errors import ConfigError, PlanError
from fabric.io.files.options import check_known
from fabric.io.schemas import flat_column
from fabric.io.sinks.json_texts import check_json, lines
from fabric.plan.places import Options
from fabric.plan.types import flat_type

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 128 << 20
ENDINGS = {"parquet": "parquet", "csv": "csv", "ipc": "arrow", "json": "json"}
OPTIONS: dict[str, dict[str, type]] = {
    "parquet": {"compression": str, "compression_level": int, "row_group_size": int},
    "csv": {"delimiter": str, "header": bool, "quote_style": str},
    "ipc": {"compression": str},
    "json": {"lines": bool},
}
Given = Mapping[str, Any]
"""Options by name, checked."""
_CODECS = {
    "parquet": ("snappy", "zstd", "lz4", "gzip", "brotli", "none"), "ipc": ("zstd", "lz4", "none"),
}  # fmt: skip
_LEVELLED = ("zstd", "gzip", "brotli")
_QUOTING = {"necessary": "needed", "always": "all_valid", "never": "none"}


class Encoder(ABC):
    """Writes batches to a file that somebody else opened."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; they may stay in memory until `close`."""

    def flush(self) -> None:  # noqa: B027 (most gather nothing)
        """Write what has waited in memory."""

    @abstractmethod
    def close(self) -> None:
        """Write what is left and the footer; the file stays open."""


def open_encoder(
    format: str, file: pa.NativeFile, schema: pa.Schema, options: Given, packing: str = ""
) -> Encoder:
    """The encoder of `format`, writing to `file`; with `packing` of text, compressed."""
    if packing:
        return _Packed(format, pa.CompressedOutputStream(file, packing), schema, options)
    if format == "parquet":
        return _Parquet(file, schema, options)
    if format == "csv":
        return _Csv(file, schema, options)
    if format == "json":
        return _Json(file) if options.get("lines", True) else _JsonArray(file)
    codec = options.get("compression", "none")
    return _Ipc(file, schema, None if codec == "none" else codec)


def check_options(format: str, given: Options, verb: str = "") -> None:
    """Refuse an unknown format, option or value; `verb` is how the user writes it."""
    if format not in OPTIONS:
        raise ConfigError(f"there is no file format {format!r}; use {', '.join(OPTIONS)}")
    options: Given = check_known(verb or f"write_{format}", OPTIONS[format], given)
    _check_compression(format, options)
    if options.get("row_group_size", 1) < 1:
        raise ConfigError(
            f"option row_group_size must be positive, got {options['row_group_size']}"
        )
    if len(options.get("delimiter", ",").encode()) != 1:
        raise ConfigError(
            f"option delimiter must be one ASCII character, got {options['delimiter']!r}"
        )
    if options.get("quote_style", "necessary") not in _QUOTING:
        raise ConfigError(
            f"option quote_style must be one of {', '.join(_QUOTING)}, "
            f"got {options['quote_style']!r}"
        )


def _check_compression(format: str, options: Given) -> None:
    codec = options.get("compression", "snappy" if format == "parquet" else "none")
    if codec not in (known := _CODECS.get(format, ("none",))):
        hint = '; write: compression="none"' if codec == "uncompressed" else ""
        raise ConfigError(
            f"option compression must be one of {', '.join(known)}, got {codec!r}{hint}"
        )
    if "compression_level" not in options:
        return
    level = options["compression_level"]
    if codec not in _LEVELLED:
        which = "got" if "compression" in options else "and the default is"
        raise ConfigError(
            f"option compression_level needs compression= one of {', '.join(_LEVELLED)}, {which} "
            f'{codec!r}; write: compression="zstd", compression_level={level}'
        )
    least, most = (
        pa.Codec.minimum_compression_level(codec),
        pa.Codec.maximum_compression_level(codec),
    )
    if not least <= level <= most:
        raise ConfigError(
            f"option compression_level of {codec} is between {least} and {most}, got {level}"
        )


def check_schema(format: str, schema: pa.Schema, path: str) -> None:
    """Refuse a column that the format can't hold."""
    if format == "json":
        check_json(schema, path)
    if format != "csv":
        return
    for field in schema:
        dtype = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_nested(dtype):
            raise PlanError(
                f"a CSV file can't hold column {field.name!r} of type {field.type} ({path}); write "
                "Parquet or JSON, or select its parts"
            )


class _Ipc(Encoder):
    """Record batches as they come."""

    def __init__(self, file: pa.NativeFile, schema: pa.Schema, codec: str | None) -> None:
        options = pa.ipc.IpcWriteOptions(compression=codec)
        self._writer: Any = pa.ipc.new_file(file, schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self._writer.write(batch)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


class _Csv(Encoder):
    """Arrow's writer, which knows no views and no dictionaries of them."""

    def __init__(self, file: pa.NativeFile, schema: pa.Schema, options: Given) -> None:
        import pyarrow.csv as pc

        style = _QUOTING[options.get("quote_style", "necessary")]
        write = pc.WriteOptions(
            include_header=options.get("header", True),
            delimiter=options.get("delimiter", ","),
            quoting_style=style,
            quoting_header="none" if style == "none" else "needed",
        )
        self._schema = pa.schema([(f.name, flat_type(f.type)) for f in schema])
        self._writer: Any = pc.CSVWriter(file, self._schema, write_options=write)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        columns = [flat_column(column) for column in batch.columns]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class _Json(Encoder):
    """An object a line."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._file.write(lines(batch))

    def close(self) -> None:
        """Nothing is left."""


class _JsonArray(Encoder):
    """One array, an object a line of it."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file, self._before = file, b"["

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        if batch.num_rows:
            objects = lines(batch).removesuffix(b"\n").replace(b"\n", b",\n")
            self._file.write(self._before + objects)
            self._before = b",\n"

    def close(self) -> None:
        """End the array, which may have no element."""
        self._file.write(b"[]\n" if self._before == b"[" else b"]\n")


class _Packed(Encoder):
    """Text of another encoder, compressed."""

    def __init__(self, format: str, file: pa.NativeFile, schema: pa.Schema, options: Given) -> None:
        self._file, self._encoder = file, open_encoder(format, file, schema, options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._encoder.write(batch)

    def flush(self) -> None:
        """Nothing waits but in the compressor."""
        self._encoder.flush()

    def close(self) -> None:
        """Write what is left, and the end of what is compressed."""
        self._encoder.close()
        self._file.close()


class _Parquet(Encoder):
    """Gathers batches into row groups."""

    def __init__(self, file: pa.NativeFile, schema: pa.Schema, options: Given) -> None:
        import pyarrow.parquet as pq

        self._schema = schema
        self._writer: Any = pq.ParquetWriter(
            file,
            schema,
            compression=options.get("compression", "snappy"),
            compression_level=options.get("compression_level"),
        )
        self._group_rows = options.get("row_group_size", ROW_GROUP_ROWS)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows to the row group in work."""
        while self._rows + batch.num_rows >= self._group_rows:
            head = batch.slice(0, self._group_rows - self._rows)
            self._wait(head)
            self.flush()
            batch = batch.slice(head.num_rows)
        self._wait(batch)
        if self._bytes >= ROW_GROUP_BYTES:
            self.flush()

    def close(self) -> None:
        """Write the last row group and the footer."""
        try:
            self.flush()
        finally:
            self._writer.close()

    def _wait(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self._rows += batch.num_rows
            self._bytes += batch.nbytes

    def flush(self) -> None:
        """Write a row group of what waits."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=self._group_rows)
        self._waiting, self._rows, self._bytes = [], 0, 0
