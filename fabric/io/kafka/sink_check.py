"""The check of a Kafka target before its job starts: refuse what would surely fail later.

One job: `check_target`. It requests the topics and the longest allowed transaction from the
brokers, checks the owner of the transactional prefix, and creates the markers topic if needed.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fabric.errors import AuthError, ConfigError, ExternalError, NotFoundError, PlanError
from fabric.io.kafka.markers import Markers
from fabric.io.kafka.producers import MARGIN_S, transaction_timeout_s
from fabric.io.kafka.records import check_columns
from fabric.io.kafka.refusals import listed
from fabric.io.kafka.settings import configuration
from fabric.plan.faults import quoted
from fabric.plan.targets import KafkaTarget

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ASK_S = 15.0
_LONGEST = "transaction.max.timeout.ms"


def check_target(target: KafkaTarget, schema: pa.Schema, interval_s: float) -> None:
    """Refuse a target that rows of `schema` cannot be written to.

    Checkpoints are `interval_s` apart; 0 for a bounded input, which has none.

    Raises
    ------
    PlanError, ConfigError, NotFoundError, AuthError
        The message says what is wrong, and what to write instead.
    ExternalError
        No broker answered.
    """
    check_columns(target, schema)
    if target.guarantee != "at_least_once":
        _check_times(target, interval_s)
    settings = configuration(target)
    longest_s = _asked(settings, target)
    if target.guarantee == "at_least_once":
        return
    wanted_s = transaction_timeout_s(target)
    if longest_s is not None and wanted_s > longest_s:
        raise ConfigError(
            f"the transaction timeout of this sink is {wanted_s:g} s, and the brokers at "
            f"{target.servers} allow at most {longest_s:g} s ({_LONGEST}); increase that broker "
            "setting, or choose a shorter publish_timeout= or transaction_timeout="
        )
    markers = Markers(settings, target.markers)
    if target.transactional_prefix:
        markers.check_unclaimed(target.transactional_prefix)


def _check_times(target: KafkaTarget, interval_s: float) -> None:
    given_s, publish_s = target.transaction_timeout_s, target.publish_timeout_s
    if publish_s <= 0:
        raise ConfigError(f"publish_timeout must be positive, got {publish_s:g} s")
    if given_s and given_s < interval_s + publish_s:
        raise ConfigError(
            f"transaction_timeout={given_s:g} s is shorter than the checkpoint interval of "
            f"{interval_s:g} s plus publish_timeout={publish_s:g} s, so brokers could abort a "
            "transaction before it is committed; choose at least "
            f"{interval_s + publish_s:g} s, or leave it out to use {publish_s + MARGIN_S:g} s"
        )


def _asked(settings: dict[str, str], target: KafkaTarget) -> float | None:
    """The brokers' maximum transaction timeout, if readable; refuses a missing topic."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, ConfigResource

    faults = SimpleQueue[KafkaError]()
    given: dict[str, Any] = {**settings, "error_cb": faults.put, "log_level": 0}
    try:
        admin = AdminClient(given)
        known = listed(admin, faults, target.servers, topic=target.topic or None, timeout_s=ASK_S)
        if target.topic:
            error = known.topics[target.topic].error
            if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise NotFoundError(
                    f"there is no topic {quoted(target.topic)} at {target.servers}; create the "
                    "topic, with at least one partition per parallel consumer"
                )
        resource = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(known.brokers))))
        found = admin.describe_configs([resource], request_timeout=ASK_S)[resource]
        if target.topic and not target.key:
            _check_keyless(admin, target)
    except KafkaException as error:
        raise _refused(target, error.args[0]) from error
    try:
        return float(found.result()[_LONGEST].value) / 1000
    except (KafkaException, KeyError):  # not authorized to read it; brokers enforce it anyway
        return None


def _check_keyless(admin: AdminClient, target: KafkaTarget) -> None:
    """Refuse records without a key for a compacted topic, as brokers would."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, target.topic)
    asked = admin.describe_configs([resource], request_timeout=ASK_S)[resource]
    try:
        policy = str(asked.result()["cleanup.policy"].value)
    except (KafkaException, KeyError):  # not authorized to read it; brokers enforce it anyway
        return
    if "compact" in policy:
        raise PlanError(
            f"topic {quoted(target.topic)} is compacted (cleanup.policy={policy}) and rejects "
            'records without a key; write: key="column"'
        )


def _refused(target: KafkaTarget, fault: Any) -> AuthError | ConfigError | ExternalError:
    name, text = fault.name(), fault.str()
    if name == "_INVALID_ARG":
        return ConfigError(f"{text}; check the names and values in settings=")
    what = f"the brokers at {target.servers} cannot be queried: {text} ({name})"
    if "AUTH" in name:
        return AuthError(f"{what}; grant the user access to the topic and cluster metadata")
    return ExternalError(
        f"{what}; check servers= and that the coordinator and the agents can reach these addresses"
    )
