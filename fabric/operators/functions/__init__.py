"""Users' Python functions inside a task.

trust.py            which code may be loaded: only what this fabric has signed
user_code.py        around every call: who watches, what interrupts it, what it raised
kernel.py           a function as a kernel over Arrow arrays, its answer checked
compilation.py      a scalar function compiled by Numba, and why one can't be
table_functions.py  functions of whole tables: ``map_batches``, ``map_groups``
"""
