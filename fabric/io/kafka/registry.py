"""A client of a schema registry: Confluent's API, as Apicurio, Karapace and Redpanda serve it too.

One job: `Registry`. Schemas by id, which never change and are kept for ever; the newest of a
subject; registering, and asking whether a schema would be compatible. When the registry does not
answer, a call waits with exponential back-off and jitter up to ``wait.ms``, says so, and then
raises an `ExternalError` that may be retried: no row is lost for it. Whoever asks may give up
meanwhile (`fabric.wanted`), also while a registry hangs. What schemas mean for rows is
`fabric.io.kafka.registered`'s.

It speaks HTTP by the standard library. `confluent_kafka.schema_registry` brings four packages more,
decodes row by row, and keeps no bound on how long a look-up takes; what is needed here is five
requests, one for each schema of a topic's life.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

from fabric.clock import Clock, SystemClock
from fabric.errors import (
    AuthError,
    ConfigError,
    DataError,
    ExternalError,
    FabricError,
    NotFoundError,
    PlanError,
)
from fabric.plan.sources import RowFormat, Settings
from fabric.telemetry.logs import logger
from fabric.wanted import check_wanted

_log = logger("fabric.registry")
SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
Json: TypeAlias = object
Answer = TypeVar("Answer")

ANSWER_BYTES_MAX = 16 << 20
REFERENCES_MAX = 200  # schemas that one schema may need, all levels together
FORGET_S = 10.0  # how long an id stays unknown: it may be registered in the meantime
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
STEP_S = 0.1  # how often a caller who waits hears that nobody wants the answer any more
KNOWN = frozenset(
    (
        "basic.auth.user.info", "bearer.auth.token", "ssl.ca.pem", "ssl.ca.location",
        "ssl.certificate.pem", "ssl.certificate.location", "ssl.key.pem", "ssl.key.location",
        "ssl.key.password", "request.timeout.ms", "wait.ms",
    )
)  # fmt: skip
UNKNOWN_ID, UNKNOWN_SUBJECT, UNKNOWN_VERSION = 40403, 40401, 40402


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one names: version `version` of `subject`, under `name`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema of a registry; `needed`: the texts of its references by name, inner ones first."""

    id: int
    kind: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    needed: tuple[tuple[str, str], ...] = ()
    subject: str = ""
    version: int = 0


class Registry:
    """One registry, for any number of threads.

    Parameters
    ----------
    url
        ``http://host:port[/path]``, or several between commas: the next is asked when one is away.
    settings
        Confluent's names: ``basic.auth.user.info`` (``user:password``), ``bearer.auth.token``,
        ``ssl.ca.pem|location``, ``ssl.certificate.pem|location``, ``ssl.key.pem|location``,
        ``ssl.key.password``; ``request.timeout.ms`` (10 000) of one answer, and ``wait.ms``
        (60 000) for a registry that is away. Values are in no message.
    say
        Called with a sentence when a wait begins and when it ended well; None: it is logged.
    Raises
    ------
    ConfigError
        For an unknown setting, a URL that is none, a certificate that can't be read.
    """

    def __init__(
        self,
        url: str,
        settings: Mapping[str, str] | None = None,
        *,
        say: Callable[[str], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        given = dict(settings or {})
        if unknown := sorted(set(given) - KNOWN):
            raise ConfigError(f"unknown setting {unknown[0]!r} of a schema registry")
        self.url = url
        self._hosts = [_Host.of(one.strip()) for one in url.split(",")]
        self._wait_s = _seconds(given, "wait.ms", 60_000)
        self._say = say or _log.warning
        self._clock = clock or SystemClock()
        self._manner = _Manner(
            _authorization(given),
            _seconds(given, "request.timeout.ms", 10_000),
            _tls(given) if any(host.secure for host in self._hosts) else None,
            self._clock,
        )
        self._random = random.Random()
        self._by_id: dict[int, Registered] = {}
        self._unknown: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    def schema(self, schema_id: int) -> Registered:
        """The schema of an id.

        Raises
        ------
        NotFoundError
            If the registry has no such id; it is asked again after ten seconds.
        ExternalError
            If the registry did not answer in time. Other errors as of `newest`.
        """
        if (found := self._by_id.get(schema_id)) is not None:
            return found
        if self._unknown.get(schema_id, -FORGET_S) + FORGET_S > self._clock.monotonic_s():
            raise NotFoundError(f"the schema registry has no schema {schema_id}")
        try:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}")
        except NotFoundError:
            self._unknown[schema_id] = self._clock.monotonic_s()
            raise NotFoundError(f"the schema registry has no schema {schema_id}") from None
        found = self._by_id[schema_id] = self._registered(answer, schema_id)
        return found

    def newest(self, subject: str) -> Registered:
        """The newest schema of a subject.

        Raises
        ------
        NotFoundError
            If the subject has none.
        AuthError
            If the registry refuses the credentials.
        DataError
            If what it answers is not what the API says.
        """
        try:
            answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        except NotFoundError:
            raise NotFoundError(f"the schema registry has no subject {subject!r}") from None
        return self._registered(answer, None)

    def register(
        self, subject: str, kind: SchemaType, text: str, references: tuple[Reference, ...] = ()
    ) -> int:
        """The id of a schema, which becomes the newest of its subject if it was not there.

        Raises
        ------
        PlanError
            If the registry refuses it as incompatible or invalid, with its reason.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        answer = self._ask("POST", path, _body(kind, text, references), subject)
        return _integer(answer, "id")

    def check(
        self, subject: str, kind: SchemaType, text: str, references: tuple[Reference, ...] = ()
    ) -> None:
        """Refuse a schema that could not be registered under `subject`, with the reason.

        Raises
        ------
        PlanError
            If it is not compatible with what the subject has, by the subject's own rule.
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
        try:
            answer = self._ask(
                "POST", f"{path}?verbose=true", _body(kind, text, references), subject
            )
        except NotFoundError:  # the first of its subject
            return
        if isinstance(answer, dict) and answer.get("is_compatible") is False:
            raise _incompatible(subject, answer.get("messages"))

    def _registered(self, answer: Json, schema_id: int | None) -> Registered:
        """What an answer says, with all that it refers to."""
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise DataError("the schema registry answered without a schema")
        kind = answer.get("schemaType", "AVRO")
        if kind not in ("AVRO", "JSON", "PROTOBUF"):
            raise DataError(f"the schema registry has a schema of an unknown type, {kind!r}")
        references = _references(answer)
        needed: dict[str, str] = {}
        self._need(references, needed, [])
        found_id = _integer(answer, "id") if schema_id is None else schema_id
        return Registered(
            found_id, kind, answer["schema"], references, tuple(needed.items()),
            str(answer.get("subject", "")), _integer(answer, "version", 0),
        )  # fmt: skip

    def _need(
        self, references: tuple[Reference, ...], needed: dict[str, str], outer: list[Reference]
    ) -> None:
        """Gather the texts of references, those that they need before them."""
        for one in references:
            if one.name in needed:
                continue
            if one in outer or len(needed) >= REFERENCES_MAX:
                raise DataError(f"schema {one.name!r} of the registry refers to itself, or too far")
            path = f"/subjects/{quote(one.subject, safe='')}/versions/{one.version}"
            answer = self._ask("GET", path)
            if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
                raise DataError("the schema registry answered without a schema")
            self._need(_references(answer), needed, [*outer, one])
            needed[one.name] = answer["schema"]

    def _ask(self, method: str, path: str, body: bytes | None = None, subject: str = "") -> Json:
        """The answer, after as many tries as `wait_s` has room for."""
        began, wait_s, said = self._clock.monotonic_s(), FIRST_WAIT_S, False
        while True:
            why = "nothing answered"
            for host in self._hosts:
                try:
                    status, raw = _while_wanted(partial(host.ask, method, path, body, self._manner))
                except FabricError:  # an AuthError is an OSError too
                    raise
                except (OSError, http.client.HTTPException) as error:
                    why = f"{type(error).__name__}: {_plain(error)}"
                    continue
                if status in (429, 500, 502, 503, 504):
                    why = f"it answered {status}"
                    continue
                if said:
                    self._say(f"the schema registry {self.url} answers again")
                return _answer(status, raw, subject)
            waited_s = self._clock.monotonic_s() - began
            if waited_s >= self._wait_s:
                raise ExternalError(
                    f"the schema registry {self.url} did not answer for {waited_s:.0f} s ({why}); "
                    "is it running?"
                )
            if not said:
                self._say(f"waiting for the schema registry {self.url} ({why})")
                said = True
            self._pause(wait_s * self._random.uniform(0.5, 1.0))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _pause(self, wait_s: float) -> None:
        until_s = self._clock.monotonic_s() + wait_s
        while (rest_s := until_s - self._clock.monotonic_s()) > 0:
            check_wanted()
            time.sleep(min(rest_s, STEP_S))


def _while_wanted(ask: Callable[[], Answer]) -> Answer:
    """What `ask` answers, in a thread of its own, so that a caller can give up: see `check_wanted`.

    Given up, the thread ends with the answer, or at the time-out of one.
    """
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="schema registry", daemon=True).start()
    while not wait((answer,), STEP_S).done:
        check_wanted()
    return answer.result()


@dataclass(frozen=True, slots=True)
class _Manner:
    """How a registry is asked."""

    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    context: ssl.SSLContext | None
    clock: Clock


@dataclass(frozen=True, slots=True)
class _Host:
    """One address of a registry."""

    name: str
    port: int | None
    path: str
    secure: bool

    @staticmethod
    def of(url: str) -> _Host:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigError("a schema registry is a URL as http://host:port") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("a schema registry is a URL as http://host:port")
        if parts.username or parts.password:
            raise ConfigError(
                "the URL of a schema registry holds a password; give it apart from it"
            )
        return _Host(parts.hostname, port, parts.path.rstrip("/"), parts.scheme == "https")

    def ask(self, method: str, path: str, body: bytes | None, manner: _Manner) -> tuple[int, bytes]:
        """Status and body of one answer; no redirect is followed, for the credentials' sake."""
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
                    raise DataError(f"the schema registry answers over {ANSWER_BYTES_MAX} bytes")
                if manner.clock.monotonic_s() > ends:
                    raise TimeoutError("its answer did not end in time")
        except ssl.SSLCertVerificationError as error:
            raise AuthError(
                f"the certificate of the schema registry is not trusted: {error.verify_message}"
            ) from None
        finally:
            link.close()
        return answer.status, bytes(raw)


def _answer(status: int, raw: bytes, subject: str) -> Json:
    """What the registry says, or an error for it."""
    found: Json = None
    with suppress(ValueError, RecursionError):
        found = json.loads(raw)
    if status == 200:
        if found is None:
            raise DataError("the schema registry answered with something that is not JSON")
        return found
    said = found if isinstance(found, dict) else {}
    code, message = said.get("error_code"), str(said.get("message", ""))[:500]
    if status in (401, 403):
        raise AuthError(f"the schema registry refused the credentials ({status})")
    if status == 404 and (code in (UNKNOWN_ID, UNKNOWN_SUBJECT, UNKNOWN_VERSION) or code == 404):
        raise NotFoundError(message or "the schema registry does not have it")
    if status == 409:
        raise _incompatible(subject, [message])
    if status == 422:
        raise PlanError(f"the schema registry refused the schema for {subject!r}: {message}")
    raise DataError(f"the schema registry answered {status}: {message or 'no reason given'}")


def _incompatible(subject: str, messages: Json) -> FabricError:
    told = [str(one)[:500] for one in messages] if isinstance(messages, list) else []
    reason = "; ".join(one for one in told if one) or "it gave no reason"
    return PlanError(
        f"the schema is not compatible with subject {subject!r}, says the schema registry: {reason}"
    )


def _body(kind: SchemaType, text: str, references: tuple[Reference, ...]) -> bytes:
    body: dict[str, Json] = {"schema": text}
    if kind != "AVRO":
        body["schemaType"] = kind
    if references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in references
        ]
    return json.dumps(body).encode()


def _references(answer: dict[str, Json]) -> tuple[Reference, ...]:
    listed = answer.get("references") or []
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise DataError("the schema registry answered with references that are none")
    return tuple(
        Reference(str(one.get("name")), str(one.get("subject")), _integer(one, "version"))
        for one in listed
    )


def _integer(answer: Json, key: str, default: int | None = None) -> int:
    found = answer.get(key, default) if isinstance(answer, dict) else None
    if not isinstance(found, int):
        raise DataError(f"the schema registry answered without {key!r}")
    return found


def _plain(error: BaseException) -> str:
    """The system's words: no header and no body is in them."""
    return str(getattr(error, "strerror", None) or error)[:200]


def _seconds(given: Mapping[str, str], name: str, default_ms: int) -> float:
    try:
        found = float(given.get(name, default_ms)) / 1000
    except ValueError:
        found = -1.0
    if found < 0:
        raise ConfigError(f"{name} is a number of milliseconds")
    return found


def _authorization(given: Mapping[str, str]) -> dict[str, str]:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if "basic.auth.user.info" in given and "bearer.auth.token" in given:
        raise ConfigError("give basic.auth.user.info or bearer.auth.token, not both")
    if user := given.get("basic.auth.user.info"):
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    if token := given.get("bearer.auth.token"):
        if not token.isascii() or not token.isprintable():
            raise ConfigError("bearer.auth.token holds what no header may")
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    """The roots to trust and the certificate to show."""
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
            f"the certificates for the schema registry can't be used: {_plain(error)}"
        ) from None
    return context


def _load_texts(
    context: ssl.SSLContext, certificate: str, key: str | None, given: Mapping[str, str]
) -> None:
    """OpenSSL's door takes files: they lie in a folder of ours only while it reads them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "chain.pem")
        path.touch(0o600)
        path.write_text(certificate + "\n" + (key or ""))
        # Without a password OpenSSL would ask at the terminal.
        context.load_cert_chain(path, password=given.get("ssl.key.password", ""))


def registry_of(format: RowFormat) -> Registry:
    """The registry that `format` names: the same object for the same address and credentials.

    Raises
    ------
    ConfigError
        If a setting is wrong.
    """
    return _shared(format.registry, format.registry_settings, format.registry_secrets)


@lru_cache(maxsize=64)
def _shared(url: str, settings: Settings, secrets: Settings) -> Registry:
    return Registry(url, dict(settings + secrets))
