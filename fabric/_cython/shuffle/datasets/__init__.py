"""Dataset files of one agent, read and written in C++."""
