"""CRC32C of a batch as it means, not as it happens to lie in memory.

One job: one checksum for equal rows, whatever the slicing, offsets, padding, absent or useless
validity bitmaps, or split of views over buffers. Bytes under nulls of fixed width count as they
are: moving and sending keeps them. About 20 GB/s with SSE 4.2, 2 GB/s by tables, GIL released.

Canonical bytes, column after column, children after their parent: the validity bitmap
from bit 0, only when a row is null; values of the logical length; offsets rebased to 0; views as
sizes, then bytes; list views as size and elements of each row; dense unions as codes, then offsets
and range used of each child; runs as ends clipped to the slice, then values; dictionaries as
indices, then the whole dictionary. An array without rows has no bytes.
"""

from libc.stdint cimport int64_t, uint32_t

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema, array_of, schema_of
from fabric._cython.kernels.cpu cimport current_cpu


cdef extern from "wire/crc32c.hpp" namespace "fabric" nogil:
    cppclass Crc32c:
        Crc32c(int cpu) noexcept
        void add(const void* data, int64_t n_bytes) noexcept
        uint32_t value() noexcept

    uint32_t canonical_crc32c(const ArrowSchema& schema, const ArrowArray& array, int cpu) except +


def batch_crc32c(batch not None):
    """CRC32C over the canonical buffers of a record batch (or array).

    Parameters
    ----------
    batch
        A `pyarrow.RecordBatch` or `pyarrow.Array`. From outside the process it must have passed
        ``validate(full=True)``.
    Returns
    -------
    crc
        0 <= crc < 2**32; 0 when there are no rows.
    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"a": [1, 2, 3]})
    >>> batch_crc32c(batch.slice(1)) == batch_crc32c(pa.record_batch({"a": [2, 3]}))
    True
    """
    schema_capsule, array_capsule = batch.__arrow_c_array__()
    cdef const ArrowSchema* schema = schema_of(schema_capsule)
    cdef const ArrowArray* array = array_of(array_capsule)
    cdef int cpu = current_cpu()
    cdef uint32_t crc
    with nogil:
        crc = canonical_crc32c(schema[0], array[0], cpu)
    return crc


def crc32c(const unsigned char[::1] data not None):
    """CRC32C of plain bytes.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    running = RunningCrc32c()
    running.update(data)
    return running.value


cdef class RunningCrc32c:
    """CRC32C of plain bytes that come piece by piece.

    Examples
    --------
    >>> crc = RunningCrc32c()
    >>> crc.update(b"1234"), crc.update(b"56789"), hex(crc.value)
    (None, None, '0xe3069283')
    """

    cdef Crc32c* _crc

    def __cinit__(self):
        self._crc = new Crc32c(current_cpu())

    def __dealloc__(self):
        del self._crc

    def update(self, const unsigned char[::1] data not None):
        """Go on with `data`; one thread at a time."""
        cdef int64_t n_bytes = data.shape[0]
        if n_bytes > 0:
            with nogil:
                self._crc.add(&data[0], n_bytes)

    @property
    def value(self):
        """The CRC of everything so far; 0 at first."""
        return self._crc.value()
