"""The db-benchmark's tables and questions (H2O.ai, DuckDB Labs), asked of every engine.

data.py     the tables, made once and kept as Arrow IPC files
sql.py      the questions in SQL, for DuckDB and DataFusion
frames.py   the same in Polars, Daft and Fabric
runs.py     an engine ready for one question
"""
