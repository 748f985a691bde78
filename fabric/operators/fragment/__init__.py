"""A relational part of a plan, run by DataFusion in one go.

run.py       execute_fragment: batches out, errors as ours, stopped from any thread
session.py   the DataFusion session of one fragment
lower.py     nodes to data frames; aggregate.py and join.py for the two large ones
scan.py      splits and stage inputs to tables; streams.py for what can't be held at once
relation.py  a data frame under user names; keys.py makes floats equal as Spark does
"""

from fabric.operators.fragment.run import FragmentStream, execute_fragment

__all__ = ["FragmentStream", "execute_fragment"]
