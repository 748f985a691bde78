"""The agent: tasks, partitions and queues of one process, and the process itself."""
