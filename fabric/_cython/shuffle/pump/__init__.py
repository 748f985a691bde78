"""Streams from and to other agents, in C++."""
