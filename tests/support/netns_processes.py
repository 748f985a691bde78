"""``fabric demo flights`` with its processes in network namespaces, reached by TLS.

One job: `main`, for a process of its own: the demo as it is, but for where its processes run. The
places come as JSON in `PLACES`: what commands begin with there, and the address.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from fabric.clients.cli.up import LocalProcesses
from fabric.clients.demo.flights import run

PLACES = "FABRIC_TEST_PLACES"


class NetnsProcesses(LocalProcesses):
    """The coordinator and every second agent are in the first place, the others in the second."""

    def command(self, kind: str, arguments: Sequence[str]) -> list[str]:
        """See `LocalProcesses`."""
        places = json.loads(os.environ[PLACES])
        name = arguments[arguments.index("--name") + 1] if "--name" in arguments else "1"
        inside, address = places[(int(name) + 1) % 2]
        return [*inside, *super().command(kind, [*arguments, "--host", address])]


if __name__ == "__main__":
    sys.exit(run(processes=NetnsProcesses, with_spark="--without-spark" not in sys.argv))
