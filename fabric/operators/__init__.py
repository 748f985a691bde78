"""What runs inside a task: relational fragments, and operators on one contract."""
