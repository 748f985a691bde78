"""Loading librdkafka, and what the Python classes of readers and writers share.

One job: `load`, and the conversion of settings, errors, logs and statistics between C++ and Python.
"""

import json

from fabric._cython.kafka.results import Fault, Topic


def load(path not None):
    """Load librdkafka from the extension module at `path`; returns why that failed, or "".

    The file is confluent_kafka's own (``confluent_kafka.cimpl.__file__``). Further calls have no
    effect.

    >>> load("/nowhere/cimpl.so")[:19] in ("", "it can't be loaded:")
    True
    """
    cdef bytes name = path.encode()
    cdef const char* at = name
    cdef string refusal
    with nogil:
        refusal = c_load(at)
    return refusal.decode("utf-8", "replace")


def version():
    """The version of librdkafka that is in use, for example ``"2.16.0"``; "" before `load`."""
    return c_version().decode()


def features():
    """The features librdkafka was built with, such as ``{"ssl", "lz4"}``; empty before `load`."""
    return frozenset(name for name in c_features().decode().split(",") if name)


cdef Settings settings_of(object settings, dict defaults) except *:
    """`settings` merged over `defaults`, as strings for librdkafka."""
    cdef Settings found
    if not c_version().size():
        raise RuntimeError("librdkafka is not loaded: call fabric.io.kafka.library.client() first")
    for name, value in {**defaults, **settings}.items():
        if not isinstance(value, str):
            raise TypeError(f"setting {name} must be a string, got {type(value).__name__}")
        found.push_back(pair[string, string](name.encode(), value.encode()))
    return found


cdef PartitionKey key_of(object topic, object partition) except *:
    return PartitionKey(topic.encode(), <int32_t> partition)


cdef int milliseconds(object seconds) except? -1:
    return max(0, min(round(seconds * 1000), (1 << 31) - 1))


cdef list faults_of(Handle* handle):
    cdef vector[CFault] taken
    with nogil:
        taken = handle.take_faults()
    return [
        Fault(one.code, one.name.decode(), one.text.decode("utf-8", "replace"), one.fatal,
              one.topic.decode(), one.partition)
        for one in taken
    ]


cdef list logs_of(Handle* handle):
    cdef vector[LogLine] taken
    with nogil:
        taken = handle.take_logs()
    return [(one.level, one.text.decode("utf-8", "replace")) for one in taken]


cdef dict statistics_of(Handle* handle):
    cdef string text
    with nogil:
        text = handle.statistics()
    return json.loads(text) if text.size() else {}


cdef dict metadata_of(Handle* handle, object topics, int timeout_ms):
    cdef vector[string] names
    cdef vector[TopicFacts] facts
    if topics is not None:
        names = [topic.encode() for topic in topics]
        if not names.size():
            return {}
    with nogil:
        facts = ask_metadata(handle[0], names, timeout_ms)
    return {
        one.name.decode(): Topic(one.name.decode(), sorted(one.partitions), one.error.decode())
        for one in facts
    }
