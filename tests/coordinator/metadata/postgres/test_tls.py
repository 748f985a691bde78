"""How the database is reached: whose certificate is taken, and which addresses are refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fabric.coordinator.metadata.postgres.address import parameters_of, shown
from fabric.coordinator.metadata.postgres.database import Database
from fabric.coordinator.metadata.postgres.store import PostgresStore
from fabric.errors import ConfigError, StorageError
from tests.support.postgres import PostgresServer


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """One for the host `name`, signed by itself, and its key."""
    pem, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-addext", f"subjectAltName=DNS:{name}", "-newkey", "ec",
            "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", key, "-out", pem,
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return pem, key


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One that the server's user may look into; pytest's own it may not."""
    made = Path(tempfile.mkdtemp(prefix="fabric-tls-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def secure(folder: Path) -> Iterator[PostgresServer]:
    """A server with a certificate for "localhost"."""
    pem, key = certificate(folder, "localhost")
    if os.getuid() == 0:
        shutil.chown(key, "postgres", "postgres")
    settings = f"ssl = on\nssl_cert_file = '{pem}'\nssl_key_file = '{key}'\n"
    with PostgresServer(settings=settings) as server:
        Database(server.url()).migrate()
        yield server


def url(server: PostgresServer, host: str, roots: Path) -> str:
    """Its address with full checks."""
    where = f"postgresql://postgres@{host}:{server.port}/postgres"
    return f"{where}?sslmode=verify-full&sslrootcert={roots}"


def test_the_servers_certificate_and_name_are_checked(secure: PostgresServer, folder: Path) -> None:
    store = PostgresStore(Database(url(secure, "localhost", folder / "localhost.pem")))
    store.open()
    store.next_epoch()
    store.apply([])
    encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl"
    assert secure.execute(encrypted) != [(0,)]
    store.close()


def test_a_stranger_and_another_name_are_refused(secure: PostgresServer, folder: Path) -> None:
    stranger, _ = certificate(folder, "stranger")
    for host, roots in (("localhost", stranger), ("127.0.0.1", folder / "localhost.pem")):
        with pytest.raises(StorageError, match=r"certificate|SSL") as caught:
            Database(url(secure, host, roots)).open()
        assert not caught.value.retryable


def test_a_server_without_tls_is_not_talked_to_in_the_clear(postgres: PostgresServer) -> None:
    with pytest.raises(StorageError, match="SSL"):
        Database(postgres.url() + "?sslmode=verify-full").open()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u@db.example/d",
        "postgresql://u@10.0.0.1:5432/d",
        "postgresql://u@/d?host=db.example",
        "postgresql://u@localhost,db.example/d",
        "postgresql://u@localhost/d?hostaddr=10.0.0.1",
    ],
)
def test_another_machine_needs_full_checks(address: str) -> None:
    assert parameters_of(address, {})["sslmode"] == "verify-full"
    joined = address + ("&" if "?" in address else "?")
    for mode in ("disable", "prefer", "require", "verify-ca"):
        with pytest.raises(ConfigError, match=f"sslmode={mode} does not check whom"):
            parameters_of(f"{joined}sslmode={mode}", {})


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:///d",
        "postgresql://u@localhost/d",
        "postgresql://u@127.0.0.1:1/d",
        "postgresql://u@[::1]/d",
        "postgresql:///d?host=/run/postgresql",
    ],
)
def test_this_machine_needs_none(address: str) -> None:
    assert "sslmode" not in parameters_of(address, {})


def test_variables_of_libpq_do_not_open_a_door() -> None:
    for name in ("PGHOST", "PGHOSTADDR"):
        assert parameters_of("postgresql:///d", {name: "10.0.0.1"})["sslmode"] == "verify-full"
    with pytest.raises(ConfigError, match="can't be a service"):
        parameters_of("postgresql:///d", {"PGSERVICE": "x"})
    with pytest.raises(ConfigError, match="can't be a service"):
        parameters_of("postgresql:///d?service=x", {})


@pytest.mark.parametrize("address", ["", "mysql://x/y", "dbname=x", "postgresql://[", "x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigError, match="metadata must be empty or an address such as"):
        parameters_of(address, {})


def test_passwords_are_neither_taken_nor_shown() -> None:
    for address in ("postgresql://u:hunter2@h/d", "postgresql://u@h/d?password=hunter2"):
        with pytest.raises(ConfigError, match="PGPASSFILE") as caught:
            parameters_of(address, {})
        assert "hunter2" not in str(caught.value)
    assert shown({"user": "u", "host": "h", "password": "hunter2"}) == "postgresql://u@h/"
