"""HTTP to a schema registry: addresses, credentials, TLS, and what its answers mean.

It uses the standard library's HTTP client: `confluent_kafka.schema_registry` needs four more
packages, decodes row by row, and does not limit how long a look-up takes.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from fabric.clock import Clock
from fabric.errors import (
    AuthError,
    ConfigError,
    DataError,
    FabricError,
    NotFoundError,
    PlanError,
)

SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
Json: TypeAlias = object
ANSWER_BYTES_MAX = 16 << 20
UNKNOWN_ID, UNKNOWN_SUBJECT, UNKNOWN_VERSION = 40403, 40401, 40402


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one references: version `version` of `subject`, as `name`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Manner:
    """The HTTP parameters of every request to a registry."""

    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    context: ssl.SSLContext | None
    clock: Clock


@dataclass(frozen=True, slots=True)
class Host:
    """One address of a registry."""

    name: str
    port: int | None
    path: str
    secure: bool

    @staticmethod
    def of(url: str) -> Host:
        """The address in a URL; raises `ConfigError` for what is none."""
        shape = "the URL of a schema registry must look like http://host:8081"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigError(shape) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(shape)
        if parts.username or parts.password:
            raise ConfigError(f"{shape}, without credentials; set basic.auth.user.info instead")
        return Host(parts.hostname, port, parts.path.rstrip("/"), parts.scheme == "https")

    def ask(self, method: str, path: str, body: bytes | None, manner: Manner) -> tuple[int, bytes]:
        """Status and body of one response; follows no redirect, to protect the credentials."""
        timeout_s = manner.timeout_s
        link = (
            http.client.HTTPSConnection(
                self.name, self.port, timeout=timeout_s, context=manner.context
            )
            if self.secure
            else http.client.HTTPConnection(self.name, self.port, timeout=timeout_s)
        )
        ends = manner.clock.monotonic_s() + timeout_s
        raw = bytearray()
        try:
            link.request(method, f"{self.path}{path}", body, dict(manner.headers))
            answer = link.getresponse()
            while piece := answer.read1(1 << 16):
                raw += piece
                if len(raw) > ANSWER_BYTES_MAX:
                    raise DataError(f"the registry's response exceeds {ANSWER_BYTES_MAX} bytes")
                if manner.clock.monotonic_s() > ends:
                    raise TimeoutError("the response was not complete in time")
        except ssl.SSLCertVerificationError as error:
            raise AuthError(
                f"the certificate of the schema registry is not trusted: {error.verify_message}"
            ) from None
        finally:
            link.close()
        return answer.status, bytes(raw)


def answer_of(status: int, raw: bytes, subject: str) -> Json:
    """The JSON of a response, or the error that it reports."""
    found: Json = None
    with suppress(ValueError, RecursionError):
        found = json.loads(raw)
    if status == 200:
        if found is None:
            raise DataError("the response of the schema registry is not JSON")
        return found
    said = found if isinstance(found, dict) else {}
    code, message = said.get("error_code"), str(said.get("message", ""))[:500]
    if status in (401, 403):
        raise AuthError(f"the schema registry rejected the credentials (HTTP status {status})")
    if status == 404 and (code in (UNKNOWN_ID, UNKNOWN_SUBJECT, UNKNOWN_VERSION) or code == 404):
        raise NotFoundError(message or "the schema registry has no such schema")
    if status == 409:
        raise incompatible(subject, [message])
    if status == 422:
        raise PlanError(f"the schema registry rejected the schema for {subject!r}: {message}")
    raise DataError(f"the schema registry returned HTTP status {status}: {message or 'no reason'}")


def incompatible(subject: str, messages: Json) -> FabricError:
    """The refusal of a schema, with the reasons that the registry gives."""
    told = [str(one)[:500] for one in messages] if isinstance(messages, list) else []
    reason = "; ".join(one for one in told if one) or "no reason given"
    return PlanError(f"the schema is incompatible with subject {subject!r}: {reason}")


def body_of(kind: SchemaType, text: str, references: tuple[Reference, ...]) -> bytes:
    """The body of a request about a schema."""
    body: dict[str, Json] = {"schema": text}
    if kind != "AVRO":
        body["schemaType"] = kind
    if references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in references
        ]
    return json.dumps(body).encode()


def plain_text(error: BaseException) -> str:
    """The operating system's message, which contains neither headers nor body."""
    return str(getattr(error, "strerror", None) or error)[:200]


def seconds_of(given: Mapping[str, str], name: str, default_ms: int) -> float:
    """A setting in milliseconds, as seconds."""
    try:
        found = float(given.get(name, default_ms)) / 1000
    except ValueError:
        found = -1.0
    if found < 0:
        raise ConfigError(f"setting {name} must be a number of milliseconds")
    return found


def headers_of(given: Mapping[str, str]) -> dict[str, str]:
    """The headers of every request, with the credentials if there are any."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if "basic.auth.user.info" in given and "bearer.auth.token" in given:
        raise ConfigError("set either basic.auth.user.info or bearer.auth.token, not both")
    if user := given.get("basic.auth.user.info"):
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    if token := given.get("bearer.auth.token"):
        if not token.isascii() or not token.isprintable():
            raise ConfigError("bearer.auth.token contains characters not allowed in a header")
        headers["Authorization"] = f"Bearer {token}"
    return headers


def tls_context(given: Mapping[str, str]) -> ssl.SSLContext:
    """The trusted root certificates and the client certificate."""
    try:
        context = ssl.create_default_context(
            cafile=given.get("ssl.ca.location"), cadata=given.get("ssl.ca.pem")
        )
        certificate = given.get("ssl.certificate.pem")
        if certificate is not None:
            _load_texts(context, certificate, given.get("ssl.key.pem"), given)
        elif location := given.get("ssl.certificate.location"):
            context.load_cert_chain(
                location, given.get("ssl.key.location"), given.get("ssl.key.password")
            )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the TLS certificates for the schema registry cannot be loaded: {plain_text(error)}"
        ) from None
    return context


def _load_texts(
    context: ssl.SSLContext, certificate: str, key: str | None, given: Mapping[str, str]
) -> None:
    """Load PEM texts: OpenSSL only reads files, so write a temporary one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chain.pem")
        path.touch(0o600)
        path.write_text(certificate + "\n" + (key or ""))
        # Without a password OpenSSL would prompt on the terminal.
        context.load_cert_chain(path, password=given.get("ssl.key.password", ""))
