"""Which of several coordinators leads."""
