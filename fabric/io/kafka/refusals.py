"""Who is kept out of Kafka: which faults of a client mean that, and what users are told.

One job: `refusal`. librdkafka takes none of these for an end: it connects again, for ever, so
whoever asks brokers for something has to look at each fault.
"""

from __future__ import annotations

from fabric.errors import AuthError

_CREDENTIALS = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
_TLS = ("_SSL",)
_ALERT = "SSL alert"
"""In a fault of the transport: the broker refused the client's certificate, or wants one."""


def refusal(name: str, text: str, servers: str) -> AuthError | None:
    """The error that a fault is, if it is one of credentials or certificates.

    >>> refusal("_SSL", "certificate verify failed", "kafka:9093")
    AuthError('no TLS connection with kafka:9093: certificate verify failed; check \
security.protocol, ssl.ca.location, and certificate and key where the brokers ask for them')
    >>> refusal("_TRANSPORT", "Disconnected", "kafka:9093")
    """
    if name in _CREDENTIALS:
        return AuthError(
            f"{servers} refused the credentials: {text}; check sasl.mechanism, sasl.username and "
            "the password"
        )
    if name in _TLS or (name == "_TRANSPORT" and _ALERT in text):
        return AuthError(
            f"no TLS connection with {servers}: {text}; check security.protocol, ssl.ca.location, "
            "and certificate and key where the brokers ask for them"
        )
    return None
