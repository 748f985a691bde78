"""Which task runs where, and which runs again."""
