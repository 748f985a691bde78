"""Writes Arrow columns to Kafka topics, in transactions if requested, without the GIL.

One job: the Python interface of `writer.hpp`. Rows are grouped by partition and copied, so no array
has to outlive a call. Costs 0.3 to 0.5 CPU seconds per million rows of 100 bytes, about three times
that with headers or timestamps.
"""

import pyarrow as pa

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.memory cimport unique_ptr
from libcpp.pair cimport pair
from libcpp.string cimport string

from fabric._cython.kafka.handle cimport (
    Handle, PartitionKey, Settings, faults_of, key_of, logs_of, milliseconds, raise_fault,
    settings_of, statistics_of,
)
from fabric._cython.kernels.arrow_c cimport ArrowArray, array_of

from fabric._cython.kafka import results
from fabric._cython.kafka.faults import RowTooLargeError
from fabric.errors import ConfigError


cdef extern from "kafka/writer.hpp" namespace "fabric::kafka" nogil:
    struct BytesColumn:
        const ArrowArray* array
        cbool is_large

    struct Rows:
        BytesColumn keys
        BytesColumn values
        const ArrowArray* partitions
        const ArrowArray* timestamps
        const ArrowArray* headers

    int32_t partition_of(const void* key, size_t size, int32_t n_partitions)

    cppclass CWriter "fabric::kafka::Writer":
        CWriter(const Settings& settings) except +raise_fault
        int32_t open(const string& topic, int timeout_ms) except +raise_fault
        int64_t message_bytes_max(const string& topic, int timeout_ms) except +raise_fault
        void write(const string& topic, const Rows& rows, int timeout_ms) except +raise_fault
        void init_transactions(int timeout_ms) except +raise_fault
        void begin() except +raise_fault
        void send_offsets(const cmap[PartitionKey, int64_t]& offsets, const string& group,
                          int timeout_ms) except +raise_fault
        void commit(int timeout_ms) except +raise_fault
        void abort(int timeout_ms) except +raise_fault
        void flush(int timeout_ms) except +raise_fault
        void purge() except +raise_fault
        void poll() except +raise_fault
        int64_t n_queued() except +raise_fault
        pair[int64_t, int64_t] producer_id(int timeout_ms) except +raise_fault
        Handle& handle()
        void close()

DEFAULTS = {
    "enable.idempotence": "true",
    "linger.ms": "5",
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "262144",
    "delivery.report.only.error": "true",
    "message.max.bytes": "1048588",  # the brokers' default limit
}
"""The default settings of a writer."""


def partition_of_key(bytes key not None, int n_partitions):
    """The partition of a key, as the Java client chooses it: murmur2 without its sign bit, modulo.

    >>> partition_of_key(b"21", 1000), partition_of_key(b"", 1000)
    (340, 681)
    """
    if n_partitions <= 0:
        raise ValueError(f"n_partitions must be positive, got {n_partitions}")
    return partition_of(<const void*> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), n_partitions)


@cython.final
cdef class Writer:
    """A producer of rows.

    Parameters
    ----------
    settings
        librdkafka's settings by name, merged over `DEFAULTS`; with ``transactional.id`` rows are
        written in transactions. All values are strings.
    topics
        Topics to be written to, which are looked up now. `batch.size` is limited to the smallest
        max.message.bytes among them, and `message.max.bytes` is raised to the largest, unless
        `settings` contain them.
    Raises
    ------
    ConfigError
        If librdkafka rejects a setting; the value of a secret is never shown.
    NotFoundError
        If a topic does not exist.
    BrokerError
        If no broker answers.
    Notes
    -----
    For one thread at a time. A writer belongs to the process that created it: a forked process must
    create its own.
    """

    cdef unique_ptr[CWriter] core
    cdef dict settings
    cdef dict bytes_max
    cdef bint is_transactional
    cdef bint is_initialised
    cdef bint is_open
    cdef bint is_sized
    cdef bint is_spoilt

    def __cinit__(self, settings not None, topics=(), timeout_s=10.0):
        self.settings = {**DEFAULTS, **settings}
        self.is_sized = "message.max.bytes" in settings
        self.is_transactional = "transactional.id" in settings
        if self.is_transactional:  # the statistics contain the producer's id
            self.settings.setdefault("statistics.interval.ms", "100")
        self.bytes_max = {}
        self.make()
        self.fit(list(topics), timeout_s)

    def __dealloc__(self):
        with nogil:
            self.core.reset()

    cdef int make(self) except -1:
        cdef Settings given = settings_of(self.settings, {})
        with nogil:
            self.core.reset()
            self.core.reset(new CWriter(given))
        return 0

    cdef int know(self, object topic, double timeout_s) except -1:
        """Look up a topic's partitions and limit."""
        cdef string name = topic.encode()
        cdef int timeout_ms = milliseconds(timeout_s)
        cdef int64_t limit
        with nogil:
            self.core.get().open(name, timeout_ms)
            limit = self.core.get().message_bytes_max(name, timeout_ms)
        self.bytes_max[topic] = limit
        return 0

    cdef int fit(self, list topics, double timeout_s) except -1:
        """Open `topics`; recreate the producer if its batches are too large for one of them.

        A broker applies the topic's limit to a batch, not to a message.
        """
        for topic in topics:
            self.know(topic, timeout_s)
        limits = [limit for limit in self.bytes_max.values() if limit > 0]
        if not limits:
            return 0
        wanted = dict(self.settings)
        wanted["batch.size"] = str(min(int(wanted.get("batch.size", "1000000")), *limits, 1 << 30))
        if not self.is_sized:
            largest = max(*limits, int(wanted["message.max.bytes"]))
            wanted["message.max.bytes"] = str(min(largest, 1_000_000_000))
        if wanted["batch.size"] == self.settings.get("batch.size", "1000000") and (
                wanted["message.max.bytes"] == self.settings["message.max.bytes"]):
            return 0
        if self.is_open:
            raise ConfigError(
                f"topic '{topics[-1]}' accepts messages of up to {self.bytes_max[topics[-1]]} "
                "bytes, and this writer was created for another limit; name the topic when the "
                "writer is created")
        self.settings = wanted
        if not self.is_transactional:
            self.flush()
        self.renew(timeout_s)
        return 0

    cdef int renew(self, double timeout_s) except -1:
        """Continue with another producer of the same transactional id."""
        self.make()
        if self.is_initialised:
            self.init_transactions(max(timeout_s, 60.0))
        for topic in list(self.bytes_max):
            self.know(topic, timeout_s)
        return 0

    def write(self, topic not None, keys, values not None, *, partitions=None, headers=None,
              timestamps=None, timeout_s=60.0):
        """Queue rows to be sent; waits while the queue is full.

        Parameters
        ----------
        keys, values
            Arrow arrays of binary or string, shape (rows,). A null key means no key, a null value
            is a tombstone; `keys` None: no row has a key.
        partitions
            int32, the partition of each row. None: chosen by key like the Java client does
            (`partition_of_key`); rows without a key go to one partition per call.
        headers
            list<struct<key: string, value: binary>>, or None.
        timestamps
            Timestamps, or integers in milliseconds; null or None: the current time. Time 0 is
            written as 1, since librdkafka takes 0 as the current time.
        Returns
        -------
        int
            The number of rows.
        Raises
        ------
        RowTooLargeError, NotFoundError
            If a row exceeds the topic's limit, or its partition does not exist: nothing was sent.
        BrokerError
            If the queue is full for `timeout_s`, which is retryable, or the transaction has ended.
            Some rows may have been sent.
        """
        cdef Rows rows
        cdef string name = topic.encode()
        cdef int timeout_ms = milliseconds(timeout_s)
        if topic not in self.bytes_max:
            self.fit([topic], timeout_s)
        memset(&rows, 0, sizeof(rows))
        held = []
        values = in_bytes(values)
        n_rows = len(values)
        for column in (keys, partitions, headers, timestamps):
            if column is not None and len(column) != n_rows:
                raise ValueError(f"values has {n_rows} rows, another column {len(column)}")
        rows.values.array = held_array(values, held)
        rows.values.is_large = is_large(values)
        if keys is not None:
            keys = in_bytes(keys)
            rows.keys.array = held_array(keys, held)
            rows.keys.is_large = is_large(keys)
        if partitions is not None:
            rows.partitions = held_array(plain(partitions).cast(pa.int32()), held)
        if timestamps is not None:
            rows.timestamps = held_array(in_milliseconds(timestamps), held)
        if headers is not None:
            rows.headers = held_array(checked_headers(headers), held)
        with nogil:
            self.core.get().write(name, rows, timeout_ms)
        return n_rows

    def init_transactions(self, timeout_s=60.0):
        """Register the transactional id: any other producer that uses it is fenced, and its open
        transaction is aborted.
        """
        cdef int timeout_ms = milliseconds(timeout_s)
        with nogil:
            self.core.get().init_transactions(timeout_ms)
        self.is_initialised = True

    def begin(self):
        """Start a transaction, which the rows written from now on are part of."""
        with nogil:
            self.core.get().begin()
        self.is_open = True

    def send_offsets(self, offsets not None, *, group not None, timeout_s=60.0):
        """Add consumed offsets to the transaction: the next offset by (topic, partition)."""
        cdef cmap[PartitionKey, int64_t] given
        cdef string name = group.encode()
        cdef int timeout_ms = milliseconds(timeout_s)
        for (topic, partition), offset in offsets.items():
            given[key_of(topic, partition)] = <int64_t> offset
        with nogil:
            self.core.get().send_offsets(given, name, timeout_ms)

    def commit(self, timeout_s=60.0):
        """Flush queued rows and commit the transaction.

        Raises
        ------
        ProducerFencedError
            If another producer uses the transactional id now.
        RowTooLargeError
            If a broker rejected a row or batch because of its size.
        BrokerError
            With `requires_abort`: nothing was committed, and `abort` must follow. Otherwise, if
            `retryable`: the outcome is unknown, and `commit` may be called again.
        """
        cdef int timeout_ms = milliseconds(timeout_s)
        try:
            with nogil:
                self.core.get().commit(timeout_ms)
        except RowTooLargeError:
            self.is_spoilt = True
            raise
        self.is_open = False

    def abort(self, timeout_s=60.0):
        """Abort the transaction: its rows and offsets are dropped, and another may be started."""
        cdef int timeout_ms = milliseconds(timeout_s)
        with nogil:
            self.core.get().abort(timeout_ms)
        self.is_open = False
        if self.is_spoilt:
            # A row that a broker rejected used up a sequence number, and librdkafka does not close
            # that gap: the next transaction would fail because of it.
            self.is_spoilt = False
            self.renew(timeout_s)

    def flush(self, timeout_s=60.0):
        """Wait until all rows are acknowledged.

        Raises
        ------
        BrokerError, RowTooLargeError
            Why the first undelivered row since the last flush failed, or that the time-out expired.
        """
        cdef int timeout_ms = milliseconds(timeout_s)
        with nogil:
            self.core.get().flush(timeout_ms)

    def purge(self):
        """Drop the rows that are not acknowledged; a broker may have received them."""
        with nogil:
            self.core.get().purge()

    def producer_id(self, timeout_s=5.0):
        """The producer's id and epoch; waits for them. (-1, -1) if unknown after `timeout_s`."""
        cdef int timeout_ms = milliseconds(timeout_s)
        cdef pair[int64_t, int64_t] found
        with nogil:
            found = self.core.get().producer_id(timeout_ms)
        return found.first, found.second

    def partitions(self, topic not None, timeout_s=10.0):
        """The partition count of a topic, requested now; later keys are spread over this count."""
        cdef string name = topic.encode()
        cdef int timeout_ms = milliseconds(timeout_s)
        cdef int32_t n
        if topic not in self.bytes_max:
            self.fit([topic], timeout_s)
        with nogil:
            n = self.core.get().open(name, timeout_ms)
        return n

    def message_bytes_max(self, topic not None, timeout_s=10.0):
        """The topic's max.message.bytes; -1 if this user is not authorized to read it.

        Raises
        ------
        BrokerError
            If no broker answers; it is `retryable`.
        """
        if topic not in self.bytes_max:
            self.fit([topic], timeout_s)
        return self.bytes_max[topic]

    @property
    def failures(self):
        """The number of rows that could not be delivered so far."""
        return self.core.get().handle().n_failures()

    @property
    def queued(self):
        """The number of rows that are not acknowledged yet."""
        return self.core.get().n_queued()

    def errors(self):
        """The client's errors since the last call, each a `Fault`; for rows see `failures`."""
        with nogil:
            self.core.get().poll()
        return faults_of(&self.core.get().handle())

    def logs(self):
        """librdkafka's log since the last call as (syslog level, text); at most 256 lines."""
        return logs_of(&self.core.get().handle())

    def statistics(self):
        """librdkafka's newest statistics; empty without ``statistics.interval.ms``."""
        return statistics_of(&self.core.get().handle())

    def close(self, timeout_s=0.0):
        """Close the client, dropping rows not acknowledged after `timeout_s`; idempotent."""
        try:
            if timeout_s > 0 and self.queued > 0:
                self.flush(timeout_s)
        finally:
            with nogil:
                self.core.get().close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


cdef const ArrowArray* held_array(object array, list held) except NULL:
    capsules = array.__arrow_c_array__()
    held.append((array, capsules))
    return array_of(capsules[1])


cdef object plain(object array):
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


cdef object in_bytes(object array):
    array = plain(array)
    t = pa.types
    if (t.is_binary(array.type) or t.is_string(array.type) or t.is_large_binary(array.type)
            or t.is_large_string(array.type)):
        return array
    if t.is_null(array.type) or t.is_binary_view(array.type) or t.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    if t.is_string_view(array.type):
        return array.cast(pa.string())
    raise TypeError(f"keys and values must be binary or string, got {array.type}")


cdef bint is_large(object array):
    return pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)


cdef object in_milliseconds(object array):
    array = plain(array)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    return array.cast(pa.int64())


cdef object checked_headers(object array):
    array = plain(array)
    array = array if array.type == results.HEADERS else array.cast(results.HEADERS)
    if array.flatten().null_count or array.flatten().field("key").null_count:
        raise ValueError("the key of a header must not be null; only its value may be")
    return array
