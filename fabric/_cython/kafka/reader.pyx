"""Partitions of Kafka topics as Arrow columns, read and decoded without the GIL.

One job: the Python interface of `reader.hpp`. There is no consumer group: the caller chooses the
partitions and offsets, and keeps the positions. Costs about 0.2 CPU seconds per million records,
including librdkafka's threads; a decoder's rows are built in the same call.
"""

import pyarrow as pa

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython.operator cimport dereference
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.memory cimport unique_ptr
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from fabric._cython.codecs.codec cimport CDecoder, Decoder, Span
from fabric._cython.kafka.handle cimport (
    Handle, PartitionKey, Settings, faults_of, key_of, logs_of, metadata_of, milliseconds,
    raise_fault, settings_of, statistics_of,
)
from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema, export_array, schema_of

from fabric._cython.kafka import results
from fabric._cython.kafka.results import Bad, Read, joined, wanted_columns
from fabric._cython.kafka.wake import Wake


cdef extern from "kafka/reader.hpp" namespace "fabric::kafka" nogil:
    struct Start:
        int64_t offset
        int32_t leader_epoch

    struct Taken:
        int64_t n_records
        int64_t n_bytes
        int64_t first_offset

    struct Record:
        int64_t offset
        Span value

    cppclass CReader "fabric::kafka::Reader":
        CReader(const Settings& settings) except +raise_fault
        void assign(const cmap[PartitionKey, Start]& starts) except +raise_fault
        void unassign(const vector[PartitionKey]& partitions) except +raise_fault
        Taken take(const PartitionKey& partition, int64_t rows_max, int64_t bytes_max,
                   unsigned wants, const ArrowSchema& schema, CDecoder* decoder,
                   ArrowArray& columns) except +raise_fault
        Record record(const PartitionKey& partition, int64_t row) except +raise_fault
        void settle(const PartitionKey& partition) except +raise_fault
        int64_t position(const PartitionKey& partition) except +raise_fault
        int32_t leader_epoch(const PartitionKey& partition) except +raise_fault
        cbool at_end(const PartitionKey& partition) except +raise_fault
        int64_t high_watermark(const PartitionKey& partition) except +raise_fault
        pair[int64_t, int64_t] watermark_offsets(
            const PartitionKey& partition, int timeout_ms) except +raise_fault
        cmap[PartitionKey, int64_t] offsets_for_times(
            const cmap[PartitionKey, int64_t]& times, int timeout_ms) except +raise_fault
        cmap[PartitionKey, int64_t] committed(
            const vector[PartitionKey]& partitions, int timeout_ms) except +raise_fault
        void commit(const cmap[PartitionKey, int64_t]& offsets) except +raise_fault
        void poll() except +raise_fault
        int wake_fd()
        Handle& handle()
        void close()

DEFAULTS = {
    "group.id": "fabric",  # librdkafka requires one; no consumer joins it
    "session.timeout.ms": "1000",  # how long `close` waits to commit while no coordinator is there
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",  # the caller decides about an offset that no longer exists
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
    "fetch.message.max.bytes": "2097152",
    "fetch.queue.backoff.ms": "10",
}
"""The default settings of a reader."""


@cython.final
cdef class Reader:
    """Reads partitions, each from a given offset.

    Parameters
    ----------
    settings
        librdkafka's settings by name (``{"bootstrap.servers": "…"}``), merged over `DEFAULTS`. All
        values are strings.
    Raises
    ------
    ConfigError
        If librdkafka rejects a setting; the value of a secret is never shown.
    Notes
    -----
    Every method may be called from any thread, but one partition is read by one thread at a time.
    A reader belongs to the process that created it: a forked process must create its own.
    """

    cdef unique_ptr[CReader] core
    cdef dict columns
    cdef object wake

    def __cinit__(self, settings not None):
        cdef Settings given = settings_of(settings, DEFAULTS)
        self.columns = {}
        with nogil:
            self.core.reset(new CReader(given))

    def __dealloc__(self):
        if self.wake is not None:
            self.wake.stop(wait=False)
        with nogil:
            self.core.reset()

    def assign(self, starts not None):
        """Start reading partitions; those already being read are not disturbed.

        Parameters
        ----------
        starts
            For each (topic, partition) the offset of the first record to read, `EARLIEST` or
            `LATEST`; or a pair of that and the position's leader epoch, which lets the brokers
            detect a truncated log.
        Raises
        ------
        ValueError
            If a partition is already assigned.
        """
        cdef cmap[PartitionKey, Start] given
        cdef Start start
        for (topic, partition), at in starts.items():
            start.offset, start.leader_epoch = at if isinstance(at, tuple) else (at, -1)
            given[key_of(topic, partition)] = start
        with nogil:
            self.core.get().assign(given)

    def unassign(self, partitions not None):
        """Stop reading each (topic, partition); their prefetched records are dropped."""
        cdef vector[PartitionKey] given
        for topic, partition in partitions:
            given.push_back(key_of(topic, partition))
        with nogil:
            self.core.get().unassign(given)

    def read(self, topic not None, partition not None, rows_max=16_384, *, wants=results.ALL,
             decoder=None, bytes_max=64 << 20):
        """Received records of a partition; never waits.

        Parameters
        ----------
        rows_max, bytes_max
            The maximum number of records, and the maximum bytes of their keys and values (at most
            1 GiB), which only the first record may exceed.
        wants
            Names of the columns to return, from `COLUMNS`.
        decoder
            Decodes the values into further columns (`fabric._cython.codecs`); a null value is a row
            of nulls.
        Returns
        -------
        Read | None
            The records; None if there are none now.
        Raises
        ------
        ValueError
            If the partition is not assigned.
        FabricError
            As the decoder raises; the next call returns the same records again.
        """
        cdef PartitionKey key = key_of(topic, partition)
        cdef int64_t n_rows = rows_max, n_bytes = min(bytes_max, 1 << 30)
        cdef CDecoder* native = NULL
        cdef Decoder own
        cdef ArrowArray rows
        cdef Taken taken
        cdef unsigned mask
        if n_rows <= 0 or n_bytes <= 0:
            given = f"{rows_max}, {bytes_max}"
            raise ValueError(f"rows_max and bytes_max must be positive, got {given}")
        if decoder is not None and decoder.is_native:
            own = decoder
            native = own.core.get()
        read = wants if decoder is None or native != NULL else wants | {"value"}
        mask, schema, capsule = self.described(read)
        cdef const ArrowSchema* shape = schema_of(capsule)
        memset(&rows, 0, sizeof(rows))
        try:
            with nogil:
                taken = self.core.get().take(key, n_rows, n_bytes, mask, dereference(shape), native,
                                             rows)
        except BaseException:
            if native != NULL:
                native.reset()
            raise
        if taken.n_records == 0:
            return None
        batch = pa.record_batch(export_array(schema.__arrow_c_schema__(), &rows))
        found = []
        if decoder is not None:
            if native != NULL:
                decoded = decoder.finished()
            else:
                decoded = decoder.decode(batch.column("value"))
                batch = batch.select([name for name in schema.names if name in wants])
            batch = joined(batch, decoded)
            found = [self.bad_of(key, one) for one in decoded.bad]
        with nogil:
            self.core.get().settle(key)
        return Read(batch, found, taken.n_records, taken.n_bytes, taken.first_offset,
                    self.position(topic, partition))

    cdef tuple described(self, object wants):
        """The columns of `wants` as a bit mask, a schema, and a schema capsule."""
        known = self.columns.get(wants)
        if known is None:
            schema = wanted_columns(frozenset(wants))
            mask = sum(1 << i for i, name in enumerate(results.COLUMNS.names) if name in wants)
            known = self.columns[wants] = (mask, schema, schema.__arrow_c_schema__())
        return known

    cdef object bad_of(self, const PartitionKey& key, object bad):
        cdef Record record = self.core.get().record(key, bad.row)
        value = None
        if record.value.data != NULL:
            value = PyBytes_FromStringAndSize(<const char*> record.value.data, record.value.size)
        return Bad(record.offset, key.second, value, bad.reason, bad.row)

    def position(self, topic not None, partition not None):
        """The next offset to read: past all records read and any control records.

        Before the first record it is the assigned offset.
        """
        cdef PartitionKey key = key_of(topic, partition)
        cdef int64_t offset
        with nogil:
            offset = self.core.get().position(key)
        return offset

    def leader_epoch(self, topic not None, partition not None):
        """The leader epoch of the last record read, for `assign`; -1 if unknown."""
        return self.core.get().leader_epoch(key_of(topic, partition))

    def at_end(self, topic not None, partition not None):
        """Whether the end of the partition was reached and no record arrived since."""
        return self.core.get().at_end(key_of(topic, partition))

    def high_watermark(self, topic not None, partition not None):
        """The high watermark that a broker reported last; -1 if none did yet."""
        cdef PartitionKey key = key_of(topic, partition)
        cdef int64_t offset
        with nogil:
            offset = self.core.get().high_watermark(key)
        return offset

    def lag(self, topic not None, partition not None):
        """The consumer lag: high watermark minus position; -1 if unknown.

        Records of open transactions and control records count until they are passed.
        """
        high, at = self.high_watermark(topic, partition), self.position(topic, partition)
        return -1 if high < 0 or at < 0 else max(0, high - at)

    def watermark_offsets(self, topic not None, partition not None, timeout_s=10.0):
        """Request the log start offset and the end offset from the broker.

        Raises
        ------
        BrokerError
            If no broker answers in time.
        NotFoundError
            If the topic or partition does not exist.
        """
        cdef PartitionKey key = key_of(topic, partition)
        cdef int timeout_ms = milliseconds(timeout_s)
        cdef pair[int64_t, int64_t] found
        with nogil:
            found = self.core.get().watermark_offsets(key, timeout_ms)
        return found.first, found.second

    def metadata(self, topics=None, timeout_s=10.0):
        """`Topic` by name, for `topics` or for all topics that the brokers list.

        A topic that does not exist has an `error` and no partitions.

        Raises
        ------
        BrokerError
            If no broker answers in time.
        """
        return metadata_of(&self.core.get().handle(), topics, milliseconds(timeout_s))

    def offsets_for_times(self, times not None, timeout_s=10.0):
        """The first offset of each (topic, partition) at or after a time in milliseconds.

        `LATEST` if the partition has no such record.
        """
        cdef cmap[PartitionKey, int64_t] given
        cdef int timeout_ms = milliseconds(timeout_s)
        for (topic, partition), at in times.items():
            given[key_of(topic, partition)] = <int64_t> at
        with nogil:
            given = self.core.get().offsets_for_times(given, timeout_ms)
        return plain(given)

    def committed(self, partitions not None, timeout_s=10.0):
        """The group's committed offset of each (topic, partition); -1001 if there is none."""
        cdef vector[PartitionKey] asked
        cdef cmap[PartitionKey, int64_t] found
        cdef int timeout_ms = milliseconds(timeout_s)
        for topic, partition in partitions:
            asked.push_back(key_of(topic, partition))
        with nogil:
            found = self.core.get().committed(asked, timeout_ms)
        return plain(found)

    def commit(self, offsets not None):
        """Commit offsets to the group, for tools that show consumer lag; does not wait."""
        cdef cmap[PartitionKey, int64_t] given
        for (topic, partition), offset in offsets.items():
            given[key_of(topic, partition)] = <int64_t> offset
        with nogil:
            self.core.get().commit(given)

    @property
    def wake_fd(self):
        """An eventfd that is readable once records or errors arrived; reading it resets it."""
        return self.core.get().wake_fd()

    def on_wake(self, callback):
        """Have a thread of this reader call `callback` when records or errors arrive.

        A call means that a queue is no longer empty; there is no further call for it until `read`
        has returned None. Events that arrive during a call cause one further call. None stops the
        calls. Do not read `wake_fd` while a callback is set.
        """
        if self.wake is not None:
            self.wake.stop()
        self.wake = None if callback is None else Wake(self.wake_fd, callback)

    def errors(self):
        """The client's errors since the last call, each a `Fault`. Call it about every 100 ms:
        librdkafka handles errors, statistics and token refreshes only when it is polled.
        """
        with nogil:
            self.core.get().poll()
        return faults_of(&self.core.get().handle())

    def logs(self):
        """librdkafka's log since the last call as (syslog level, text); at most 256 lines."""
        return logs_of(&self.core.get().handle())

    def statistics(self):
        """librdkafka's newest statistics; empty without ``statistics.interval.ms``."""
        return statistics_of(&self.core.get().handle())

    def close(self):
        """Close the client at once; prefetched records are dropped. No other call may be running.
        """
        self.on_wake(None)
        with nogil:
            self.core.get().close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


cdef dict plain(cmap[PartitionKey, int64_t]& offsets):
    return {(one.first.first.decode(), one.first.second): one.second for one in offsets}
