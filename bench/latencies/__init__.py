"""What the engines of bench `latency` share, and the peer: Flink.

rows.py           percentiles of the rows that a reader saw, each of them checked
windows.py        what a fabric costs while few rows flow in windows
flink_engine.py   Flink in a process of its own, and the reader of its rows
Latency.java      the job
"""
