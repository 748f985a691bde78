"""Pipelined edges inside an agent: lock-free rings of batches, in C++."""
