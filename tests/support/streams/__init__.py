"""Sources of streams with oracles of their own, for the contract suites."""
