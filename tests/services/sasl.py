"""A real Kafka that wants to know who connects: passwords, tokens, client certificates.

``python -m tests.services.sasl`` starts one and prints its listeners; Ctrl-C ends it.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from fabric.clients.demo.services.server import free_port
from tests.services.kafka import KafkaBroker
from tests.services.topics import WAIT_S
from tests.support.certificates import Issuer

USER, PASSWORD = "ada", "kept-from-everybody"
ASKED_AGAIN_S = 5.0
"""So long a session by SCRAM goes on without the password."""
_GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",  # brokers, and tests
}
_LOGIN = "org.apache.kafka.common.security"


class SaslBroker(KafkaBroker):
    """A broker for a `with`, like `own_broker`, with three listeners.

    - `servers`: as any other, for the test itself.
    - `sasl_servers`: SASL_SSL for PLAIN, SCRAM-SHA-512 and OAUTHBEARER (unsecured tokens).
    - `ssl_servers`: SSL, which wants a certificate of the client (mTLS).
    """

    def __init__(self) -> None:
        self._sasl_port, self._ssl_port = free_port(), free_port()
        super().__init__(_GUARDED)
        issuer = Issuer(self.folder / "certificates")
        names = ("IP:127.0.0.1", "DNS:localhost")
        self.roots = issuer.roots
        self.certificate, self.key = issuer.make("client")
        self.other_roots = Issuer(self.folder / "other").roots
        self.expired = issuer.make("expired", ends=timedelta(hours=-1))
        certificate, key = issuer.make("broker", names)
        store = self.folder / "broker.pem"
        store.write_text(key.read_text() + certificate.read_text() + issuer.roots.read_text())

    @property
    def sasl_servers(self) -> str:
        """The address of the listener with SASL."""
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def ssl_servers(self) -> str:
        """The address of the listener with client certificates."""
        return f"127.0.0.1:{self._ssl_port}"

    def sasl(self, mechanism: str, password: str = PASSWORD, user: str = USER) -> dict[str, str]:
        """A client's settings for `sasl_servers`; OAUTHBEARER has a token for `USER`."""
        found = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.roots),
            "sasl.mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            return found | {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={USER} scope=all",
            }
        return found | {"sasl.username": user, "sasl.password": password}

    def mtls(self) -> dict[str, str]:
        """A client's settings for `ssl_servers`."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.roots),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
        }

    def wait(self) -> None:
        """Wait until it answers, and until it knows the user for SCRAM."""
        super().wait()
        self.set_password(USER, PASSWORD)

    def set_password(self, user: str, password: str) -> None:
        """Have SCRAM let in a user, who need not be there yet, with this password alone.

        Whoever is in with another one is asked again `ASKED_AGAIN_S` after he came, or before.
        """
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        admin = self.admin()
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(WAIT_S)

    def forbid(self, user: str, operation: AclOperation, *topics: str) -> None:
        """From now on the user may not do that with these topics; others may."""
        given = [binding(topic, user, operation) for topic in topics]
        given += [binding(topic, "*", AclOperation.ALL) for topic in topics]
        admin = self.admin()
        for done in admin.create_acls(given).values():
            done.result(WAIT_S)

    def allow(self, user: str, operation: AclOperation, *topics: str) -> None:
        """Take back `forbid`."""
        admin = self.admin()
        filters = [binding(topic, user, operation, AclBindingFilter) for topic in topics]
        for done in admin.delete_acls(filters).values():
            assert done.result(WAIT_S), "there was nothing to take back"

    def listeners(self) -> dict[str, str]:
        """The settings that say where it listens, and how."""
        at = f"PLAINTEXT://{self.servers},SASL_SSL://{self.sasl_servers},SSL://{self.ssl_servers}"
        sasl, ssl = "listener.name.sasl_ssl", "listener.name.ssl"
        return {
            "listeners": f"{at},{self.controller()}",
            "advertised.listeners": at,
            "listener.security.protocol.map": ",".join(
                f"{name}:{name if name != 'CONTROLLER' else 'PLAINTEXT'}"
                for name in ("PLAINTEXT", "SASL_SSL", "SSL", "CONTROLLER")
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / "broker.pem"),
            f"{sasl}.scram-sha-512.connections.max.reauth.ms": str(round(ASKED_AGAIN_S * 1000)),
            f"{ssl}.ssl.client.auth": "required",
            f"{ssl}.ssl.truststore.type": "PEM",
            f"{ssl}.ssl.truststore.location": str(self.folder / "certificates" / "roots.pem"),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            f"{sasl}.plain.sasl.jaas.config": (
                f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            ),
            f"{sasl}.scram-sha-512.sasl.jaas.config": (
                f"{_LOGIN}.scram.ScramLoginModule required;"
            ),
            f"{sasl}.oauthbearer.sasl.jaas.config": (
                f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="broker";'
            ),
        }


def binding(topic: str, user: str, operation: AclOperation, kind: Any = AclBinding) -> Any:
    """A rule for one topic: everybody (``*``) may do that, a user may not."""
    how = AclPermissionType.ALLOW if user == "*" else AclPermissionType.DENY
    pattern = ResourcePatternType.LITERAL
    return kind(ResourceType.TOPIC, topic, pattern, f"User:{user}", "*", operation, how)


def sasl_broker() -> SaslBroker:
    """A broker with SASL_SSL and mTLS beside PLAINTEXT, for a `with`, which starts it."""
    return SaslBroker()


if __name__ == "__main__":
    with sasl_broker() as started:
        sys.stdout.write(f"SASL_SSL {started.sasl_servers} {started.sasl('PLAIN')}\n")
        sys.stdout.write(f"SSL {started.ssl_servers} {started.mtls()}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
