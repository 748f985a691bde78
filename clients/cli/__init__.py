"""The command ``fabric``: start a fabric, run files on it, look at jobs."""
