"""A client of a schema registry: Confluent's API, as Apicurio, Karapace and Redpanda serve it too.

One job: `Registry`. It looks up schemas by id (immutable, so cached forever) and the newest schema
of a subject, registers schemas, and checks compatibility. If the registry does not answer, a call
retries with exponential back-off and jitter for up to ``wait.ms``, logs that, and then raises a
retryable `ExternalError`: no row is lost. The caller may cancel meanwhile (`fabric.cancellation`),
even if the registry hangs. What a schema means for rows is decided in `fabric.io.codecs`.

It uses the standard library's HTTP client: `confluent_kafka.schema_registry` needs four more
packages, decodes row by row, and does not limit how long a look-up takes.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar
from urllib.parse import quote

from fabric.cancellation import check_wanted
from fabric.clock import Clock, SystemClock
from fabric.errors import (
    ConfigError,
    DataError,
    ExternalError,
    FabricError,
    NotFoundError,
)
from fabric.io.schema_registry.http import (
    Host,
    Json,
    Manner,
    Reference,
    SchemaType,
    answer_of,
    body_of,
    headers_of,
    incompatible,
    plain_text,
    seconds_of,
    tls_context,
)
from fabric.plan.places import RowFormat, Settings
from fabric.telemetry.logs import logger

_log = logger("fabric.registry")
Answer = TypeVar("Answer")
REFERENCES_MAX = 200  # schemas that one schema may reference, all levels together
FORGET_S = 10.0  # how long an unknown id is cached: it may be registered in the meantime
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
STEP_S = 0.1  # how often a waiting call checks whether it was cancelled
KNOWN = frozenset(
    (
        "basic.auth.user.info", "bearer.auth.token", "ssl.ca.pem", "ssl.ca.location",
        "ssl.certificate.pem", "ssl.certificate.location", "ssl.key.pem", "ssl.key.location",
        "ssl.key.password", "request.timeout.ms", "wait.ms",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered schema; `needed` has its references as (name, text), innermost first."""

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
        ``http://host:port[/path]``, or several separated by commas, which are tried in turn.
    settings
        Confluent's names: ``basic.auth.user.info`` (``user:password``), ``bearer.auth.token``,
        ``ssl.ca.pem|location``, ``ssl.certificate.pem|location``, ``ssl.key.pem|location``,
        ``ssl.key.password``; ``request.timeout.ms`` (10 000) for one request, and ``wait.ms``
        (60 000) for all attempts. Values are never shown.
    say
        Called with a sentence when a wait begins and when it ends well; None: the logger.
    Raises
    ------
    ConfigError
        For an unknown setting, an invalid URL, or a certificate that cannot be read.
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
            known = ", ".join(sorted(KNOWN))
            raise ConfigError(f"a schema registry has no setting {unknown[0]!r}, only {known}")
        self.url = url
        self._hosts = [Host.of(one.strip()) for one in url.split(",")]
        self._wait_s = seconds_of(given, "wait.ms", 60_000)
        self._say = say or _log.warning
        self._clock = clock or SystemClock()
        self._manner = Manner(
            headers_of(given),
            seconds_of(given, "request.timeout.ms", 10_000),
            tls_context(given) if any(host.secure for host in self._hosts) else None,
            self._clock,
        )
        self._random = random.Random()
        self._by_id: dict[int, Registered] = {}
        self._unknown: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    def schema(self, schema_id: int) -> Registered:
        """The schema with an id.

        Raises
        ------
        NotFoundError
            If the registry has no such id; looked up again after ten seconds.
        ExternalError
            If the registry did not answer in time. Other errors as for `newest`.
        """
        if (found := self._by_id.get(schema_id)) is not None:
            return found
        if self._unknown.get(schema_id, -FORGET_S) + FORGET_S > self._clock.monotonic_s():
            raise NotFoundError(f"the schema registry has no schema with id {schema_id}")
        try:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}")
        except NotFoundError:
            self._unknown[schema_id] = self._clock.monotonic_s()
            raise NotFoundError(f"the schema registry has no schema with id {schema_id}") from None
        found = self._by_id[schema_id] = self._registered(answer, schema_id)
        return found

    def newest(self, subject: str) -> Registered:
        """The newest schema of a subject.

        Raises
        ------
        NotFoundError
            If the subject does not exist.
        AuthError
            If the registry rejects the credentials.
        DataError
            If the response is not valid.
        """
        try:
            answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        except NotFoundError:
            raise NotFoundError(f"the schema registry has no subject {subject!r}") from None
        return self._registered(answer, None)

    def register(
        self, subject: str, kind: SchemaType, text: str, references: tuple[Reference, ...] = ()
    ) -> int:
        """Register a schema under `subject` unless it is registered already; returns its id.

        Raises
        ------
        PlanError
            If the registry rejects the schema as incompatible or invalid, with its reason.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        answer = self._ask("POST", path, body_of(kind, text, references), subject)
        return _integer(answer, "id")

    def check(
        self, subject: str, kind: SchemaType, text: str, references: tuple[Reference, ...] = ()
    ) -> None:
        """Refuse a schema that could not be registered under `subject`.

        Raises
        ------
        PlanError
            If the schema violates the subject's compatibility level, with the reason.
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
        try:
            answer = self._ask(
                "POST", f"{path}?verbose=true", body_of(kind, text, references), subject
            )
        except NotFoundError:  # the subject has no schema yet
            return
        if isinstance(answer, dict) and answer.get("is_compatible") is False:
            raise incompatible(subject, answer.get("messages"))

    def _registered(self, answer: Json, schema_id: int | None) -> Registered:
        """The schema in a response, with all the schemas that it references."""
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise DataError("the response of the schema registry has no schema")
        kind = answer.get("schemaType", "AVRO")
        if kind not in ("AVRO", "JSON", "PROTOBUF"):
            raise DataError(f"the schema registry returned a schema of an unknown type, {kind!r}")
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
        """Collect the texts of references into `needed`, innermost first."""
        for one in references:
            if one.name in needed:
                continue
            if one in outer or len(needed) >= REFERENCES_MAX:
                raise DataError(f"schema {one.name!r} references itself, or too many schemas")
            path = f"/subjects/{quote(one.subject, safe='')}/versions/{one.version}"
            answer = self._ask("GET", path)
            if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
                raise DataError("the response of the schema registry has no schema")
            self._need(_references(answer), needed, [*outer, one])
            needed[one.name] = answer["schema"]

    def _ask(self, method: str, path: str, body: bytes | None = None, subject: str = "") -> Json:
        """The response; retries until ``wait.ms`` have passed."""
        began, wait_s, said = self._clock.monotonic_s(), FIRST_WAIT_S, False
        while True:
            why = "no response"
            for host in self._hosts:
                try:
                    status, raw = _while_wanted(partial(host.ask, method, path, body, self._manner))
                except FabricError:  # an AuthError is an OSError too
                    raise
                except (OSError, http.client.HTTPException) as error:
                    why = f"{type(error).__name__}: {plain_text(error)}"
                    continue
                if status in (429, 500, 502, 503, 504):
                    why = f"HTTP status {status}"
                    continue
                if said:
                    self._say(f"the schema registry {self.url} responds again")
                return answer_of(status, raw, subject)
            waited_s = self._clock.monotonic_s() - began
            if waited_s >= self._wait_s:
                raise ExternalError(
                    f"the schema registry {self.url} did not respond for {waited_s:.0f} s ({why}); "
                    "check the URL and that the registry is running"
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
    """The result of `ask`, run in its own thread so that `check_wanted` can cancel the wait.

    After a cancellation the thread ends with the response, or at the request's time-out.
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


def _references(answer: dict[str, Json]) -> tuple[Reference, ...]:
    listed = answer.get("references") or []
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise DataError("the response of the schema registry has invalid references")
    return tuple(
        Reference(str(one.get("name")), str(one.get("subject")), _integer(one, "version"))
        for one in listed
    )


def _integer(answer: Json, key: str, default: int | None = None) -> int:
    found = answer.get(key, default) if isinstance(answer, dict) else None
    if not isinstance(found, int):
        raise DataError(f"the response of the schema registry has no {key!r}")
    return found


def registry_of(format: RowFormat) -> Registry:
    """The registry of `format`: the same object for the same address and credentials.

    Raises
    ------
    ConfigError
        If a setting is invalid.
    """
    return _shared(format.registry, format.registry_settings, format.registry_secrets)


@lru_cache(maxsize=64)
def _shared(url: str, settings: Settings, secrets: Settings) -> Registry:
    return Registry(url, dict(settings + secrets))
