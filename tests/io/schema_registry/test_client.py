"""The registry's client against a real registry, and against one that is away or hostile."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fabric.cancellation import asking
from fabric.errors import (
    AuthError,
    CancelledError,
    ConfigError,
    DataError,
    ExternalError,
    NotFoundError,
    PlanError,
)
from fabric.io.schema_registry.client import Reference, Registry, registry_of
from fabric.plan.places import RowFormat
from tests.io.kafka.scripted import scripted
from tests.services.apicurio import Apicurio, schema_registry
from tests.support.certificates import Issuer


def record(*fields: Any, name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


A = {"name": "a", "type": "long"}
B = {"name": "b", "type": "string"}
B_OR_NOT = {"name": "b", "type": "string", "default": ""}


def test_schemas_are_registered_found_and_kept() -> None:
    registry, subject = Registry(schema_registry()), f"s-{uuid4()}"
    registry.check(subject, "AVRO", record(A))  # the first of its subject
    first = registry.register(subject, "AVRO", record(A))
    assert registry.register(subject, "AVRO", record(A)) == first
    second = registry.register(subject, "AVRO", record(A, B_OR_NOT))
    assert json.loads(registry.schema(first).text)["fields"] == [A]
    newest = registry.newest(subject)
    assert (newest.id, newest.kind, newest.version) == (second, "AVRO", 2)
    assert registry.schema(first) is registry.schema(first)


def test_what_is_incompatible_is_refused_with_the_registrys_words() -> None:
    registry, subject = Registry(schema_registry()), f"s-{uuid4()}"
    registry.register(subject, "AVRO", record(A))
    set_rule(subject, "BACKWARD")
    registry.check(subject, "AVRO", record(A, B_OR_NOT))
    with pytest.raises(PlanError, match=f"is incompatible with subject '{subject}'"):
        registry.check(subject, "AVRO", record(A, B))
    with pytest.raises(PlanError, match=f"is incompatible with subject '{subject}'"):
        registry.register(subject, "AVRO", record(A, B))
    assert registry.newest(subject).version == 1


def set_rule(subject: str, rule: str) -> None:
    Registry(schema_registry())._ask(
        "PUT", f"/config/{subject}", json.dumps({"compatibility": rule}).encode()
    )


def test_references_come_with_what_they_refer_to() -> None:
    registry, key = Registry(schema_registry()), str(uuid4())
    inner = record(A, name="In")
    middle = record({"name": "i", "type": "In"}, name="Mid")
    registry.register(f"in-{key}", "AVRO", inner)
    to_inner = (Reference("In", f"in-{key}", 1),)
    registry.register(f"mid-{key}", "AVRO", middle, to_inner)
    outer = record({"name": "m", "type": "Mid"}, name="Out")
    to_middle = (Reference("Mid", f"mid-{key}", 1),)
    found = registry.schema(registry.register(f"out-{key}", "AVRO", outer, to_middle))
    assert [name for name, _ in found.needed] == ["In", "Mid"]
    assert found.references == to_middle


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("JSON", '{"type": "object", "properties": {"a": {"type": "integer"}}}'),
        ("PROTOBUF", 'syntax = "proto3"; message M { int64 a = 1; }'),
    ],
)
def test_other_schemas_keep_their_type(kind: Any, text: str) -> None:
    registry, subject = Registry(schema_registry()), f"s-{uuid4()}"
    found = registry.schema(registry.register(subject, kind, text))
    assert found.kind == kind
    assert registry.newest(subject).kind == kind


def test_what_is_not_there_is_said_and_asked_again_later() -> None:
    registry = Registry(schema_registry())
    for _ in range(2):
        with pytest.raises(NotFoundError, match="no schema with id 99999999"):
            registry.schema(99999999)
    with pytest.raises(NotFoundError, match="no subject 'nobody'"):
        registry.newest("nobody")


def test_a_read_waits_for_a_registry_that_is_away() -> None:
    said: list[str] = []
    with Apicurio() as server:
        schema_id = Registry(server.url).register("s", "AVRO", record(A))
        registry = Registry(server.url, {"wait.ms": "300000"}, say=said.append)
        server.stop()
        found: list[Any] = []
        reader = threading.Thread(target=lambda: found.append(fetched(registry, schema_id)))
        reader.start()
        while not said:
            time.sleep(0.01)
        assert not found
        server.start()
        other = Registry(server.url)
        while other.register("s", "AVRO", record(A)) < schema_id:  # an empty one came back
            other.register("s", "AVRO", record(A, {"name": f"f{uuid4().hex}", "type": "int"}))
        reader.join(120)
    assert not isinstance(found[0], ExternalError)
    assert said[0].startswith("waiting for the schema registry")
    assert said[-1].endswith("responds again")


def fetched(registry: Registry, schema_id: int) -> Any:
    """What a reader finds; it asks again for an id that is not there yet."""
    while True:
        try:
            return registry.schema(schema_id)
        except NotFoundError:
            registry._unknown.clear()
        except ExternalError as error:
            return error


def nobody() -> str:
    """A URL where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_wait_ends_with_an_error_that_may_be_retried() -> None:
    registry = Registry(nobody(), {"wait.ms": "200", "basic.auth.user.info": "ada:s3cret"})
    with pytest.raises(
        ExternalError, match=r"did not respond for .*Refused.*check the URL"
    ) as caught:
        registry.schema(1)
    assert caught.value.retryable
    assert "s3cret" not in f"{caught.value!r} {registry!r} {registry._manner!r}"


@pytest.mark.parametrize("hangs", [False, True], ids=["away", "hangs"])
def test_a_wait_ends_when_nobody_wants_the_answer(hangs: bool) -> None:
    """A registry that hangs accepts the connection, and would be waited for ten seconds."""
    given_up = threading.Event()

    def wanted() -> None:
        if given_up.is_set():
            raise CancelledError("the job was cancelled")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}" if hangs else nobody()
        registry = Registry(url, {"request.timeout.ms": "600000"}, say=lambda _: given_up.set())
        accepted: list[socket.socket] = []

        def accept() -> None:
            accepted.append(listener.accept()[0])
            given_up.set()

        if hangs:
            threading.Thread(target=accept).start()
        with asking(wanted), pytest.raises(CancelledError, match="the job was cancelled"):
            registry.schema(1)
        for connection in accepted:
            connection.close()


GOOD = (200, json.dumps({"schema": '"string"'}).encode())


def test_a_registry_that_is_overloaded_is_asked_again() -> None:
    with scripted((503, b""), (429, b"{}"), GOOD) as server:
        assert Registry(server.url).schema(1).text == '"string"'
        assert len(server.seen) == 3


def test_only_a_registry_with_a_trusted_certificate_is_asked(tmp_path: Path) -> None:
    ours, others = (Issuer(tmp_path / name) for name in ("ours", "others"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*ours.make("registry"))
    with scripted(GOOD, tls=tls) as server:
        roots = {"ssl.ca.pem": ours.roots.read_text(), "wait.ms": "0"}
        assert Registry(server.url, roots).schema(1).text == '"string"'
        assert Registry(server.url, {"ssl.ca.location": str(ours.roots)}).schema(1).id == 1
        with pytest.raises(AuthError, match="certificate of the schema registry is not trusted"):
            Registry(server.url, {"ssl.ca.location": str(others.roots), "wait.ms": "0"}).schema(1)
    tls.load_verify_locations(ours.roots)
    tls.verify_mode = ssl.CERT_REQUIRED
    certificate, key = (path.read_text() for path in ours.make("client"))
    shown = roots | {"ssl.certificate.pem": certificate, "ssl.key.pem": key}
    with scripted(GOOD, tls=tls) as server:
        assert Registry(server.url, shown).schema(1).id == 1
        with pytest.raises(ExternalError):
            Registry(server.url, roots).schema(1)
    with pytest.raises(ConfigError, match="certificates for the schema registry cannot be loaded"):
        Registry("https://h", {"ssl.ca.pem": "none"})


def test_the_next_address_is_asked_when_one_is_away() -> None:
    with scripted(GOOD) as server:
        assert Registry(f"{nobody()}, {server.url}").schema(1).kind == "AVRO"


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        ((401, b"{}"), AuthError, "rejected the credentials"),
        ((403, b"no"), AuthError, "rejected the credentials"),
        ((302, b""), DataError, "HTTP status 302"),
        ((200, b"<html>"), DataError, "not JSON"),
        ((200, b"[" * 100_000), DataError, "not JSON"),
        ((200, b"[]"), DataError, "has no schema"),
        ((200, b'{"schema": "x", "schemaType": "XML"}'), DataError, "'XML'"),
        ((200, b'{"schema": "x", "references": 7}'), DataError, "references"),
        ((400, b'{"error_code": 1, "message": "why"}'), DataError, "400: why"),
    ],
)
def test_odd_answers_are_errors_by_name(
    answer: tuple[int, bytes], error: type[Exception], text: str
) -> None:
    settings = {"bearer.auth.token": "t0ken", "wait.ms": "0"}
    with scripted(answer) as server:
        with pytest.raises(error, match=text) as caught:
            Registry(server.url, settings).schema(1)
        assert server.seen[0]["Authorization"] == "Bearer t0ken"
    assert len(server.seen) == 1
    assert "t0ken" not in repr(caught.value)


def test_an_endless_circle_of_references_ends() -> None:
    circle = {"schema": "x", "references": [{"name": "n", "subject": "s", "version": 1}]}
    with (
        scripted((200, json.dumps(circle).encode())) as server,
        pytest.raises(DataError, match="schema 'n' references itself"),
    ):
        Registry(server.url).schema(1)


def test_settings_that_mean_nothing_are_refused_without_their_values() -> None:
    for settings in (
        {"basic.auth.user.info": "ada:s3cret", "bearer.auth.token": "s3cret"},
        {"bearer.auth.token": "s3cret\r\nX: y"},
        {"s3cret.name": "s3cret"},
        {"wait.ms": "s3cret"},
    ):
        with pytest.raises(ConfigError) as caught:
            Registry("http://h", settings)
        assert "s3cret" not in str(caught.value).replace("s3cret.name", "")
    with pytest.raises(ConfigError, match="without credentials"):
        Registry("http://ada:pw@h")
    with pytest.raises(ConfigError, match="like http://"):
        Registry("ftp://h")


def test_formats_of_one_address_share_a_registry() -> None:
    one = RowFormat("avro", registry="http://h:1", registry_secrets=(("bearer.auth.token", "t"),))
    assert registry_of(one) is registry_of(one)
    assert registry_of(one) is not registry_of(RowFormat("avro", registry="http://h:1"))
