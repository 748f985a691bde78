"""The Flight server of an agent, in C++."""
