"""Token and TLS files: read once, checked, never shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fabric.clients.spark.options import Credentials, read_credentials
from fabric.errors import AuthError, ConfigError

TLS_URL = "grpc+tls://h:1"
PEM = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FABRIC_TOKEN", raising=False)


def test_a_token_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("fab1.x.y\n")
    assert read_credentials({"token_file": str(path)}, "grpc://h:1").token == "fab1.x.y"


def test_certificates_are_read(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(PEM)
        (tmp_path / name).chmod(0o600)
    given = {f"tls_{name}": str(tmp_path / name) for name in ("ca", "cert", "key")}
    for url in (TLS_URL, "fabric://h:1"):
        found = read_credentials({**given, "token": "t"}, url)
        assert found.tls_ca == PEM.encode()
        assert found.tls_identity == (PEM.encode(), PEM.encode())
    assert (
        read_credentials({"tls_ca": PEM, "token": "t"}, "fabric+tls://h:1").tls_ca == PEM.encode()
    )
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(ConfigError, match="can be read or written by others than its owner"):
        read_credentials({**given, "token": "t"}, TLS_URL)


def test_insecure_is_said_or_not() -> None:
    assert not read_credentials({"token": "t"}, "grpc+tcp://h:1").insecure
    assert read_credentials({"token": "t", "insecure": "TRUE"}, "grpc+tcp://h:1").insecure
    with pytest.raises(ConfigError, match="must be true or false"):
        read_credentials({"token": "t", "insecure": "yes"}, "grpc+tcp://h:1")


def test_nothing_is_shown_and_all_is_sent() -> None:
    secrets = Credentials(token="s3cret", tls_ca=b"s3cret", tls_identity=(b"s3cret", b"s3cret"))
    assert "s3cret" not in repr(secrets)
    assert pickle.loads(pickle.dumps(secrets)) == secrets


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "no-pem").write_text("s3cret")
    empty, no_pem = str(tmp_path / "empty"), str(tmp_path / "no-pem")
    cases: list[tuple[dict[str, str], str, type[Exception], str]] = [
        ({"token": "a", "token_file": "b"}, TLS_URL, ConfigError, "exclude each other"),
        ({"tls_cert": "a"}, TLS_URL, ConfigError, "tls_cert and tls_key belong together"),
        ({"tls_ca": "a"}, "grpc+tcp://h:1", ConfigError, "tls_ca needs an address with TLS"),
        ({"token_file": "/nowhere"}, TLS_URL, AuthError, "token_file, '/nowhere', can't be read"),
        ({"token_file": empty}, TLS_URL, AuthError, "is empty"),
        ({"tls_ca": no_pem}, TLS_URL, AuthError, "is not in PEM format"),
    ]
    for given, url, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            read_credentials(given, url)
        assert "s3cret" not in str(caught.value)
