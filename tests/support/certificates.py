"""Certificates as tests want them: of any host and time, signed by whomever.

One job: `Issuer`, made by openssl's command in a test's folder.
"""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fabric.errors import ExternalError

_CONFIG = """
[ca]
default_ca = ours
[ours]
new_certs_dir = {folder}
database = {folder}/index
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
"""


class Issuer:
    """Signs certificates; `roots` is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index").write_text("")
        (folder / "config").write_text(_CONFIG.format(folder=folder))
        self.roots, self._key = folder / "roots.pem", folder / "roots.key"
        _openssl(
            "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=issuer", *_EC,
            "-keyout", self._key, "-out", self.roots, "-config", folder / "config",
            "-addext", "basicConstraints=critical,CA:TRUE",
        )  # fmt: skip

    def make(
        self,
        name: str,
        hosts: tuple[str, ...] = ("IP:127.0.0.1",),
        *,
        begins: timedelta = timedelta(days=-1),
        ends: timedelta = timedelta(days=1),
    ) -> tuple[Path, Path]:
        """A certificate for `hosts` and its key, valid between two times from now."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        asked, names = self._folder / f"{name}.csr", self._folder / f"{name}.names"
        names.write_text(f"subjectAltName={','.join(hosts)}\nbasicConstraints=CA:FALSE\n")
        config = ("-config", self._folder / "config")
        _openssl("req", "-new", "-nodes", "-subj", f"/CN={name}", *_EC, *config,
                 "-keyout", key, "-out", asked)  # fmt: skip
        now = datetime.now(UTC)
        first, last = (f"{now + moved:%Y%m%d%H%M%SZ}" for moved in (begins, ends))
        _openssl(
            "ca", "-batch", "-notext", *config, "-in", asked, "-out", certificate,
            "-cert", self.roots, "-keyfile", self._key, "-extfile", names,
            "-startdate", first, "-enddate", last,
        )  # fmt: skip
        key.chmod(0o600)
        return certificate, key


_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def _openssl(*arguments: str | Path) -> None:
    made = subprocess.run(["openssl", *map(str, arguments)], check=False, capture_output=True)
    if made.returncode:
        raise ExternalError(f"no certificate: {made.stderr.decode(errors='replace')[-800:]}")
