"""Writing to the outside: aside first, published by the coordinator's word.

One job: the sink protocol and its dispatch by target. A task opens a writer, writes, and `prepare`s
a durable handle; when all tasks have, one agent `publish`es all handles, or `abandon`s them; those
of an attempt that another one followed are `drop`ped. What a stream published with a checkpoint
that was damaged is taken back (`take_back`). All of it may be repeated.
"""
