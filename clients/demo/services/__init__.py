"""Servers of others that the demo starts, and tests too: each ends with whoever started it."""
