"""Demonstrations that are also checks: each compares its answer with DuckDB's."""
