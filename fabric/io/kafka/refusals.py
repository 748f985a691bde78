"""Rejected credentials, certificates and rights: what means that, for how long, what users read.

One job: `refusal`, and `Admission`, which finds out whether a rejection lasts. librdkafka treats no
rejection as final: it reconnects forever, and reports the same error again after 30 seconds (of a
broker) or never (of a partition). So whoever hears of a rejection, or waits in vain, has the
brokers asked by a new client each time, to which everything is reported. Starting brokers reject
clients, too, until they have loaded their users: only what lasts is an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from fabric.errors import AuthError
from fabric.io.kafka.settings import Place, configuration
from fabric.plan.sources import KafkaStream
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

REFUSED_S = 8.0
"""How long brokers may reject the client before that is an error."""
ASK_AGAIN_S, _UNANSWERED_S = 1.0, 30.0
"""The delay between two questions whether they still do; the longest delay while they answer that
they do not, but the records do not arrive either."""
NO_RIGHT = "TOPIC_AUTHORIZATION_FAILED"
MENDABLE = (NO_RIGHT, "_AUTHENTICATION")
"""In an error: `Admission` finds out whether it lasts."""
_CREDENTIALS = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
_TLS = ("_SSL",)
_ALERT = "SSL alert"
"""In a transport error: the broker rejected the client's certificate, or requires one."""
_ANSWER_S, _LISTED_S, _STEP_S = 10.0, 1.0, 0.1
_log = logger("fabric.kafka")


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


class Admission:
    """Whether the brokers of `place` accept the client, and its use of topics; thread-safe."""

    def __init__(self, place: Place) -> None:
        self._place, self._lock = place, threading.Lock()
        self._since_s: float | None = None
        self._due_s, self._pause_s = 0.0, ASK_AGAIN_S

    @property
    def is_refused(self) -> bool:
        """Whether some broker rejected the client when they were last asked."""
        return self._since_s is not None

    def ask(self, topics: Collection[str], go_on: Callable[[], None] = lambda: None) -> bool:
        """Whether all brokers accept the client now, and its use of `topics`; takes seconds.

        False: some reject it, do not answer, or were asked moments ago: call again. `go_on` raises
        to end the question.

        Raises
        ------
        AuthError
            They have rejected it for `REFUSED_S`, whenever they were asked.
        """
        with self._lock:
            if time.monotonic() < self._due_s:
                return False
            try:
                is_in = _is_in(self._place, topics, go_on)
            except AuthError as error:
                self._due_s, self._pause_s = time.monotonic() + ASK_AGAIN_S, ASK_AGAIN_S
                self.heard(error.with_traceback(None))  # whose frames would keep the client
                return False
            self._since_s = None
            self._pause_s = min(_UNANSWERED_S, 2 * self._pause_s)
            self._due_s = time.monotonic() + self._pause_s
            return is_in

    def settle(self) -> None:
        """The wait was successful: forget the rejection, and allow the next question at once."""
        self._since_s, self._due_s, self._pause_s = None, 0.0, ASK_AGAIN_S

    def heard(self, error: AuthError) -> None:
        """Note a rejection; raises `error` once they have lasted for `REFUSED_S`."""
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = now_s
            _log.warning("Kafka rejects the client", servers=self._place.servers, why=error.message)
        if now_s - self._since_s >= REFUSED_S:
            raise error


def listed(
    admin: AdminClient,
    faults: SimpleQueue[KafkaError],
    servers: str,
    *,
    topic: str | None,
    timeout_s: float,
    go_on: Callable[[], None] = lambda: None,
) -> Any:
    """The brokers and topics that `admin` lists; its `error_cb` puts errors into `faults`.

    Raises
    ------
    AuthError
        A broker rejects the client; raised at once, even if other brokers would still answer.
    KafkaException
        No broker answers.
    """
    from confluent_kafka import KafkaException

    end_s, fault = time.monotonic() + timeout_s, None
    while True:
        go_on()
        fault = _check(admin, faults, servers) or fault
        try:
            return admin.list_topics(topic, timeout=_LISTED_S)
        except KafkaException as error:
            if time.monotonic() >= end_s:  # the client's own error says more, as why it is away
                raise error if fault is None else KafkaException(fault) from error


def _check(
    admin: AdminClient, faults: SimpleQueue[KafkaError], servers: str, wait_s: float = 0.0
) -> KafkaError | None:
    """Raise a rejection that `admin` reports; returns its last other fault."""
    admin.poll(wait_s)
    fault: KafkaError | None = None
    while not faults.empty():
        fault = faults.get()
        if error := refusal(fault.name(), fault.str(), servers):
            raise error
    return fault


def _is_in(place: Place, topics: Collection[str], go_on: Callable[[], None]) -> bool:
    """Send each broker a request that it answers to every authenticated client."""
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient, ConfigResource

    faults = SimpleQueue[Any]()
    given: dict[str, Any] = {**configuration(place), "error_cb": faults.put, "log_level": 0}
    admin, servers = AdminClient(given), place.servers
    try:
        known = listed(
            admin, faults, servers, topic=_topic_of(place), timeout_s=_ANSWER_S, go_on=go_on
        )
    except KafkaException:
        return False

    def answered(asked: dict[Any, Any]) -> bool:
        end_s = time.monotonic() + _ANSWER_S
        while not all(answer.done() for answer in asked.values()):
            if time.monotonic() >= end_s:
                return False
            go_on()
            _check(admin, faults, servers, _STEP_S)
        return True

    if topics:
        rights = admin.describe_topics(
            TopicCollection(sorted(topics)),
            include_authorized_operations=True,
            request_timeout=_ANSWER_S,
        )
        if not answered(rights):
            return False
        for topic in topics:
            _check_right(place, topic, rights[topic])
    asked: dict[Any, Any] = {}
    for broker in known.brokers:  # one request each: it is sent to the broker that it names
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
        asked |= admin.describe_configs([resource], request_timeout=_ANSWER_S)
    return answered(asked) and all(map(_is_answer, asked.values()))


def _topic_of(place: Place) -> str | None:
    """One of the topics, so that brokers need not list all of theirs."""
    topics = place.topics if isinstance(place, KafkaStream) else (place.topic,)
    return next(filter(None, topics), None)


def _is_answer(asked: Any) -> bool:
    """A refusal to answer counts, too; negative error codes are the client's own."""
    return asked.exception() is None or int(asked.exception().args[0].code()) > 0


def _check_right(place: Place, topic: str, asked: Any) -> None:
    """Raise if the user may not read (or write to) the topic; a missing topic is not a refusal."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AclOperation

    reads = isinstance(place, KafkaStream)
    wanted = AclOperation.READ if reads else AclOperation.WRITE
    try:
        rights = asked.result().authorized_operations
        why = "" if rights is None or wanted in rights else NO_RIGHT
    except KafkaException as error:
        why = error.args[0].name()
    if why == NO_RIGHT:
        raise AuthError(
            f"the user is not authorized to {'read' if reads else 'write to'} topic {topic!r} at "
            f"{place.servers} ({why}); grant {wanted.name} on the topic to the user"
        )
