"""What each part of a step's definition may become, while the step goes on with what it has kept.

One job: `RULES`, by kind of node and part. A part without a rule must stay as it was: a rule is
only there where the operator can restore what was stored, and is still right with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fabric.checkpoint.manifest import NodeRecord
from fabric.coordinator.planner.node_records import STATE
from fabric.errors import StateSchemaError
from fabric.plan.durations import duration_text
from fabric.plan.nodes import (
    AsofJoin,
    Deduplicate,
    KeyedProcess,
    Limit,
    MapAsync,
    Match,
    Sink,
    StreamAggregate,
    StreamJoin,
    StreamScan,
    TopN,
    UpdatingJoin,
    Watermark,
)
from fabric.plan.sources import STREAM_SOURCES
from fabric.state.schema import check_change, read_stored

Facts = Mapping[str, str]


class Rule(NamedTuple):
    """Whether a part may change from one text to another, and else why not."""

    allows: Callable[[str, str], bool]
    why: str = "it must stay as it was"
    anew: bool = False
    """Whether the step then starts without what it has kept."""


def _as_number(text: str) -> int:
    return int(text or "0")


def _more(old: str, new: str) -> bool:
    return not set(filter(None, old.split(", "))) - set(filter(None, new.split(", ")))


def _is_bounded(window: str) -> bool:
    return bool(window) and not window.startswith("global")


_SAME = Rule(lambda old, new: False)
_FREE = Rule(lambda old, new: True)
_WINDOW = Rule(
    lambda old, new: _is_bounded(old) and _is_bounded(new),
    "a running result is no window, and a window no running result",
    anew=True,
)
_SHORTER = Rule(
    lambda old, new: _as_number(new) <= _as_number(old),
    "with a longer one, rows would open windows again that have given their result",
)
_GROUPS = {"late": _FREE, "lateness_us": _SHORTER}
_SOURCE = "source."
_FREE_OF_SOURCES = {source.WIRE: source.MAY_CHANGE for source in STREAM_SOURCES}
_FREE_OF_TARGETS = (
    "compact_bytes", "compact_s", "insecure", "publish_timeout_s", "replicas", "roll_bytes",
    "roll_rows", "roll_s", "transaction_timeout_s",
)  # fmt: skip
_WAYS_TO_ADD = ("error", "append", "create")

RULES: Mapping[str, Mapping[str, Rule]] = {
    StreamScan.WIRE: {
        "schema": _FREE,
        "source.topics": Rule(_more, "what was read of a topic that is left out would be lost"),
    },
    Watermark.WIRE: dict.fromkeys(
        ("bound_us", "idle_us", "future_us", "strategy", "function", "on_bad", "emit_us",
         "drift_us"), _FREE,
    ),
    StreamAggregate.WIRE: {
        **_GROUPS, "names": _FREE, "early_us": _FREE, "early_rows": _FREE, "window": _WINDOW,
        "aggs": Rule(_SAME.allows, "what was added up for others can't be told from their sums"),
        "changes": Rule(_SAME.allows, "only where results change it is known what was put out"),
    },
    TopN.WIRE: {
        **_GROUPS,
        "rank": Rule(lambda old, new: bool(old and new), "ranks were not kept up before"),
        "n": Rule(_SAME.allows, "the rows beyond the first ones are not kept"),
    },
    Deduplicate.WIRE: {
        **_GROUPS,
        "ttl_us": Rule(
            lambda old, new: _as_number(old) > 0 < _as_number(new),
            "without one it is not kept when a key last had a row",
        ),
    },
    KeyedProcess.WIRE: {
        **dict.fromkeys(
            ("function", "schema", "sides", "on_error", "timeout_us", "time", "broadcast_keys",
             "broadcast_deleted", "broadcast_bytes"), _FREE,
        ),
        "broadcast": Rule(
            lambda old, new: not (old and new), "the rows that it holds have other columns"
        ),
        "timers": Rule(_more, "timers that are set would have nobody to call"),
    },
    Match.WIRE: {"late": _FREE, "timeout": _FREE},
    StreamJoin.WIRE: {"suffix": _FREE, "late": _FREE},
    MapAsync.WIRE: dict.fromkeys(
        ("function", "schema", "keep", "capacity", "capacity_bytes", "ordered", "timeout_us",
         "retries", "backoff_us", "rate_per_s", "batch", "on_error"), _FREE,
    ),
    AsofJoin.WIRE: {"suffix": _FREE, "late": _FREE, "how": _FREE},
    UpdatingJoin.WIRE: {"suffix": _FREE, "ttl_us": _FREE},
    Limit.WIRE: {"n": _FREE},
    Sink.WIRE: {
        **{f"target.{name}": _FREE for name in _FREE_OF_TARGETS},
        "target.mode": Rule(lambda old, new: old in _WAYS_TO_ADD and new in _WAYS_TO_ADD),
    },
}  # fmt: skip
"""Of each kind of node the parts that may change, by name; any other must stay as it was."""
_WORDS = {
    "aggs": "what it computes", "by": "its order", "bound_us": "its bound",
    "changes": "changing results", "columns": "the columns of what it keeps",
    "computed": "its computed keys and arguments", "early_rows": "rows of early results",
    "early_us": "the interval of early results", "emit_us": "its interval", "keys": "its keys",
    "lateness_us": "the lateness", "names": "names of its results", "window": "the window",
}  # fmt: skip


class Judgement(NamedTuple):
    """How a step differs, in words: what may not be, what makes it start anew, and the rest."""

    refused: tuple[str, ...]
    anew: tuple[str, ...]
    other: tuple[str, ...]


def judge(old: NodeRecord, new: NodeRecord) -> Judgement:
    """Whether a step may go on with the state of another definition of it, part by part."""
    refused, anew, other = list[str](), list[str](), list[str]()
    was, now = _facts(old), _facts(new)
    for part in sorted(was.keys() | now.keys(), key=lambda part: (part == "columns", part)):
        before, after = was.get(part, ""), now.get(part, "")
        if before == after or (part == "columns" and refused):  # they follow from other parts
            continue
        rule = _rule(old.kind, part, was, now)
        if not rule.allows(before, after):
            refused.append(f"{_said(part, before, after)}: {rule.why}")
        elif rule.anew:
            anew.append(f"{_said(part, before, after)}; it starts anew, what was open is lost")
        else:
            other.append(_said(part, before, after))
    return Judgement(tuple(refused), tuple(anew), tuple(other))


def in_kind(node: NodeRecord) -> object:
    """A step but for what may change without any effect on what was kept."""
    rules, facts = RULES.get(node.kind, {}), dict(node.parts)
    fixed = tuple(
        part
        for part in node.parts
        if rules.get(part[0], _SAME) is not _FREE and not _is_free_of_source(part[0], facts)
    )
    return node.kind, node.keys, node.schema, fixed if node.parts else node.text


def _facts(node: NodeRecord) -> dict[str, str]:
    """All parts of a definition; of a node without any its text."""
    if not node.parts:
        return {"text": node.text}
    return {"keys": ", ".join(node.keys), "columns": node.schema, **dict(node.parts)}


def _rule(kind: str, part: str, was: Facts, now: Facts) -> Rule:
    """The rule for a part; some depend on others."""
    if part.startswith(STATE):
        return Rule(_state_goes_on, _why_not(part, was, now))
    if _is_free_of_source(part, was):
        return _FREE
    match kind, part:
        case StreamScan.WIRE, "source.source" if was.get("source.by_file") == "True":
            return _FREE  # its splits are its files
        case Sink.WIRE, "target.options" if was.get("target.format") in ("parquet", "ipc"):
            return _FREE
        case Sink.WIRE, "target.settings" if was.get("target") == "kafka":
            return _FREE
        case Sink.WIRE, "columns":
            ways = {"kafka": _FREE, "blackhole": _FREE}
            same = Rule(_SAME.allows, "its target would hold rows of both")
            return ways.get(was.get("target", ""), same)
    return RULES.get(kind, {}).get(part, _SAME)


def _is_free_of_source(part: str, facts: Facts) -> bool:
    """Whether a part is a setting of a source that says that it may change."""
    named = part.removeprefix(_SOURCE)
    return named != part and named in _FREE_OF_SOURCES.get(facts.get("source", ""), ())


def _state_goes_on(old: str, new: str) -> bool:
    """Whether a state of a function can become another one; see `fabric/state/schema.py`."""
    if not old:
        return True  # it is new, and empty
    try:
        if new:
            check_change(read_stored(old), read_stored(new))
    except StateSchemaError:
        return False
    return bool(new)


def _why_not(part: str, was: Facts, now: Facts) -> str:
    if not now.get(part):
        return "what it has kept would be lost: declare it again"
    try:
        if was.get(part):
            check_change(read_stored(was[part]), read_stored(now[part]))
    except StateSchemaError as error:
        return error.message
    return ""


def _said(part: str, old: str, new: str) -> str:
    """How a part differs, for people."""
    if part.startswith(STATE):
        if not old or not new:
            return f"{part} is {'new' if new else 'not there any more'}"
        was, now = read_stored(old), read_stored(new)
        return f"{part} was a {was.kind} of {was.dtype}, is a {now.kind} of {now.dtype}"
    of, _, option = part.rpartition(".")  # of a source or target: as the user writes it
    what = option if of else _WORDS.get(part, part.removesuffix("_us").replace("_", " "))
    return f"{what} was {_shown(part, old)}, is {_shown(part, new)}"


def _shown(part: str, value: str) -> str:
    if part.endswith("_us") and value.isdecimal():
        return duration_text(int(value))
    return value or "none"
