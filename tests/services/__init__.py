"""Real servers for tests, each started by one command and gone when what started it is gone."""
