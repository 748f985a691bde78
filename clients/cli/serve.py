"""``fabric coordinator`` and ``fabric agent``: one process each, in the foreground.

One job: settings from the command line into the process's config; the processes themselves are
`coordinator/main.py` and `fabric/agent/process.py`.
"""
