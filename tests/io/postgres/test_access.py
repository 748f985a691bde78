"""Addresses of databases: taken apart, kept secret, and held to where plans may go."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from fabric.errors import AuthError, ConfigError, PlanError, StorageAwayError, StorageError
from fabric.io import places
from fabric.io.postgres.access import check_place, conninfo, parameters_of
from fabric.io.postgres.session import Session
from fabric.io.sinks import postgres as sink
from fabric.plan import plan_pb2 as pb
from fabric.plan.targets import TARGETS, PostgresTarget
from fabric.plan.wire.fields import read_place, write_place
from fabric.plan_rules import PlanRules
from tests.support.certificates import Issuer
from tests.support.postgres import PostgresServer

DSN = "postgresql://ann:gehe1m@db.example:5433/sales?application_name=me"


def test_an_address_and_its_secrets_lie_apart() -> None:
    settings, secrets = parameters_of(DSN, environ={"PGPASSWORD": "other"})
    assert secrets == (("password", "gehe1m"),)
    assert dict(settings) == {
        "application_name": "me", "dbname": "sales", "host": "db.example", "port": "5433",
        "sslmode": "verify-full", "user": "ann",
    }  # fmt: skip
    target = PostgresTarget("t", settings=settings, secrets=secrets)
    assert "gehe1m" not in repr(target)
    assert read_place(write_place(target, pb.Target()), TARGETS, "") == target


def test_a_password_comes_from_the_call_or_the_surroundings_of_the_program() -> None:
    bare = "host=localhost user=ann dbname=d"
    assert parameters_of(bare, environ={"PGPASSWORD": "p"})[1] == (("password", "p"),)
    assert parameters_of(bare, "q", environ={"PGPASSWORD": "p"})[1] == (("password", "q"),)
    assert parameters_of(bare, environ={})[1] == ()


@pytest.mark.parametrize(
    ("dsn", "message"),
    [
        ("nonsense", "not a valid connection string"),
        ("postgresql://ann:gehe1m@[::1/x", "not a valid connection string"),
        ("", "not a valid connection string"),
        ("host=localhost user=gehe1m", "dsn has no dbname"),
        ("dbname=d user=gehe1m", "dsn has no host"),
        ("postgresql://localhost/d", "dsn has no user"),
        ("postgresql://a@localhost/d?options=-c%20x", "unknown parameters: options"),
        ("postgresql://a@localhost/d?service=x", "unknown parameters: service"),
    ],
)
def test_what_is_no_address_is_refused_without_showing_it(dsn: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        parameters_of(dsn, environ={})
    assert "gehe1m" not in str(error.value)


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_nothing_goes_in_the_clear_to_other_machines_unless_asked(mode: str) -> None:
    dsn = f"postgresql://ann:gehe1m@db.example/sales?sslmode={mode}"
    with pytest.raises(AuthError, match=r"in the clear.*insecure=True") as error:
        parameters_of(dsn)
    assert "gehe1m" not in str(error.value)
    settings, secrets = parameters_of(dsn, insecure=True)
    assert dict(settings)["sslmode"] == mode
    with pytest.raises(AuthError, match="in the clear"):  # a plan of another client
        check_place(PostgresTarget("t", settings=settings, secrets=secrets))
    assert parameters_of("postgresql://a@db.example/d?sslmode=require", environ={})
    assert parameters_of("postgresql://a@127.0.0.1/d?sslmode=disable", environ={})
    assert "sslmode" not in dict(parameters_of("postgresql://a@[::1]/d", environ={})[0])


def test_nothing_of_an_agents_own_surroundings_is_used(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    passes = tmp_path / "passes"
    passes.write_text("*:*:*:*:agents-own\n")
    passes.chmod(0o600)
    for name, value in {
        "PGPASSWORD": "agents-own", "PGPASSFILE": str(passes), "PGOPTIONS": "-c search_path=evil",
        "PGAPPNAME": "evil", "PGDATABASE": "evil", "PGPORT": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    target = PostgresTarget("t", settings=postgres.settings())
    with Session(target, patience_s=0) as session:
        info = session.connection.info
        assert info.password == ""
        assert session.ask("SHOW search_path") == [("",)]
        assert session.ask("SHOW application_name") == [("fabric",)]
    assert "agents-own" not in conninfo(target)


def test_plans_reach_allowed_hosts_and_files_alone(tmp_path: Path) -> None:
    own = places.Places(PlanRules(allowed_hosts=("db.example:5432",)), [tmp_path], [])
    allowed = PostgresTarget("t", settings=parameters_of(DSN.replace(":5433", ""))[0])
    with places.guarding(own):
        check_place(allowed)
        with pytest.raises(PlanError, match=r"plans may not call .*5433"):
            check_place(PostgresTarget("t", settings=parameters_of(DSN)[0]))
        local = parameters_of(f"host={tmp_path} user=postgres dbname=d", environ={})[0]
        with pytest.raises(PlanError, match="sockets know agents"):
            check_place(PostgresTarget("t", settings=local))
        for name in ("sslrootcert", "sslkey", "passfile"):
            settings = (*allowed.settings, (name, str(tmp_path / "secret")))
            with pytest.raises(PlanError, match="may not touch"):
                check_place(PostgresTarget("t", settings=settings))
        with pytest.raises(PlanError, match="unknown parameters: options"):
            check_place(PostgresTarget("t", settings=(*allowed.settings, ("options", "-c x"))))


def answered(server: socket.socket) -> None:
    """As a server of web pages does."""
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            with client:
                client.recv(8)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_who_listens_where_is_not_told(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing there, and something that is no database: the same sentence. A database may speak."""
    monkeypatch.setattr(sink, "CHECK_S", 0.1)
    schema = pa.schema([("a", pa.int8())])
    address = "postgresql://a:gehe1m@127.0.0.1:{}/nothing"
    with (
        places.guarding(places.Places(PlanRules(), [tmp_path], [])),
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        threading.Thread(target=answered, args=(other,), daemon=True).start()
        for port in (1, other.getsockname()[1]):
            settings = parameters_of(address.format(port))[0]
            with pytest.raises(StorageAwayError, match=r"no database at .*/nothing answered wit"):
                sink.check_target(PostgresTarget("t", settings=settings), schema)
        settings = postgres.settings("nothing")
        with pytest.raises(Exception, match='database "nothing" does not exist'):
            sink.check_target(PostgresTarget("t", settings=settings), schema)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """Its folder is one that the server's user may look into; pytest's own it may not."""
    with tempfile.TemporaryDirectory(prefix="fabric-tls-") as folder:
        Path(folder).chmod(0o755)
        yield Issuer(Path(folder) / "ours")


def test_rows_go_by_tls_to_the_right_server_alone(issuer: Issuer, tmp_path: Path) -> None:
    certificate, key = issuer.make("server", ("DNS:localhost",))
    if os.getuid() == 0:
        shutil.chown(key, "postgres", "postgres")
    lines = f"ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n"
    schema = pa.schema([("a", pa.int64())])
    with PostgresServer(settings=lines) as server:
        for host, roots, message in (
            ("localhost", issuer.roots, ""),
            ("localhost", Issuer(tmp_path / "other").roots, "certificate verify failed"),
            ("127.0.0.1", issuer.roots, "does not match"),
        ):
            dsn = f"postgresql://postgres@{host}:{server.port}/postgres?sslmode=verify-full"
            settings = parameters_of(f"{dsn}&sslrootcert={roots}", environ={})[0]
            target = PostgresTarget("t", settings=settings)
            if message:
                with pytest.raises(StorageError, match=message) as error:
                    sink.check_target(target, schema)
                assert not error.value.retryable
                continue
            sink.check_target(target, schema)
            with Session(target, patience_s=0) as session:
                used = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
                assert session.ask(used) == [(True,)]


def test_what_is_committed_is_on_disk(postgres: PostgresServer) -> None:
    """Whatever the role's own settings are, unless they are stricter."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        for own, used in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
            connection.execute(f"ALTER ROLE postgres SET synchronous_commit = {own}".encode())
            target = PostgresTarget("t", settings=postgres.settings())
            with Session(target, patience_s=0) as session:
                assert session.ask("SHOW synchronous_commit") == [(used,)]
        connection.execute("ALTER ROLE postgres RESET synchronous_commit")
    assert os.environ.get("PGHOST") is None
