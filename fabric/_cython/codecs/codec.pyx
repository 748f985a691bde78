"""Decoders and encoders of rows: the face that is the same for every format.

One job: `Decoder` and `Encoder`, which hold the C++ of a format (`codec.hpp`) so that other native
code can call it without the GIL, and the same for a caller with Arrow arrays. Formats subclass
them and set `core`.
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
    """The type without encodings and views, at any depth: the one that codecs build.

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
    return field.with_type(flat_type(field.type)).remove_metadata()


cdef object flat_schema(object schema):
    return pa.schema([flat_field(field) for field in schema])


def flat_column(column not None):
    """The column in its flat type. Arrow's own casts of nulls in list views are damaged (25).

    >>> import pyarrow as pa
    >>> flat_column(pa.array([["x"], None], pa.list_view(pa.string_view())))[0].as_py()
    ['x']
    """
    t, dtype = pa.types, column.type
    flat = flat_type(dtype)
    if flat == dtype:
        return column
    if t.is_dictionary(dtype):
        return flat_column(column.dictionary).take(column.indices)
    if t.is_run_end_encoded(dtype):
        return flat_column(pc.run_end_decode(column))
    if not t.is_nested(dtype):
        return column.cast(flat)
    nulls = column.is_null()
    if t.is_struct(dtype):
        parts = [flat_column(part) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=flat.fields, mask=nulls)
    if t.is_fixed_size_list(dtype):
        size = dtype.list_size
        inner = flat_column(column.values.slice(column.offset * size, len(column) * size))
        return pa.FixedSizeListArray.from_arrays(inner, type=flat, mask=nulls)
    if t.is_map(dtype):
        entry = pa.struct([dtype.key_field, dtype.item_field])
        column = column.cast(pa.list_(entry))
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    inner = column.flatten()
    if t.is_map(dtype):
        keys, items = (flat_column(part) for part in inner.flatten())
        return pa.MapArray.from_arrays(offsets.cast(pa.int32()), keys, items, flat, mask=nulls)
    if t.is_large_list(flat):
        return pa.LargeListArray.from_arrays(offsets, flat_column(inner), flat, mask=nulls)
    offsets = offsets.cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, flat_column(inner), flat, mask=nulls)


cdef object unflat_column(object column, object dtype):
    """A flat column in the type whose flat type it has."""
    if pa.types.is_run_end_encoded(dtype):
        values = unflat_column(column, dtype.value_type)
        return pc.run_end_encode(values, run_end_type=dtype.run_end_type)
    return column if column.type == dtype else column.cast(dtype)


cdef int add_spans(object array, vector[Span]& spans, list keep) except -1:
    """Where the values of a binary or text array lie; `keep` holds them there."""
    t = pa.types
    if isinstance(array, pa.ChunkedArray):
        for chunk in array.chunks:
            add_spans(chunk, spans, keep)
        return 0
    if t.is_binary_view(array.type) or t.is_string_view(array.type):
        array = array.cast(pa.large_binary())
    elif not (t.is_binary(array.type) or t.is_large_binary(array.type)
              or t.is_string(array.type) or t.is_large_string(array.type)):
        raise TypeError(f"values to decode are binary or text, not {array.type}")
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
    """Values of bytes to rows of `schema`, by one format; for one thread at a time.

    A null value is a row of nulls. A bad value is left out and reported, its neighbours are
    untouched. Native code calls `core` itself and then `finished`.
    """

    is_native = True
    """Whether native code may call `core`."""

    cdef const ArrowSchema* prepare(self, object schema) except NULL:
        """Take the wanted columns; the types in which `core` is to build them."""
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
            If `values` are of another type.
        OverflowError
            If a column would take more than 2 GiB.
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
        """What `core` was given since the last call, as `Decoded`."""
        cdef ArrowArray rows
        cdef vector[CBad] bad
        memset(&rows, 0, sizeof(rows))
        with nogil:
            self.core.get().finish(rows, bad)
        batch = pa.record_batch(export_array(self.flat.__arrow_c_schema__(), &rows))
        if not self.flat.equals(self.schema, check_metadata=True):
            columns = [unflat_column(column, field.type)
                       for column, field in zip(batch.columns, self.schema)]
            batch = pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else batch
        found = tuple([Bad(one.row, one.reason.decode("utf-8", "replace")) for one in bad])
        return Decoded(batch, found)


cdef class Encoder:
    """Rows of `schema` to values of bytes, by one format; for one thread at a time."""

    is_native = True
    """Whether native code may call `core`."""

    cdef const ArrowSchema* prepare(self, object schema) except NULL:
        """Take the columns; the types in which `core` gets them."""
        self.schema = schema
        self.flat = flat_schema(schema)
        self.flat_capsule = self.flat.__arrow_c_schema__()
        return schema_of(self.flat_capsule)

    def flattened(self, batch not None):
        """`batch` in the layout that `core` takes: a record batch with the encoder's columns.

        Raises
        ------
        ValueError
            If `batch` has other columns than `schema`.
        """
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise ValueError(f"rows to encode have {self.schema.names}, got {batch.schema.names}")
        if batch.schema.types == self.flat.types:
            return batch
        columns = [flat_column(column) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.flat)

    def encode(self, batch not None):
        """A value for each row of a record batch of `schema`: binary, large_binary above 2 GiB.

        Raises
        ------
        ValueError
            If `batch` has other columns than `schema`, or a row has no form in this format.
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
