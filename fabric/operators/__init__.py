"""What runs inside a task: relational fragments, and operators on one contract.

contract.py        what every operator of a chain does, and when it is called
chain.py           a stage that runs a batch at a time
node_operators.py  which operator runs a plan node in a chain
row_operators.py   operators that know nothing of keys
streams/           operators with state by key, and windows
snapshots.py       snapshots as Arrow IPC files, by key group
fragment/          a part of a plan that DataFusion runs in one go
expressions/       expressions over Arrow arrays and in DataFusion
functions/         users' Python functions
"""
