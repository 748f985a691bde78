"""librdkafka's errors as Fabric's, by who can fix them and whether a retry may help."""

from __future__ import annotations

from fabric.errors import (
    AuthError,
    BrokerError,
    ConfigError,
    DataError,
    FabricError,
    NotFoundError,
    ProducerFencedError,
)

# rd_kafka_resp_err_t: negative ones are the client's own, the others the protocol's.
INVALID_ARG = -186
MSG_SIZE_TOO_LARGE = 10
FENCED = frozenset({-144, 47, 90})  # _FENCED, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
DENIED = frozenset({-169, 29, 30, 31, 33, 34, 53, 58})  # rejected credentials, denied by ACLs
MAY_NOT_ASK = frozenset({29, 31})  # TOPIC_ and CLUSTER_AUTHORIZATION_FAILED
REFUSED = {
    32: "the record's timestamp is too far from the broker's clock; check the topic's "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms, or leave out timestamp=",
    44: "a policy of the broker forbids the record",
    87: "a compacted topic rejects records without a key; set key=, and filter out rows whose key "
    "is null",
}
"""INVALID_TIMESTAMP, POLICY_VIOLATION, INVALID_RECORD: records that brokers always reject."""
UNKNOWN = frozenset({-188, -190, 3, 100})  # the topic or partition does not exist
AGAIN = frozenset(
    {
        -195,
        -193,
        -192,
        -187,
        -185,
        -184,
        -180,
        -168,
        5,
        6,
        7,
        8,
        9,
        13,
        14,
        15,
        16,
        19,
        20,
        51,
        56,
        89,
    }
)
"""Unreachable brokers, leader changes and time-outs: a retry may help."""


def error_of(
    code: int,
    name: str,
    text: str,
    *,
    fatal: bool = False,
    retryable: bool = False,
    requires_abort: bool = False,
    row: int = -1,
) -> FabricError:
    """The exception for librdkafka's error `name`.

    >>> error_of(-195, "_TRANSPORT", "no broker answered").retryable
    True
    >>> type(error_of(58, "SASL_AUTHENTICATION_FAILED", "wrong password")).__name__
    'AuthError'
    """
    named = f"{text} ({name})" if name and name not in text else text
    if code in FENCED:
        return ProducerFencedError(named, code=code, name=name, retryable=False)
    if code in DENIED:
        return AuthError(named)
    if code in UNKNOWN:
        return NotFoundError(named)
    if code in REFUSED:
        return DataError(f"{named}; {REFUSED[code]}")
    if code == INVALID_ARG and not row >= 0:
        return ConfigError(f"{text}; check the names and values in settings=")
    if code == MSG_SIZE_TOO_LARGE:
        return RowTooLargeError(named, row=row)
    again = (retryable or code in AGAIN) and not fatal
    return BrokerError(named, code=code, name=name, retryable=again, requires_abort=requires_abort)


class RowTooLargeError(DataError):
    """A row exceeds the topic's limit; `row` is its index, or -1 if a broker rejected it."""

    def __init__(self, message: str, *, row: int = -1) -> None:
        super().__init__(message)
        self.row = row
