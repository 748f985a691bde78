"""The agent as a process: its start, folders, memory, watchdog, metrics, and link."""
