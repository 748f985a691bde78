"""Decoders and encoders of rows: the interface that all formats share.

One job: `Decoder` and `Encoder`, which hold the C++ object of a format (`codec.hpp`), so that other
native code can call it without the GIL, and Python code can call it with Arrow arrays. Formats
subclass them and set `core`.
"""

import pyarrow as pa
import pyarrow.compute as pc

from cython.operator cimport dereference
from libc.stdint cimport int32_t
from libc.string cimport memset

from fabric._cython.codecs.results import Bad, Decoded
from fabric._cython.kernels.arrow_c cimport array_of, export_array, schema_of


cdef uint8_t NOTHING = 0  # what empty values point to: a null pointer is a null value


def flat_type(dtype not None):
    """The type without dictionaries, run-end encoding and views, at any depth; codecs build these.

    >>> import pyarrow as pa
    >>> flat_type(pa.list_(pa.dictionary(pa.int32(), pa.string_view())))
    ListType(list<item: string>)
    """
    t = pa.types
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return flat_type(dtype.value_type)
    if t.is_string_view(dtype):
        return pa.string()
    if t.is_binary_view(dtype):
        return pa.binary()
    if t.is_struct(dtype):
        return pa.struct([flat_field(dtype.field(i)) for i in range(dtype.num_fields)])
    if t.is_map(dtype):
        return pa.map_(flat_field(dtype.key_field), flat_field(dtype.item_field))
    if t.is_large_list(dtype) or t.is_large_list_view(dtype):
        return pa.large_list(flat_field(dtype.value_field))
    if t.is_fixed_size_list(dtype):
        return pa.list_(flat_field(dtype.value_field), dtype.list_size)
    if t.is_list(dtype) or t.is_list_view(dtype):
        return pa.list_(flat_field(dtype.value_field))
    return dtype


cdef object flat_field(object field):
    if "\0" in field.name:
        raise ValueError(f"a column name must not contain a zero byte, got {field.name!r}")
    return field.with_type(flat_type(field.type)).remove_metadata()


cdef object flat_schema(object schema):
    return pa.schema([flat_field(field) for field in schema])


def in_layout(column not None, dtype not None):
    """The column as `dtype`, which has the same flat type. Arrow casts few nested encodings, and
    corrupts nulls in list views (as of version 25).

    >>> import pyarrow as pa
    >>> in_layout(pa.array([["x"], None], pa.list_view(pa.string_view())), pa.list_(pa.string()))[1]
    <pyarrow.ListScalar: None>
    """
    t = pa.types
    if column.type == dtype:
        return column
    if t.is_dictionary(column.type):
        return in_layout(column.dictionary, dtype).take(column.indices)
    if t.is_run_end_encoded(column.type):
        return in_layout(pc.run_end_decode(column), dtype)
    if t.is_run_end_encoded(dtype):
        values = in_layout(column, dtype.value_type)
        return pc.run_end_encode(values, run_end_type=dtype.run_end_type)
    if t.is_dictionary(dtype):
        found = in_layout(column, dtype.value_type).dictionary_encode()
        indices = found.indices.cast(dtype.index_type)
        return pa.DictionaryArray.from_arrays(indices, found.dictionary, ordered=dtype.ordered)
    if not t.is_nested(dtype):
        return column.cast(dtype)
    nulls = column.is_null()
    if t.is_struct(dtype):
        parts = [in_layout(part, field.type) for part, field in zip(column.flatten(), dtype.fields)]
        return pa.StructArray.from_arrays(parts, fields=dtype.fields, mask=nulls)
    if t.is_fixed_size_list(dtype):
        size = dtype.list_size
        inner = column.values.slice(column.offset * size, len(column) * size)
        inner = in_layout(inner, dtype.value_type)
        return pa.FixedSizeListArray.from_arrays(inner, type=dtype, mask=nulls)
    return list_in_layout(column, dtype, nulls)


cdef object list_in_layout(object column, object dtype, object nulls):
    """Lists of any kind, and maps."""
    t = pa.types
    is_map = t.is_map(dtype)
    if is_map:
        entry = pa.struct([column.type.key_field, column.type.item_field])
        column = column.cast(pa.list_(entry))
    width = pa.int64() if t.is_large_list(dtype) or t.is_large_list_view(dtype) else pa.int32()
    sizes = pc.fill_null(pc.list_value_length(column), 0).cast(width)
    offsets = pa.concat_arrays([pa.array([0], width), pc.cumulative_sum(sizes)])
    inner = column.flatten()
    if is_map:
        keys, items = inner.flatten()
        keys, items = in_layout(keys, dtype.key_type), in_layout(items, dtype.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, dtype, mask=nulls)
    inner = in_layout(inner, dtype.value_type)
    if t.is_list_view(dtype) or t.is_large_list_view(dtype):
        kind = pa.ListViewArray if t.is_list_view(dtype) else pa.LargeListViewArray
        return kind.from_arrays(offsets[:-1], sizes, inner, dtype, mask=nulls)
    kind = pa.LargeListArray if t.is_large_list(dtype) else pa.ListArray
    return kind.from_arrays(offsets, inner, dtype, mask=nulls)


cdef int add_spans(object array, vector[Span]& spans, list keep) except -1:
    """Append the spans of a binary or string array's values; `keep` keeps their memory alive."""
    t = pa.types
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            add_spans(chunk, spans, keep)
        return 0
    if t.is_binary_view(array.type) or t.is_string_view(array.type):
        array = array.cast(pa.large_binary())
    elif not (t.is_binary(array.type) or t.is_large_binary(array.type)
              or t.is_string(array.type) or t.is_large_string(array.type)):
        raise TypeError(f"values to decode must be binary or string, got {array.type}")
    capsules = array.__arrow_c_array__()
    keep.append(capsules)
    fill_spans(array_of(capsules[1]),
               t.is_large_binary(array.type) or t.is_large_string(array.type), spans)
    return 0


cdef void fill_spans(const ArrowArray* array, bint is_large, vector[Span]& spans) noexcept:
    cdef const uint8_t* validity = <const uint8_t*> array.buffers[0]
    cdef const uint8_t* data = <const uint8_t*> array.buffers[2]
    cdef int64_t i, at, begin, end
    cdef Span span
    if array.null_count == 0:
        validity = NULL
    for i in range(array.length):
        at = array.offset + i
        if is_large:
            begin, end = (<const int64_t*> array.buffers[1])[at], (
                <const int64_t*> array.buffers[1])[at + 1]
        else:
            begin, end = (<const int32_t*> array.buffers[1])[at], (
                <const int32_t*> array.buffers[1])[at + 1]
        span.data, span.size = <const uint8_t*> &NOTHING, end - begin
        if span.size > 0:
            span.data = data + begin
        if validity != NULL and not validity[at >> 3] >> (at & 7) & 1:
            span.data, span.size = <const uint8_t*> NULL, 0
        spans.push_back(span)


cdef class Decoder:
    """Decodes values (bytes) of one format into rows of `schema`; for one thread at a time.

    A null value is a row of nulls. A bad value is left out and reported; other values are not
    affected. Native code calls `core` directly and then `finished`.
    """

    is_native = True
    """Whether native code may call `core`."""

    cdef const ArrowSchema* prepare(self, object schema) except NULL:
        """Store the wanted columns; returns the types that `core` builds."""
        self.schema = schema
        self.flat = flat_schema(schema)
        self.flat_capsule = self.flat.__arrow_c_schema__()
        return schema_of(self.flat_capsule)

    def decode(self, values not None):
        """The rows of `values`.

        Parameters
        ----------
        values
            Arrow array, chunked or not, of a binary or text type.
        Returns
        -------
        Decoded
            The rows, with the types of `schema`, and the bad values.
        Raises
        ------
        TypeError
            If `values` have another type.
        OverflowError
            If a column would exceed 2 GiB.
        """
        cdef vector[Span] spans
        cdef list keep = []
        spans.reserve(len(values))
        add_spans(values, spans, keep)
        try:
            with nogil:
                self.core.get().append(spans.data(), <int64_t> spans.size())
        except BaseException:
            self.core.get().reset()
            raise
        return self.finished()

    def finished(self):
        """All rows that `core` decoded since the last call, as `Decoded`."""
        cdef ArrowArray rows
        cdef vector[CBad] bad
        memset(&rows, 0, sizeof(rows))
        with nogil:
            self.core.get().finish(rows, bad)
        batch = pa.record_batch(export_array(self.flat.__arrow_c_schema__(), &rows))
        if not self.flat.equals(self.schema, check_metadata=True):
            columns = [in_layout(column, field.type)
                       for column, field in zip(batch.columns, self.schema)]
            batch = pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else batch
        found = tuple([Bad(one.row, one.reason.decode("utf-8", "replace")) for one in bad])
        return Decoded(batch, found)


cdef class Encoder:
    """Encodes rows of `schema` as values (bytes) of one format; for one thread at a time."""

    is_native = True
    """Whether native code may call `core`."""

    cdef const ArrowSchema* prepare(self, object schema) except NULL:
        """Store the columns; returns the types that `core` expects."""
        self.schema = schema
        self.flat = flat_schema(schema)
        self.flat_capsule = self.flat.__arrow_c_schema__()
        return schema_of(self.flat_capsule)

    def flattened(self, batch not None):
        """`batch` in the layout that `core` expects: a record batch with the encoder's columns.

        Raises
        ------
        ValueError
            If `batch` has other columns than `schema`.
        """
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise ValueError(
                f"the encoder expects the columns {self.schema.names}, got {batch.schema.names}")
        if batch.schema.types == self.flat.types:
            return batch
        columns = [in_layout(column, field.type)
                   for column, field in zip(batch.columns, self.flat)]
        return pa.RecordBatch.from_arrays(columns, schema=self.flat)

    def encode(self, batch not None):
        """One value per row of a record batch of `schema`: binary, or large_binary above 2 GiB.

        Raises
        ------
        ValueError
            If `batch` has other columns than `schema`, or this format can't represent a row.
        """
        cdef Values values
        cdef ArrowArray found
        cdef bint is_large
        memset(&found, 0, sizeof(found))
        capsules = self.flattened(batch).__arrow_c_array__()
        cdef const ArrowArray* rows = array_of(capsules[1])
        with nogil:
            self.core.get().encode(dereference(rows), values)
            is_large = values.finish(found)
        kind = pa.large_binary() if is_large else pa.binary()
        return pa.array(export_array(kind.__arrow_c_schema__(), &found))
