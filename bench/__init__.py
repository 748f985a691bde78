"""Benchmarks: one module each, with its peers in the same run (`python -m bench --list`)."""
