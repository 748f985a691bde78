"""Pipelined edges between agents: credits over DoExchange, in C++."""
