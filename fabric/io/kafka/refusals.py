"""Rejected credentials and certificates: which client errors mean that, and what users read.

One job: `refusal`. librdkafka treats none of these errors as final and reconnects forever, so every
caller that waits for brokers has to check each error.
"""

from __future__ import annotations

from fabric.errors import AuthError

_CREDENTIALS = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
_TLS = ("_SSL",)
_ALERT = "SSL alert"
"""In a transport error: the broker rejected the client's certificate, or requires one."""


def refusal(name: str, text: str, servers: str) -> AuthError | None:
    """The `AuthError` for a client error about credentials or certificates; None for any other.

    >>> refusal("_SSL", "certificate verify failed", "kafka:9093")
    AuthError('the TLS connection to kafka:9093 failed: certificate verify failed; check \
security.protocol, ssl.ca.location, and the client certificate and key if the brokers require them')
    >>> refusal("_TRANSPORT", "Disconnected", "kafka:9093")
    """
    if name in _CREDENTIALS:
        return AuthError(
            f"the brokers at {servers} rejected the credentials: {text}; check sasl.mechanism, "
            "sasl.username and sasl.password"
        )
    if name in _TLS or (name == "_TRANSPORT" and _ALERT in text):
        return AuthError(
            f"the TLS connection to {servers} failed: {text}; check security.protocol, "
            "ssl.ca.location, and the client certificate and key if the brokers require them"
        )
    return None
