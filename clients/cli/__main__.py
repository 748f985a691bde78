"""``python -m fabric.clients.cli``: the command ``fabric``."""

from fabric.clients.cli.main import entry

entry()
