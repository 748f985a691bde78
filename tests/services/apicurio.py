"""A real schema registry for tests: Apicurio, which speaks Confluent's API, all in memory.

``python -m tests.services.apicurio`` starts one and prints its address; Ctrl-C ends it.
"""

from __future__ import annotations

import http.client
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from fabric.clients.demo.services.server import Server, free_port, java_path, maven, prepared
from tests.services import STORE
from tests.services.sharing import shared

POM = Path(__file__).with_name("apicurio.xml")
_PROGRAM = "apicurio-registry-app-2.6.13.Final-runner.jar"
_JAVA = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Apicurio(Server):
    """A registry for a `with`; subjects are gone when it was stopped or killed.

    ``pause`` has it hang, ``stop`` and ``start`` take it away and bring an empty one back.
    """

    name = "apicurio"

    def __init__(self, archive: str = "") -> None:
        self._program = str(_programs() / _PROGRAM)
        self._archive = archive or f"-XX:SharedArchiveFile={_classes()}"
        super().__init__()
        self.port = free_port()

    @property
    def url(self) -> str:
        """Where Confluent's API is, for a client's ``schema.registry.url``."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @property
    def address(self) -> str:
        """The same."""
        return self.url

    def command(self) -> list[str]:
        """The JVM that is the registry."""
        where = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        return ["java", *_JAVA, self._archive, *where, "-jar", self._program]

    def answers(self) -> bool:
        """Whether it answers at its address."""
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            return False


def schema_registry() -> str:
    """The URL of this run's registry: use subjects of your own; it can't be stopped."""
    return shared("apicurio", Apicurio)


def prepare() -> None:
    """Fetch and make what registries start from, unless it is there."""
    _classes()


def _programs() -> Path:
    """The registry's program, unpacked."""

    def make(folder: Path) -> None:
        maven("-f", str(POM), "dependency:unpack", f"-DoutputDirectory={folder}")

    return prepared(STORE, "apicurio", make, POM.read_bytes())


def _classes() -> Path:
    """An archive of the classes of one start: with it, a start takes half the time."""

    def make(folder: Path) -> None:
        with Apicurio(f"-XX:ArchiveClassesAtExit={folder}/classes.jsa") as registry:
            registry.stop()

    made_for = repr((java_path(), _JAVA, str(_programs()))).encode()
    return prepared(STORE, "apicurio-classes", make, made_for) / "classes.jsa"


if __name__ == "__main__":
    with Apicurio() as started:
        sys.stdout.write(f"{started.url}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
