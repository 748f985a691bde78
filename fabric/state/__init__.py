"""Keyed state of streaming tasks: one protocol, backends in memory and on disk."""
