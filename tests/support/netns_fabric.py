"""A fabric of real processes, each in a network namespace of its own.

One job: `netns_fabric`: a `LocalFabric` whose processes reach each other, and the test them, by TLS
over the lines of a `Network`, which the test may cut: `fabric.network.partition("agent 0",
"coordinator")`.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fabric.errors import ExternalError
from tests.support.local import LocalFabric
from tests.support.netns import Network


@dataclass(slots=True)
class NetnsFabric(LocalFabric):
    """See `LocalFabric`; places of `network` are called as the processes are."""

    network: Network = field(kw_only=True)

    def place(self, name: str) -> list[str]:
        """See `LocalFabric`."""
        return self.network.inside(name)

    def listens(self, name: str) -> list[str]:
        """See `LocalFabric`."""
        return ["--host", self.network.address(name)]


@contextmanager
def netns_fabric(
    n_agents: int = 2,
    *,
    slots: int = 2,
    environ: Mapping[str, str] | None = None,
    faults: Mapping[str, str] | None = None,
) -> Iterator[NetnsFabric]:
    """A coordinator and `n_agents` agents; needs root. See `local_fabric`."""
    with Network() as network, tempfile.TemporaryDirectory(prefix="fabric-test-") as folder:
        names = ["coordinator", *(f"agent {i}" for i in range(n_agents))]
        certificate, key = make_certificate(Path(folder), [network.add(name) for name in names])
        tls = {
            "FABRIC_AGENT_TLS_CERTIFICATE": str(certificate),
            "FABRIC_AGENT_TLS_KEY": str(key),
            "FABRIC_AGENT_TLS_ROOTS": str(certificate),
            "FABRIC_COORDINATOR_TLS_CERTIFICATE": str(certificate),
            "FABRIC_COORDINATOR_TLS_KEY": str(key),
        }
        fabric = NetnsFabric(
            Path(folder) / "home",
            slots,
            environ={**tls, **(environ or {})},
            faults=dict(faults or {}),
            tls_roots=certificate.read_bytes(),
            network=network,
        )
        try:
            fabric.start(n_agents)
            yield fabric
        finally:
            fabric.stop()


def make_certificate(folder: Path, addresses: list[str]) -> tuple[Path, Path]:
    """A certificate for all of `addresses` that signs itself, and its key."""
    certificate, key = folder / "tls.pem", folder / "tls.key"
    command = [
        "openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=fabric",
        "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-addext", "subjectAltName=" + ",".join(f"IP:{address}" for address in addresses),
        "-keyout", str(key), "-out", str(certificate),
    ]  # fmt: skip
    made = subprocess.run(command, check=False, capture_output=True)
    if made.returncode:
        raise ExternalError(f"no certificate: {made.stderr.decode(errors='replace')[-500:]}")
    key.chmod(0o600)
    return certificate, key
