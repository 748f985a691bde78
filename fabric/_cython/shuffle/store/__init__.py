"""Materialised partitions of one agent, in C++."""
