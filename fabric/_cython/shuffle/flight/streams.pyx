"""Streams that clients put rows into: the queues between a Flight server and who reads them.

One job: the door for Python. The server fills the queues without the GIL; `take` never waits.
"""

cimport cython
from libcpp.memory cimport make_shared

from fabric._cython.shuffle.wire.arrow_cpp cimport ensure_pyarrow, schema_of, wrap_batch


cdef extern from "flight/stream_puts.hpp":
    pass


@cython.final
cdef class StreamPuts:
    """The streams of one agent; its server is given this."""

    def __cinit__(self):
        self.puts = make_shared[CStreamPuts]()
        self.door = <shared_ptr[StreamDoor]> self.puts

    def open(self, str name not None, schema not None, *, uint32_t split, uint32_t n_splits,
             int64_t bytes_max, bint at_once):
        """Take puts of one split of stream `name`; rows have at least the columns of `schema`.

        Parameters
        ----------
        bytes_max
            So much may wait to be read; a put then waits.
        at_once
            Whether a message is safe as soon as it is here, or once `acknowledge` says so.
        Returns
        -------
        queue
            Puts go there until it is closed.
        """
        cdef StreamQueue opened = StreamQueue.__new__(StreamQueue)
        opened.queue = make_shared[CStreamQueue](
            <string> name.encode(), schema_of(schema), split, n_splits, bytes_max, at_once)
        opened.puts = self.puts
        return opened


@cython.final
cdef class StreamQueue:
    """What was put into one split and not read yet; made by `StreamPuts.open`."""

    def listen(self):
        """From now on puts find it."""
        self.puts.get().add(self.queue)

    def take(self):
        """The next message as (writer, its number, batch), or None when there is none now."""
        cdef StreamMessage message
        if not self.queue.get().take(message):
            return None
        return message.writer.decode(), message.number, wrap_batch(message.batch)

    def acknowledge(self, str writer not None, uint64_t count):
        """So many messages of `writer` will not be asked for again."""
        self.queue.get().acknowledge(writer.encode(), count)

    def seek(self, str writer not None, uint64_t count):
        """Before `listen`: so many messages of `writer` were read in an earlier run."""
        self.queue.get().seek(writer.encode(), count)

    def close(self):
        """Nobody reads it any more: puts that are open end with an error."""
        if self.puts.get() != NULL:
            self.puts.get().remove(self.queue)
            self.queue.get().close()

    def __dealloc__(self):
        self.close()


ensure_pyarrow()
