"""The command line: no secret stands on it, and it refuses to send one in the clear."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fabric.clients.cli.main import main
from fabric.clients.cli.options import read_token
from fabric.clients.cli.up import LocalProcesses
from fabric.config import FabricHome
from fabric.errors import AuthError, ConfigError
from fabric.security.tokens import Signer
from tests.support.certificates import Issuer

TOKEN = Signer(b"s" * 32).token("read", "ann", 60.0, 1000.0)
FAR = ["--connect", "fabric://192.0.2.7:1"]
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "command",
    [["jobs"], ["jobs", "list"], ["jobs", "show", "j"], ["agents"], ["datasets"], ["top", "--once"],
     ["checkpoints", "list", "j"], ["run"], ["explain"]],
)  # fmt: skip
def test_no_command_takes_a_token_as_it_is(
    command: list[str], tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "job.py"
    file.write_text("")
    last = [str(file)] if command[0] in ("run", "explain") else []
    assert main([*command, "--connect", "fabric://127.0.0.1:1", "--token", TOKEN, *last]) == 1
    said = capsys.readouterr().err
    assert "--token takes a file that holds the token, or - for stdin, not the token" in said
    assert not any(part in said for part in TOKEN.split("."))


def test_a_token_comes_from_a_file_or_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(str(file)) == TOKEN
    monkeypatch.setattr("sys.stdin", io.StringIO(f" {TOKEN}\n"))
    assert read_token("-") == TOKEN
    with pytest.raises(AuthError, match="stdin is empty"):
        read_token("-")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(AuthError, match="it holds no token"):
        read_token(str(file))
    with pytest.raises(AuthError, match=r"can't read the token file .*gone: No such file"):
        read_token(str(tmp_path / "gone"))
    assert read_token("") == ""


def test_a_token_goes_nowhere_in_the_clear_unless_told(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    there = [*FAR, "--token", str(file)]
    assert main(["jobs", *there]) == 1
    assert "refusing to send a token to 192.0.2.7 in the clear" in capsys.readouterr().err


def test_insecure_reaches_the_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    asked: list[bool] = []

    def connect(_: str, *, token: str, insecure: bool) -> None:
        asked.append(insecure)
        raise AuthError(f"seen {len(token)}")

    monkeypatch.setattr("fabric.clients.session.connect.connect", connect)
    for words in (["--insecure", "jobs"], ["jobs", "--insecure"], ["jobs"]):
        assert main([*words, *FAR, "--token", str(file)]) == 1
    assert asked == [True, True, False]


# ---- fabric up


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("tls"))


def settings(monkeypatch: pytest.MonkeyPatch, section: str, pair: tuple[Path, Path]) -> None:
    for name, path in zip(("CERTIFICATE", "KEY"), pair, strict=True):
        monkeypatch.setenv(f"FABRIC_{section}_TLS_{name}", str(path))


@pytest.mark.parametrize("one", ["COORDINATOR", "AGENT"])
def test_up_wants_tls_for_all(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str
) -> None:
    settings(monkeypatch, one, issuer.make("one"))
    lacks = "AGENT" if one == "COORDINATOR" else "COORDINATOR"
    with pytest.raises(ConfigError, match=rf"set FABRIC_{lacks}_TLS_CERTIFICATE and FABRIC_"):
        LocalProcesses(FabricHome(tmp_path), 0)


def test_up_checks_certificates_before_anything_starts(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = issuer.make("up")
    key.chmod(0o644)
    for section in ("COORDINATOR", "AGENT"):
        settings(monkeypatch, section, (certificate, key))
    with pytest.raises(ConfigError, match="can be read or written by others"):
        LocalProcesses(FabricHome(tmp_path), 0)
    key.chmod(0o600)
    monkeypatch.setenv("FABRIC_AGENT_TLS_ROOTS", str(issuer.roots))
    local = LocalProcesses(FabricHome(tmp_path), 7123, rest_port="7124")
    assert local.address == "grpc+tls://127.0.0.1:7123"
    assert local.url == "fabric+tls://127.0.0.1:7123"
    assert local.pages() == ["  pages   https://127.0.0.1:7124 (REST: /docs)"]
    assert local.way.roots == issuer.roots
    monkeypatch.setenv("FABRIC_COORDINATOR_HOST", "0.0.0.0")
    assert LocalProcesses(FabricHome(tmp_path), 7123).address == "grpc+tls://127.0.0.1:7123"
    monkeypatch.setenv("FABRIC_COORDINATOR_ADVERTISE", "fabric.example.org")
    assert LocalProcesses(FabricHome(tmp_path), 7123).url == "fabric+tls://fabric.example.org:7123"
