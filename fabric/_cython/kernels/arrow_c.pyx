"""The door between Arrow objects and the kernels: PyCapsules of the C data interface.

One job: take the C structs out of an object's capsules, and hand a kernel's output back as an
object that any Arrow library imports without copying. No libarrow, so no ABI to keep up with.
"""

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
