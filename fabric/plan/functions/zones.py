"""Times of other zones: from_utc_timestamp to_utc_timestamp replace_time_zone.

One job: their types; which zones there are is in `fabric.plan.zones`. Spark's timestamps have no
zone of their own: for its two functions what a clock in a zone shows is a timestamp in UTC that
reads like it. `replace_time_zone` is Polars' and gives the type the zone.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.dates import STAMP, time_type
from fabric.plan.functions.registry import Arguments, Function, Signature, wrong_type
from fabric.plan.types import is_string
from fabric.plan.zones import no_zone

AMBIGUOUS = ("raise", "earliest", "latest", "null")
"""What becomes of a time that clocks show twice."""
NON_EXISTENT = ("raise", "null")
"""What becomes of a time that clocks skip."""


def _check(name: str, literal: Literal | None) -> None:
    if literal is None or literal.value is None:
        return
    if (fault := no_zone(literal.value)) is not None:
        message, near = fault
        mended = None if near is None else Literal(near, pa.string())
        raise ArgumentFault(f"{name}: {message}", 1, mended)


def _moved(args: Arguments) -> Signature:
    time_type(args.name, 0, args.types[0])
    if not is_string(args.types[1]):
        raise wrong_type(args.name, 1, args.types[1], "a zone such as 'Europe/Berlin'", None)
    _check(args.name, args.literals[1])
    return Signature((STAMP, pa.string()), STAMP)


def _replaced(args: Arguments) -> Signature:
    name = "replace_time_zone"
    time_type(name, 0, args.types[0])
    _check(name, args.literals[1])
    for index, (what, known) in enumerate(
        (("ambiguous", AMBIGUOUS), ("non_existent", NON_EXISTENT)), 2
    ):
        literal = args.literals[index]
        if literal is not None and literal.value not in known:
            raise ArgumentFault(
                f"{name} has no {what}={literal.value!r}; use one of {', '.join(known)}", index
            )
    zone = args.literals[1]
    if zone is None or not isinstance(zone.value, str):
        raise ArgumentFault(f"{name} takes a zone such as 'Europe/Berlin'", 1)
    texts = (pa.string(),) * 3
    return Signature((pa.timestamp("us"), *texts), pa.timestamp("us", zone.value))


def _never_raises(args: Arguments) -> bool:
    return all(one is not None and one.value != "raise" for one in args.literals[2:])


FUNCTIONS = (
    Function("from_utc_timestamp", (2, 2), _moved,
             "what a clock in zone b (constant) shows at the time a in UTC", (1,),
             text=".dt.from_utc_timestamp", spark="from_utc_timestamp"),
    Function("to_utc_timestamp", (2, 2), _moved,
             "the time in UTC when a clock in zone b (constant) shows a", (1,),
             text=".dt.to_utc_timestamp", spark="to_utc_timestamp"),
    Function("replace_time_zone", (4, 4), _replaced,
             "when clocks in zone b (constant) show a; c and d (constants) say what becomes of "
             "times that they show twice or skip", (1, 2, 3), total=_never_raises,
             text=".dt.replace_time_zone"),
)  # fmt: skip
