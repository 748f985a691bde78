"""``python -m fabric.clients.cli``: the command ``fabric``."""

import sys

from fabric.clients.cli.main import main

sys.exit(main())
