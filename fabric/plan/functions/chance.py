"""Functions of samples: random, poisson.

One job: their types. `random` is the one function whose answer differs from call to call
(`Function.volatile`); it only stands in what `sample` is lowered to. Its second argument tells two
samples of one plan apart, so that no rule takes them for the same.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.plan.functions.registry import Arguments, D, Function, I, Signature, takes


def _random(args: Arguments) -> Signature:
    return Signature((args.types[0], pa.int64()), pa.float64())


FUNCTIONS = (
    Function("random", (2, 2), _random,
             "a number from 0 to below 1, another for each row of a and in each run; b names it",
             constants=(1,), volatile=True),
    Function("poisson", (2, 2), takes("poisson", (D, D), I),
             "the least number of events that is more likely than a not to be exceeded, where b "
             "are expected; null outside 0 <= a < 1, 0 <= b < 2**30", total=True),
)  # fmt: skip
