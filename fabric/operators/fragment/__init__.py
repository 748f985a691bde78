"""A relational part of a plan, run by DataFusion in one go.

run.py            execute_fragment: batches out, errors as ours, stopped from any thread
session.py        the DataFusion session of one fragment, and what it may use
lower.py          nodes to data frames; these have files of their own:
                  aggregate.py (aggregates/, pieces.py), join.py, sort.py (ranges.py), over/
scan.py           splits and stage inputs to tables; arrow_dataset.py for rows that are pulled
relation.py       a data frame under user names; floats.py makes floats equal as Spark does
size.py           how many rows nodes have; sum_bounds.py: how large sums can become
order.py          the order of rows by machine words
failure.py        what DataFusion raised, as an error of ours
"""

from fabric.operators.fragment.run import FragmentStream, execute_fragment

__all__ = ["FragmentStream", "execute_fragment"]
