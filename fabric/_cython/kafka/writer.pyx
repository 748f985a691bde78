"""Arrow columns to Kafka's topics, in transactions where wanted, without the GIL.

One job: the face of `writer.hpp`. Rows are grouped by partition and copied, so no array need
outlive a call: 0.3 to 0.5 CPU seconds a million rows of 100 bytes, about three times that with
headers or times of their own.
"""

import pyarrow as pa

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memset

from fabric._cython.kafka.handle cimport (
    faults_of,
    key_of,
    logs_of,
    milliseconds,
    settings_of,
    statistics_of,
)
from fabric._cython.kernels.arrow_c cimport array_of

from fabric._cython.kafka import results
from fabric._cython.kafka.faults import RowTooLargeError
from fabric.errors import ConfigError

DEFAULTS = {
    "enable.idempotence": "true",
    "linger.ms": "5",
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "262144",
    "delivery.report.only.error": "true",
    "message.max.bytes": "1048588",  # what a broker's topics take unless told otherwise
}
"""What a writer's settings are laid over."""


def partition_of_key(bytes key not None, int n_partitions):
    """The partition of a key, as Java's client chooses it: murmur2, without the sign, modulo.

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
        librdkafka's, by their names, laid over `DEFAULTS`; with ``transactional.id`` rows are
        written in transactions. All values are texts.
    topics
        Topics that will be written to, to be asked about now. `batch.size` is made no larger than
        any of them takes as one message, `message.max.bytes` as large as the largest of them
        takes, unless `settings` say something else.
    Raises
    ------
    ConfigError
        If librdkafka refuses a setting; a secret's value is never shown.
    NotFoundError
        If a topic is not there.
    BrokerError
        If no broker answers.
    Notes
    -----
    For one thread at a time. It belongs to the process that made it: a forked one makes its own.
    """

    def __cinit__(self, settings not None, topics=(), timeout_s=10.0):
        self.settings = {**DEFAULTS, **settings}
        self.is_sized = "message.max.bytes" in settings
        self.is_transactional = "transactional.id" in settings
        if self.is_transactional:  # they tell the producer's id
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
        """Ask for a topic's partitions and limit."""
        cdef string name = topic.encode()
        cdef int timeout_ms = milliseconds(timeout_s)
        cdef int64_t limit
        with nogil:
            self.core.get().open(name, timeout_ms)
            limit = self.core.get().message_bytes_max(name, timeout_ms)
        self.bytes_max[topic] = limit
        return 0

    cdef int fit(self, list topics, double timeout_s) except -1:
        """Open `topics`, with another producer where this one's batches are too large for one.

        A broker refuses a batch, not a message, by the topic's limit.
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
                f"topic '{topics[-1]}' takes messages of {self.bytes_max[topics[-1]]} bytes, which "
                "this writer was not made for: name the topic when the writer is made")
        self.settings = wanted
        if not self.is_transactional:
            self.flush()
        self.renew(timeout_s)
        return 0

    cdef int renew(self, double timeout_s) except -1:
        """Go on with another producer, by the same transactional id."""
        self.make()
        if self.is_initialised:
            self.init_transactions(max(timeout_s, 60.0))
        for topic in list(self.bytes_max):
            self.know(topic, timeout_s)
        return 0

    def write(self, topic not None, keys, values not None, *, partitions=None, headers=None,
              timestamps=None, timeout_s=60.0):
        """Hand rows over to be sent; waits while the buffer is full.

        Parameters
        ----------
        keys, values
            Arrow arrays of binary or text, a row each. A null key is none, a null value is a
            tombstone; `keys` None: no row has one.
        partitions
            int32, the partition of each row. None: by the key, as Java's client chooses it
            (`partition_of_key`); rows without a key go to one partition a call.
        headers
            list<struct<key: string, value: binary>>, or None.
        timestamps
            Times, or integers of milliseconds; null or None: now. The very time 0 is written as 1,
            which librdkafka would take as now.
        Returns
        -------
        int
            How many rows there were.
        Raises
        ------
        RowTooLargeError, NotFoundError
            If the topic takes no row so large, or has no such partition: nothing was sent.
        BrokerError
            If the buffer is full for `timeout_s`, which is retryable, or the transaction is over.
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
                raise ValueError(f"{n_rows} values beside a column of {len(column)} rows")
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
        """Take the transactional id: what another producer of it left open is aborted, and that
        producer is fenced.
        """
        cdef int timeout_ms = milliseconds(timeout_s)
        with nogil:
            self.core.get().init_transactions(timeout_ms)
        self.is_initialised = True

    def begin(self):
        """Begin a transaction, of which the rows written from here on are part."""
        with nogil:
            self.core.get().begin()
        self.is_open = True

    def send_offsets(self, offsets not None, *, group not None, timeout_s=60.0):
        """Make positions of a source, (topic, partition) to the next offset, part of it."""
        cdef cmap[PartitionKey, int64_t] given
        cdef string name = group.encode()
        cdef int timeout_ms = milliseconds(timeout_s)
        for (topic, partition), offset in offsets.items():
            given[key_of(topic, partition)] = <int64_t> offset
        with nogil:
            self.core.get().send_offsets(given, name, timeout_ms)

    def commit(self, timeout_s=60.0):
        """Send what is left, and commit.

        Raises
        ------
        ProducerFencedError
            If another producer has the transactional id now.
        RowTooLargeError
            If a broker refused a row or batch for its size.
        BrokerError
            With `requires_abort`: nothing was committed, and `abort` must follow. Else with
            `retryable`: it is not known whether it was, and `commit` may be called again.
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
        """Drop the transaction's rows and offsets; the next one may begin."""
        cdef int timeout_ms = milliseconds(timeout_s)
        with nogil:
            self.core.get().abort(timeout_ms)
        self.is_open = False
        if self.is_spoilt:
            # A row that a broker refused took a sequence number with it, and librdkafka does not
            # close that gap: the next transaction would fail by it.
            self.is_spoilt = False
            self.renew(timeout_s)

    def flush(self, timeout_s=60.0):
        """Wait until all rows are acknowledged.

        Raises
        ------
        BrokerError, RowTooLargeError
            What the first row died of that was not delivered since the last flush, or that time
            was over.
        """
        cdef int timeout_ms = milliseconds(timeout_s)
        with nogil:
            self.core.get().flush(timeout_ms)

    def purge(self):
        """Drop what was not acknowledged; whether a broker has it is not known."""
        with nogil:
            self.core.get().purge()

    def producer_id(self, timeout_s=5.0):
        """The producer's id and epoch, waited for if need be; (-1, -1): not known by then."""
        cdef int timeout_ms = milliseconds(timeout_s)
        cdef pair[int64_t, int64_t] found
        with nogil:
            found = self.core.get().producer_id(timeout_ms)
        return found.first, found.second

    def partitions(self, topic not None, timeout_s=10.0):
        """The number of a topic's partitions, asked for anew; keys go to as many from now on."""
        cdef string name = topic.encode()
        cdef int timeout_ms = milliseconds(timeout_s)
        cdef int32_t n
        if topic not in self.bytes_max:
            self.fit([topic], timeout_s)
        with nogil:
            n = self.core.get().open(name, timeout_ms)
        return n

    def message_bytes_max(self, topic not None, timeout_s=10.0):
        """The largest message that a topic takes (its max.message.bytes); -1: we may not ask.

        Raises
        ------
        BrokerError
            No broker answers; it is `retryable`.
        """
        if topic not in self.bytes_max:
            self.fit([topic], timeout_s)
        return self.bytes_max[topic]

    @property
    def failures(self):
        """How many rows were not delivered so far."""
        return self.core.get().handle().n_failures()

    @property
    def queued(self):
        """How many rows are not acknowledged yet."""
        return self.core.get().n_queued()

    def errors(self):
        """`Fault` of all that went wrong since the last call, rows apart (`failures`)."""
        with nogil:
            self.core.get().poll()
        return faults_of(&self.core.get().handle())

    def logs(self):
        """librdkafka's log since the last call, at most 256 lines: (syslog level, text)."""
        return logs_of(&self.core.get().handle())

    def statistics(self):
        """librdkafka's newest statistics; empty without ``statistics.interval.ms``."""
        return statistics_of(&self.core.get().handle())

    def close(self, timeout_s=0.0):
        """Stop; rows that are not acknowledged after `timeout_s` are dropped. Again: nothing."""
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
    raise TypeError(f"keys and values are binary or text, not {array.type}")


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
        raise ValueError("a header has a key; only its value may be null")
    return array
