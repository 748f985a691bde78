"""Processes for tasks with Python functions: a crash, a hang, a leak, a held GIL stay in the task.

    agent process                                      nursery (imports done, one thread)
    TaskRun ── SlotTask ── SlotProcess               │ forks
                  │             ╰ Channel ═ socket ═ Channel ─ worker: chain or fragment
                  ╰ Inputs, Outputs, sink              ╰─ rows in shared memory, a copy each way ─╯

slot.proto     what the two say to each other; the slot asks, the agent answers
chunks.py      memory files that one side writes and the other reads; recycled
channel.py     framed messages with the descriptors of new chunks
calls.py       which function runs since when, on a page that both see
nursery.py     the process that forks slots; spawning.py its face in the agent
worker.py      inside a slot: runs tasks; remote.py their inputs
process.py     one slot, seen from the agent; endings.py what its end means
pool.py        the slots of an agent; kept for other tasks of the same job
served.py      one task: answers its slot until it is done

Input is fetched, output partitioned and sinks written by the agent: what a task leaves behind does
not depend on how its process ends, and a user's code has neither tokens nor the fabric's secret
among what it inherits.
"""
