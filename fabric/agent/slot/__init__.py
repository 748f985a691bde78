"""Processes for tasks with Python functions: a crash, a hang, a leak, a held GIL stay in the task.

    agent process                                      forkserver (imports done, one thread)
    TaskRun ── SlotTask ── SlotProcess                 │ forks
                  │             ╰ Channel ═ socket ═ Channel ─ worker: chain or fragment
                  ╰ Inputs, Outputs, sink              ╰─ rows in shared memory, a copy each way ─╯

slot.proto       what the two say to each other; the slot asks, the agent answers
chunks.py        memory files that one side writes and the other reads; recycled
channel.py       framed messages with the descriptors of new chunks
calls.py         which function runs since when, on a page that both see
forkserver.py    the process that forks slots, and its face in the agent
pool.py          the slots of an agent; kept for other tasks of the same job
process.py       one slot, seen from the agent; supervisor.py what its end means
task.py          one bounded task: answers its slot until it is done
chain.py         the chain of a stream's task, as its agent calls it
worker.py        inside a slot: runs bounded tasks; chain_server.py the chains of streams

Input is fetched, output partitioned and sinks written by the agent: what a task leaves behind does
not depend on how its process ends, and a user's code has neither tokens nor the fabric's secret
among what it inherits.
"""
