"""Real servers for tests, each started by one command and gone when what started it is gone."""

from pathlib import Path

STORE = Path(__file__).resolve().parent.parent.parent / "build" / "services"
"""What they are made of: jars, and what each start begins with."""
