"""The door between Arrow objects and the kernels: PyCapsules of the C data interface.

One job: take the C structs out of an object's capsules, and hand a kernel's output back as an
object that any Arrow library imports without copying. No libarrow, so no ABI to keep up with.
"""

import pyarrow as pa

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdlib cimport free, malloc


cdef const ArrowSchema* schema_of(object capsule) except NULL:
    """The schema in a capsule; the capsule keeps owning it."""
    return <const ArrowSchema*> PyCapsule_GetPointer(capsule, "arrow_schema")


cdef ArrowArray* array_of(object capsule) except NULL:
    """The array in a capsule; the capsule keeps owning it."""
    return <ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")


cdef void release_array(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


@cython.final
cdef class ExportedArray:
    """A kernel's output, to be imported once, by `pyarrow.record_batch` for example."""

    def __arrow_c_array__(self, requested_schema=None):
        """The schema and array capsules (Arrow PyCapsule interface); no cast is offered."""
        return self.schema_capsule, self.array_capsule


cdef ExportedArray export_array(object schema_capsule, ArrowArray* array):
    """Move `array` into an object that owns it."""
    cdef ArrowArray* moved = <ArrowArray*> malloc(sizeof(ArrowArray))
    if moved == NULL:
        array.release(array)
        raise MemoryError
    moved[0] = array[0]
    array.release = NULL
    cdef ExportedArray exported = ExportedArray()
    exported.schema_capsule = schema_capsule
    exported.array_capsule = PyCapsule_New(moved, "arrow_array", release_array)
    return exported


cdef object bytes_array(ArrowArray* array):
    """A kernel's large_binary output as a pyarrow array."""
    return pa.array(export_array(pa.large_binary().__arrow_c_schema__(), array))


@cython.final
cdef class Rows:
    """A large_binary array, held and looked into; for kernels."""

    def __cinit__(self, array not None):
        if isinstance(array, pa.ChunkedArray) or array.type != pa.large_binary():
            raise TypeError(f"rows are a large_binary array, not {array.type}")
        self.schema_capsule, self.array_capsule = array.__arrow_c_array__()
        cdef const ArrowArray* found = array_of(self.array_capsule)
        self.first, self.n = found.offset, found.length
        self.validity = NULL
        if found.null_count != 0:
            self.validity = <const uint8_t*> found.buffers[0]
        self.offsets = <const int64_t*> found.buffers[1] + found.offset
        self.data = <const uint8_t*> found.buffers[2]
