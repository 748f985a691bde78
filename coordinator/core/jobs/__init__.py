"""The jobs, their stages and tasks, their records and their streams."""
