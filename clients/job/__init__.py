"""The handle of a running job, and what it shows of it."""
