"""One row as bytes: what keyed state is stored by, and a way back to columns.

One job: `RowCodec`, values of plain Arrow types to bytes and back, a column at a time (`rows.hpp`,
GIL released) or one Python value at a time. `value_store.pyx` and `fabric/state` store such bytes.

The format, version 1: the values of a row one after the other. A value is a byte, 0 for null or 1,
and then, little endian:

- booleans a byte; fixed widths their bytes; strings and binary a length (4 bytes) and the bytes;
- lists and maps how many (4 bytes) and the values; fixed-size lists and structs their values.

So no row of a schema is the beginning of another one. In keys (`canonical`) -0.0 is 0.0 and there
is one NaN: equal keys have equal bytes. A key's hash and key group are those of `hash.pyx`.
"""

import numpy as np
import pyarrow as pa

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble
from cpython.long cimport PyLong_AsLongLong, PyLong_AsUnsignedLongLong
from cpython.number cimport PyNumber_Index
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.math cimport NAN
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from fabric._cython.kernels.arrow_c cimport array_of, bytes_array, export_array, schema_of

cdef dict QUICK = {
    pa.float32(): "f", pa.float64(): "g", pa.bool_(): "b", pa.string(): "u",
    pa.large_string(): "u", pa.binary(): "z", pa.large_binary(): "z",
}


@cython.final
cdef class Node:
    """How one type is written value by value; `code` 0 where only Arrow can."""

    def __cinit__(self, kind):
        self.shown = kind
        self.names, self.children = [], []
        if pa.types.is_struct(kind):
            self.code = b"+"[0]
            self.names = [field.name for field in kind]
            self.children = [Node(field.type) for field in kind]
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            self.code = b"*"[0]
            self.children = [Node(kind.value_type)]
        elif pa.types.is_integer(kind):
            self.code, self.width = b"i"[0], kind.bit_width // 8
            self.is_signed = pa.types.is_signed_integer(kind)
        else:
            self.code = ord(QUICK.get(kind, "\0"))
        self.fields = dict.fromkeys(self.names).keys()
        if any((<Node> child).code == 0 for child in self.children):
            self.code = 0


cdef inline void append(string& out, const void* data, size_t n) noexcept:
    out.append(<const char*> data, n)


cdef int put_integer(Node node, object value, string& out) except -1:
    """The low bytes of an integer that fits."""
    cdef uint64_t word
    cdef int64_t signed
    cdef bint fits
    cdef int shift = 64 - 8 * node.width
    if node.is_signed:
        signed = PyLong_AsLongLong(PyNumber_Index(value))
        word = <uint64_t> signed
        fits = <int64_t> (word << shift) >> shift == signed
    else:
        word = PyLong_AsUnsignedLongLong(PyNumber_Index(value))
        fits = word << shift >> shift == word
    if not fits:
        raise OverflowError(f"{value} does not fit {node.shown}")
    append(out, &word, node.width)
    return 0


cdef int put_float(Node node, object value, string& out, bint canonical) except -1:
    cdef double number = PyFloat_AsDouble(value)
    cdef float single
    if canonical:
        number = NAN if number != number else number + 0.0
    if node.code == b"g"[0]:
        append(out, &number, 8)
    else:
        single = <float> number
        append(out, &single, 4)
    return 0


cdef int put_bytes(Node node, object value, string& out) except -1:
    cdef Py_ssize_t n
    cdef const char* data
    cdef uint32_t length
    if node.code == b"u"[0]:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no {node.shown}")
        data = PyUnicode_AsUTF8AndSize(value, &n)
    else:
        if not isinstance(value, bytes):
            raise TypeError(f"{value!r} is no {node.shown}")
        data, n = PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
    if n > 0xFFFFFFFF:
        raise OverflowError("a value has more than 4 GiB")
    length = <uint32_t> n
    append(out, &length, 4)
    append(out, data, n)
    return 0


cdef int put_nested(Node node, object value, string& out, bint canonical) except -1:
    cdef uint32_t length
    if node.code == b"*"[0]:
        length = len(value)
        append(out, &length, 4)
        for item in value:
            put_value(<Node> node.children[0], item, out, canonical)
        return 0
    if not isinstance(value, dict) or value.keys() != node.fields:
        check_fields(node.names, value)
    for name, child in zip(node.names, node.children):
        put_value(<Node> child, value.get(name), out, canonical)
    return 0


cdef int check_fields(list names, object value) except -1:
    """A struct's value is a dict of its fields; what is missing is null."""
    if not isinstance(value, dict):
        raise TypeError(f"a struct's value is a dict of {', '.join(names)}, not {value!r}")
    if strange := value.keys() - set(names):
        raise TypeError(f"there is no field {min(strange)!r}: the fields are {', '.join(names)}")
    return 0


cdef int put_value(Node node, object value, string& out, bint canonical) except -1:
    if value is None:
        out.push_back(0)
        return 0
    out.push_back(1)
    if node.code in b"fg":
        return put_float(node, value, out, canonical)
    if node.code in b"uz":
        return put_bytes(node, value, out)
    if node.code in b"+*":
        return put_nested(node, value, out, canonical)
    if node.code == b"b"[0]:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{value!r} is no {node.shown}")
        out.push_back(1 if value else 0)
        return 0
    return put_integer(node, value, out)


cdef object take_integer(Node node, RowReader& reader):
    cdef uint64_t word = 0
    cdef int shift = 64 - 8 * node.width
    if node.is_signed and node.width == 8:
        return reader.number[int64_t]()
    memcpy(&word, reader.take(node.width), node.width)
    if node.is_signed:
        return <int64_t> (word << shift) >> shift
    return word


cdef object take_value(Node node, RowReader& reader):
    cdef int64_t n
    if not reader.valid():
        return None
    if node.code in b"uz":
        n = reader.length()
        if node.code == b"u"[0]:
            return PyUnicode_DecodeUTF8(<const char*> reader.take(n), n, NULL)
        return PyBytes_FromStringAndSize(<const char*> reader.take(n), n)
    if node.code == b"*"[0]:
        n = reader.length()
        return [take_value(<Node> node.children[0], reader) for _ in range(n)]
    if node.code == b"+"[0]:
        return {name: take_value(<Node> child, reader)
                for name, child in zip(node.names, node.children)}
    if node.code == b"g"[0]:
        return reader.number[double]()
    if node.code == b"f"[0]:
        return reader.number[float]()
    if node.code == b"b"[0]:
        return reader.take(1)[0] != 0
    return take_integer(node, reader)


@cython.final
cdef class RowCodec:
    """Rows of some columns as bytes, and back.

    Parameters
    ----------
    schema
        The columns, one or more of plain types: no views, dictionaries, run ends or unions inside.
        A value on its own is a schema of one column.
    canonical
        For keys: flat types only, no intervals; floats that are equal become equal bytes.
    Raises
    ------
    TypeError
        If a type is not supported.
    Examples
    --------
    >>> import pyarrow as pa
    >>> codec = RowCodec(pa.schema([("user", pa.string()), ("n", pa.int16())]))
    >>> codec.encode_one(("ada", 7))
    b'\\x01\\x03\\x00\\x00\\x00ada\\x01\\x07\\x00'
    >>> codec.decode_one(codec.encode_one(("ada", None)))
    ('ada', None)
    >>> rows = codec.encode([pa.array(["ada"]), pa.array([7], "int16")])
    >>> codec.decode(rows)[0].to_pylist()
    ['ada']
    """

    def __cinit__(self, schema not None, bint canonical=False):
        self.schema, self.canonical = schema, canonical
        self.n_columns = len(schema)
        if self.n_columns == 0:
            raise TypeError("a row has one column or more")
        capsule = schema.__arrow_c_schema__()
        try:
            self.types = RowTypes(schema_of(capsule)[0])
        except ValueError as error:
            raise TypeError(f"{error}; got {', '.join(map(str, schema))}") from error
        if canonical and not self.types.are_flat():
            shown = ", ".join(map(str, schema))
            raise TypeError(f"keys are flat values, without intervals; got {shown}")
        self.nodes = [Node(field.type) for field in schema]
        self.quick = all((<Node> node).code != 0 for node in self.nodes)

    def encode(self, columns, bytes prefix=b""):
        """Columns to rows, `prefix` before each; a `pyarrow.LargeBinaryArray`."""
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        _schema_capsule, array_capsule = batch.__arrow_c_array__()
        cdef ArrowArray* columns_c = array_of(array_capsule)
        cdef ArrowArray out
        cdef const uint8_t* front = <const uint8_t*> PyBytes_AS_STRING(prefix)
        cdef int64_t n_front = len(prefix)
        with nogil:
            rows_of(self.types, columns_c[0], self.canonical, front, n_front, out)
        return bytes_array(&out)

    def decode(self, rows, int64_t skip=0):
        """Rows without their first `skip` bytes to columns; a null row is null in each.

        Raises
        ------
        RuntimeError
            If a row is of other types, or damaged.
        """
        cdef Rows held = Rows(rows)
        cdef ArrowArray* array = array_of(held.array_capsule)
        cdef ArrowArray out
        with nogil:
            columns_of(self.types, array[0], skip, out)
        return pa.record_batch(export_array(self.schema.__arrow_c_schema__(), &out)).columns

    cdef int put_all(self, object value, string& out) except -1:
        cdef Py_ssize_t i
        if self.n_columns == 1:
            put_value(<Node> self.nodes[0], value, out, self.canonical)
            return 0
        if not isinstance(value, (tuple, list)) or len(value) != self.n_columns:
            raise TypeError(f"{value!r} is no tuple of {', '.join(self.schema.names)}")
        for i in range(self.n_columns):
            put_value(<Node> self.nodes[i], value[i], out, self.canonical)
        return 0

    def encode_one(self, value, bytes prefix=b""):
        """One row from Python: the value of a single column, else a tuple of them.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If a value is not of its type; `pyarrow.ArrowInvalid` is a ValueError.
        """
        cdef string out
        if self.quick:
            append(out, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix))
            self.put_all(value, out)
            return PyBytes_FromStringAndSize(out.data(), out.size())
        values = (value,) if self.n_columns == 1 else value
        if len(values) != self.n_columns:
            raise TypeError(f"{value!r} is no tuple of {', '.join(self.schema.names)}")
        for item, node in zip(values, self.nodes):
            if item is not None and pa.types.is_struct((<Node> node).shown):
                check_fields((<Node> node).names, item)
        columns = [pa.array([item], field.type) for item, field in zip(values, self.schema)]
        return self.encode(columns, prefix)[0].as_py()

    cdef object take_all(self, const uint8_t* data, int64_t n):
        cdef RowReader reader = RowReader(data, n)
        if self.n_columns == 1:
            value = take_value(<Node> self.nodes[0], reader)
        else:
            value = tuple([take_value(<Node> node, reader) for node in self.nodes])
        if not reader.done():
            raise RuntimeError("a row of state is longer than its type")
        return value

    def decode_one(self, bytes row not None, int64_t skip=0):
        """The way back, without the first `skip` bytes."""
        if not 0 <= skip <= PyBytes_GET_SIZE(row):
            raise RuntimeError("a row of state ends too soon: it is damaged")
        if self.quick:
            return self.take_all(<const uint8_t*> PyBytes_AS_STRING(row) + skip,
                                 PyBytes_GET_SIZE(row) - skip)
        columns = self.decode(pa.array([row], pa.large_binary()), skip)
        values = tuple([column[0].as_py() for column in columns])
        return values[0] if self.n_columns == 1 else values

    def hashes(self, rows):
        """The hash of each row: uint64, shape (rows,); the key group is its top 15 bits."""
        cdef Rows held = Rows(rows)
        made = np.empty(held.n, np.uint64)
        cdef uint64_t[::1] view = made
        if held.n > 0:
            with nogil:
                self.types.hashes(held.data, held.offsets, held.n, &view[0])
        return made

    def group_key(self, bytes prefix not None, bytes row not None, bytes sub=b""):
        """`prefix`, the key group in two bytes (big endian), the row, `sub`: bytes in an order."""
        return self.placed(prefix, <const uint8_t*> PyBytes_AS_STRING(row), PyBytes_GET_SIZE(row),
                           <const uint8_t*> PyBytes_AS_STRING(sub), PyBytes_GET_SIZE(sub))

    def group_keys(self, bytes prefix not None, rows, subs=None):
        """`group_key` of each row, and of its sub where there are some."""
        cdef Rows keys = Rows(rows)
        cdef Rows more = Rows(subs) if subs is not None else None
        if more is not None and more.n != keys.n:
            raise ValueError(f"{keys.n} keys need as many subs, got {more.n}")
        cdef int64_t i, n_sub = 0
        cdef const uint8_t* sub = NULL
        found = []
        for i in range(keys.n):
            if more is not None:
                sub, n_sub = more.data + more.offsets[i], more.offsets[i + 1] - more.offsets[i]
            found.append(self.placed(prefix, keys.data + keys.offsets[i],
                                     keys.offsets[i + 1] - keys.offsets[i], sub, n_sub))
        return found

    cdef bytes placed(self, bytes prefix, const uint8_t* row, int64_t n_row, const uint8_t* sub,
                      int64_t n_sub):
        cdef int64_t n_prefix = PyBytes_GET_SIZE(prefix)
        cdef uint64_t group = self.types.hash(row, n_row) >> 49  # its top 15 bits
        made = PyBytes_FromStringAndSize(NULL, n_prefix + 2 + n_row + n_sub)
        cdef char* out = PyBytes_AS_STRING(made)
        memcpy(out, PyBytes_AS_STRING(prefix), n_prefix)
        out[n_prefix] = <char> (group >> 8)
        out[n_prefix + 1] = <char> (group & 0xFF)
        memcpy(out + n_prefix + 2, row, n_row)
        if n_sub > 0:
            memcpy(out + n_prefix + 2 + n_row, sub, n_sub)
        return made

    def split(self, list keys not None, int64_t skip):
        """Rows and subs of keys that `group_key` made, `skip` bytes cut off in front."""
        cdef int64_t n, front
        cdef const char* data
        cdef list rows = [], subs = []
        for key in keys:
            data, n = PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
            if n < skip:
                raise RuntimeError("a key of state ends too soon: it is damaged")
            front = self.types.front(<const uint8_t*> data + skip, n - skip)
            rows.append(PyBytes_FromStringAndSize(data + skip, front))
            subs.append(PyBytes_FromStringAndSize(data + skip + front, n - skip - front))
        return rows, subs


def leading_times(rows):
    """The int64 in the first 8 bytes of each row, 0 for a null one.

    Raises
    ------
    RuntimeError
        If a row is shorter.
    """
    cdef Rows held = Rows(rows)
    cdef int64_t i, at
    made = np.zeros(held.n, np.int64)
    cdef int64_t[::1] view = made
    for i in range(held.n):
        at = held.first + i
        if held.validity != NULL and not held.validity[at >> 3] >> (at & 7) & 1:
            continue
        if held.offsets[i + 1] - held.offsets[i] < 8:
            raise RuntimeError("a row of state ends too soon: it is damaged")
        memcpy(&view[i], held.data + held.offsets[i], 8)
    return made
