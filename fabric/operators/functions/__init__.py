"""Users' Python functions inside a task.

trust.py       which code may be loaded: only what this fabric has signed
kernel.py      a function as a kernel over Arrow arrays, its answer checked
compiled.py    a scalar function compiled by Numba, and why one can't be
"""
