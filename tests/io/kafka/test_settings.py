"""Settings of Kafka's client and targets: secrets, what is refused, where plans may reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.errors import ConfigError, PlanError
from fabric.io.kafka.records import check_columns
from fabric.io.kafka.settings import check_reach, configuration, is_secret, servers_of, set_apart
from fabric.io.kafka.splits import check
from fabric.io.places import Places, guarding
from fabric.plan.places import RowFormat
from fabric.plan.sources import KafkaStream
from fabric.plan.targets import KafkaTarget
from fabric.plan_rules import PlanRules
from fabric.values import Folders, Names

SOURCE = KafkaStream("broker:9092", ("t",))


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "basic.auth.user.info",
        "bearer.auth.token", "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)  # fmt: skip
def test_what_nobody_may_see(name: str) -> None:
    assert is_secret(name)
    assert set_apart({name: "x"}) == ((), ((name, "x"),))
    with pytest.raises(ConfigError, match="must be passed in secrets"):
        check(replace(SOURCE, settings=((name, "x"),)))


@pytest.mark.parametrize(
    "name",
    ["sasl.username", "ssl.ca.pem", "security.protocol", "sasl.oauthbearer.token.endpoint.url",
     "ssl.certificate.pem", "sasl.mechanism"],
)  # fmt: skip
def test_what_anybody_may(name: str) -> None:
    assert not is_secret(name)


def test_certificates_are_read_where_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("CA")
    (tmp_path / "key").write_text("KEY")
    given = {"ssl.ca.location": tmp_path / "ca", "ssl.key.location": str(tmp_path / "key")}
    assert set_apart(given) == ((("ssl.ca.pem", "CA"),), (("ssl.key.pem", "KEY"),))
    assert set_apart({"ssl.ca.location": "probe"}) == ((("ssl.ca.location", "probe"),), ())
    with pytest.raises(
        ConfigError, match=r"the file .*/no of setting 'ssl.key.location' cannot be read"
    ):
        set_apart({"ssl.key.location": str(tmp_path / "no")})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plugin.library.paths", "would run code"),
        ("error_cb", "would run code"),
        ("sasl.kerberos.kinit.cmd", "would run code"),
        ("bootstrap.servers", "use servers="),
        ("isolation.level", "use isolation="),
        ("auto.offset.reset", "use start= and on_expired="),
        ("transactional.id", "use guarantee="),
    ],
)
def test_what_is_not_for_plans(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        set_apart({name: "x"})
    with pytest.raises(ConfigError, match=text):
        configuration(replace(SOURCE, settings=((name, "x"),)))


def test_servers() -> None:
    assert servers_of("a, b:1,[::1]:2,SSL://c:3") == ["a:9092", "b:1", "[::1]:2", "c:3"]
    for wrong in ("", "a;b", "http://x:1/y", "a:b", "a:9092,,b"):
        with pytest.raises(ConfigError, match="servers must be host:port"):
            servers_of(wrong)


def test_a_configuration_has_the_secrets() -> None:
    source = replace(SOURCE, settings=(("sasl.username", "u"),), secrets=(("sasl.password", "p"),))
    found = configuration(source)
    assert (found["sasl.username"], found["sasl.password"]) == ("u", "p")
    assert found["bootstrap.servers"] == "broker:9092"


OAUTH = ("sasl.oauthbearer.token.endpoint.url", "https://login:1/x")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (replace(SOURCE, servers="broker:9092,other:9092"), "may not call other:9092"),
        (KafkaTarget("other:9092", "t"), "may not call other:9092"),
        (replace(SOURCE, value=RowFormat("avro", registry="http://other:81/x")), "other:81"),
        (replace(SOURCE, key_format=RowFormat("avro", registry="http://other:81")), "other:81"),
        (replace(SOURCE, settings=(OAUTH,)), "may not call login:1"),
        (replace(SOURCE, settings=(("ssl.ca.location", "/etc/passwd"),)), "may not touch"),
        (replace(SOURCE, secrets=(("ssl.keystore.location", "/etc/x"),)), "may not touch"),
    ],
)
def test_where_plans_may_not_reach(
    place: KafkaStream | KafkaTarget, text: str, tmp_path: Path
) -> None:
    rules = PlanRules(
        allowed_hosts=Names("broker, registry"), allowed_folders=Folders(str(tmp_path))
    )
    check_reach(place)
    with guarding(Places(rules)):
        check_reach(SOURCE)
        with pytest.raises(PlanError, match=text):
            check_reach(place)
        with pytest.raises(PlanError, match=text):
            configuration(place)


@pytest.mark.parametrize("url", ["http://ada:secret@h:1", "ftp://h", "h:8081", "http://"])
def test_a_registry_s_address_holds_no_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"user or password|must be a URL") as caught:
        check_reach(replace(SOURCE, value=RowFormat("avro", registry=url)))
    assert "secret" not in str(caught.value)


def test_what_is_run_end_encoded_is_no_topic_and_no_raw_key() -> None:
    """The writer decodes dictionaries alone."""
    runs = pa.run_end_encoded(pa.int32(), pa.string())
    schema = pa.schema([("a", runs), ("d", pa.dictionary(pa.int8(), pa.string()))])
    check_columns(KafkaTarget("broker:9092", topic_column="d", key=("d",), columns=("d",)), schema)
    with pytest.raises(PlanError, match='column "a" cannot be the topic of a record'):
        check_columns(KafkaTarget("broker:9092", topic_column="a"), schema)
    with pytest.raises(PlanError, match="a raw key must be string or binary"):
        check_columns(KafkaTarget("broker:9092", "t", key=("a",)), schema)
