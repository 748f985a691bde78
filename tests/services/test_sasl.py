"""The Kafka that wants to know who connects."""

from __future__ import annotations

from confluent_kafka import KafkaError, Producer

from tests.services.sasl import sasl_broker
from tests.support.wait import wait_until


def test_who_is_let_in() -> None:
    with sasl_broker() as broker:
        topic = broker.new_topic()
        for servers, settings in (
            (broker.sasl_servers, broker.sasl("PLAIN")),
            (broker.sasl_servers, broker.sasl("SCRAM-SHA-512")),
            (broker.sasl_servers, broker.sasl("OAUTHBEARER")),
            (broker.ssl_servers, broker.mtls()),
        ):
            producer = Producer({"bootstrap.servers": servers, **settings})
            producer.produce(topic, b"v")
            assert producer.flush(60) == 0
        errors: list[KafkaError] = []
        wrong = broker.sasl("PLAIN", "wrong")
        servers = broker.sasl_servers
        refused = Producer(
            {"bootstrap.servers": servers, "error_cb": errors.append, "log_level": 0, **wrong}
        )
        wait_until(lambda: refused.poll(0.1) or errors)
        assert errors[0].code() == KafkaError._AUTHENTICATION
        assert len(broker.records(topic)) == 4
