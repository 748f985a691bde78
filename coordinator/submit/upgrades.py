"""Whose state is whose when the program of a stream has changed, and whether it may go on with it.

    nodes of a checkpoint ─┐
                           ├─► renames= ─► .named(…) ─► the one step that fits ─► drop=, or refused
    nodes of the new plan ─┘                        then: what each changed part means (`RULES`)

One job: `upgrade`, a pure function of a manifest and the records of a plan. Nothing is guessed: the
number in a path such as ``top_n_2`` decides nothing, a state that fits two steps is refused, and so
is one that no step takes, each with the line to write. A part of a step's definition may change
only where a rule says that the operator can restore what was stored, and still be right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fabric.checkpoint.manifest import Manifest, NodeRecord
from fabric.checkpoint.savepoints import RESULT
from fabric.coordinator.planner.node_records import STATE
from fabric.errors import PlanError, StateSchemaError
from fabric.plan.durations import duration_text
from fabric.plan.faults import nearest, quoted
from fabric.plan.nodes import (
    Deduplicate,
    KeyedProcess,
    Limit,
    Sink,
    StreamAggregate,
    StreamScan,
    TopN,
    Watermark,
)
from fabric.state.schema import check_change, read_stored

_SHOWN = 5
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
_FREE_OF_SOURCES = (
    "acknowledge", "bytes_per_s", "buffer_bytes", "columns", "discover_s", "disorder_us",
    "event_rate", "events_per_s", "group", "isolation", "key", "key_format", "n_events", "n_keys",
    "n_rows", "n_splits", "offsets", "on_bad", "on_expired", "options", "poll_s", "rows_per_s",
    "seed", "servers", "settings", "settle_s", "speed", "start", "start_ms", "start_us", "until",
    "value",
)  # fmt: skip
_FREE_OF_TARGETS = (
    "compact_bytes", "compact_s", "insecure", "publish_timeout_s", "replicas", "roll_bytes",
    "roll_rows", "roll_s", "transaction_timeout_s",
)  # fmt: skip
_WAYS_TO_ADD = ("error", "append", "create")

RULES: Mapping[str, Mapping[str, Rule]] = {
    StreamScan.WIRE: {
        "schema": _FREE,
        **{f"source.{name}": _FREE for name in _FREE_OF_SOURCES},
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
        **dict.fromkeys(("function", "schema", "sides", "on_error", "timeout_us", "time"), _FREE),
        "timers": Rule(_more, "timers that are set would have nobody to call"),
    },
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
What = Literal["same", "added", "dropped", "renamed", "changed", "refused"]


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one state; `old` is where it was, `new` where it is, "" for nowhere.

    >>> print(Change("same", "counts", "counts"), Change("renamed", "totals", "late"), sep="; ")
    counts: same; late: renamed from totals
    """

    what: What
    old: str
    new: str
    why: str = ""
    is_kept: bool = True
    """Whether the step goes on with what was kept."""

    def __str__(self) -> str:
        came = f" from {self.old}" if self.what == "renamed" else ""
        return f"{self.new or self.old}: {self.what}{came}{': ' + self.why if self.why else ''}"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What becomes of every state of a checkpoint, and what the plan has besides."""

    changes: tuple[Change, ...]
    paths: Mapping[str, str | None]
    """Where each node of the checkpoint goes on; None: what it kept is left behind."""

    @property
    def is_plain(self) -> bool:
        """Whether the checkpoint itself can be gone on from, as every state is where it was."""
        return all(old == new for old, new in self.paths.items())

    @property
    def is_refused(self) -> bool:
        """Whether a state of it can't be gone on with."""
        return any(change.what == "refused" for change in self.changes)

    @property
    def lines(self) -> list[str]:
        """A line for each state that is not the same."""
        return [str(change) for change in self.changes if change.what != "same"]

    def check(self, name: str, manifest: Manifest) -> None:
        """Raise `PlanError` with all that was refused."""
        wrong = [str(change) for change in self.changes if change.what == "refused"]
        if wrong:
            shown = "; ".join(wrong[:_SHOWN])
            more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
            raise PlanError(
                f"the stream {name!r} can't go on from checkpoint {manifest.checkpoint}: its "
                f"program has changed. {shown}{more}. Or run the program that it was, or begin "
                'anew with on_existing="new"',
                job=manifest.job,
            )


def upgrade(
    manifest: Manifest,
    nodes: Iterable[NodeRecord],
    splits: Mapping[str, Set[str]],
    *,
    renames: Mapping[str, str] | None = None,
    drop: Collection[str] = (),
    with_sinks: bool = True,
) -> Upgrade:
    """Find for each state of a checkpoint the step of a plan that goes on with it.

    Parameters
    ----------
    nodes, splits
        Of the plan: its nodes, and the splits of the sources that know all of theirs, by path.
    renames, drop
        What the user says: new paths by old ones, and states that are to be left behind.
    with_sinks
        False: the stream is a new one, whose sinks begin anew, wherever they write.

    Raises
    ------
    PlanError
        `renames` or `drop` name what there is not, or fit nothing.
    """
    kept = {node.path: node for node in manifest.kept()}
    plan = {node.path: node for node in nodes}
    if not with_sinks:
        kept, plan = _but_sinks(kept), _but_sinks(plan)
    match = _Matching(kept, plan)
    match.renamed(renames or {})
    match.dropped(drop)
    if _is_same_plan(manifest.nodes, plan.values(), with_sinks=with_sinks):
        match.by_path()
    match.by_name()
    for fits in (_exactly, _in_kind):
        match.by_fit(fits)
    changes = [*match.changes(manifest, splits), *match.added()]
    changes.sort(key=lambda change: change.new or change.old)
    goes_on = {change.old: change.new for change in changes if change.old and change.is_kept}
    return Upgrade(tuple(changes), _paths(manifest, goes_on, plan))


def _but_sinks(nodes: Mapping[str, NodeRecord]) -> dict[str, NodeRecord]:
    return {path: node for path, node in nodes.items() if node.kind != Sink.WIRE}


def _paths(
    manifest: Manifest, goes_on: Mapping[str, str], plan: Mapping[str, NodeRecord]
) -> dict[str, str | None]:
    """Where each node goes of which there is anything; one that keeps nothing stays, if it can."""
    kept = {node.path for node in manifest.kept()}
    nodes = {task.node for task in manifest.tasks if not task.node.endswith(RESULT)}
    stays = {path: path for path in nodes & plan.keys() - kept}
    return {path: goes_on.get(path, stays.get(path)) for path in sorted(nodes)}


# ---- which step goes on with a state


class _Matching:
    """States by path, `kept`, and the steps of the new plan that may go on with them."""

    def __init__(self, kept: Mapping[str, NodeRecord], plan: Mapping[str, NodeRecord]) -> None:
        self._kept, self._plan = kept, plan
        kinds = {node.kind for node in kept.values()}
        self._old = dict(kept)
        self._new = {p: node for p, node in plan.items() if node.parts or node.kind in kinds}
        self._pairs: dict[str, str] = {}
        self._drop: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def renamed(self, renames: Mapping[str, str]) -> None:
        """What the user says wins."""
        for old, new in renames.items():
            self._check_kept(old, f"renames={{{quoted(old)}: {quoted(new)}}}")
            if new not in self._plan:
                raise PlanError(
                    f"renames={{{quoted(old)}: {quoted(new)}}}: the program has no step "
                    f"{quoted(new)}{_near(new, self._new)}"
                )
            if new in self._pairs.values():
                raise PlanError(f"renames= gives {quoted(new)} two states; it can have one")
            was, now = self._kept[old].kind, self._plan[new].kind
            if was != now:
                raise PlanError(
                    f"renames={{{quoted(old)}: {quoted(new)}}}: {old} is of a {was}, and {new} is "
                    f"a {now}"
                )
            self._pair(old, new)

    def dropped(self, drop: Collection[str]) -> None:
        """These are left behind; the step of a name that was dropped begins anew."""
        for path in drop:
            self._check_kept(path, f"drop=[{quoted(path)}]")
            if path in self._pairs:
                raise PlanError(f"{quoted(path)} can't be dropped and renamed at once")
            node = self._old.pop(path)
            self._drop[path] = ""
            if node.named and self._new.pop(path, None) is not None:
                self._drop[path] = "the step starts anew"

    def by_path(self) -> None:
        """The plan is the same, so each state is where it was."""
        for path in [path for path in self._old if path in self._new]:
            self._pair(path, path)

    def by_name(self) -> None:
        """A step that has the name that the state's step was given."""
        for old in [node for node in self._old.values() if node.named]:
            new = self._new.get(old.path)
            if new is None:
                continue
            if new.kind == old.kind:
                self._pair(old.path, new.path)
            else:
                del self._old[old.path]
                self._refused[old.path] = (
                    f"it was a {old.kind}, {old.text}, and is a {new.kind}; {_drop_line(old.path)}"
                )

    def by_fit(self, fits: Callable[[NodeRecord], object]) -> None:
        """The one step that fits one state; a name that was given is not given to another."""
        old, new = _grouped(self._old.values(), fits), _grouped(self._new.values(), fits)
        for key, states in old.items():
            match states, new.get(key, []):
                case [state], [step] if not (state.named and step.named):
                    self._pair(state.path, step.path)

    def changes(self, manifest: Manifest, splits: Mapping[str, Set[str]]) -> Iterator[Change]:
        """What became of each state."""
        for old, new in self._pairs.items():
            gone = set[str]()
            if new in splits:
                gone = manifest.positions(old).keys() - splits[new]
            yield _judged(self._kept[old], self._plan[new], gone)
        for old, why in self._drop.items():
            yield Change("dropped", old, "", why, is_kept=False)
        for old, why in self._refused.items():
            yield Change("refused", old, "", why, is_kept=False)
        for left in self._old.values():
            yield Change("refused", left.path, "", self._why_left(left), is_kept=False)

    def added(self) -> Iterator[Change]:
        """Steps that may keep something and begin without."""
        for path, node in self._new.items():
            if node.parts:
                yield Change("added", "", path)

    def _pair(self, old: str, new: str) -> None:
        self._pairs[old] = new
        del self._old[old]
        self._new.pop(new, None)

    def _check_kept(self, path: str, said: str) -> None:
        if path not in self._kept:
            raise PlanError(
                f"{said}: the checkpoint has no state {quoted(path)}{_near(path, self._kept)}"
            )

    def _why_left(self, old: NodeRecord) -> str:
        near = [node for node in self._new.values() if _in_kind(node) == _in_kind(old)]
        n_states = sum(_in_kind(node) == _in_kind(old) for node in self._old.values())
        if not near:
            return f"no step of the program goes on with {old.text}; {_drop_line(old.path)}"
        if n_states == 1 and len(near) == 1:
            rename = f"renames={{{quoted(old.path)}: {quoted(near[0].path)}}}"
            return f"the program has {near[0].path}, which fits; {rename} if it goes on with this"
        steps = " and ".join(node.path for node in near)
        return (
            f"{old.text} is one of {n_states} states that fit {steps}, and numbers don't tell them "
            'apart; give the step that goes on with it a name, .named("mine"), and write renames='
            f'{{{quoted(old.path)}: "mine"}}'
        )


def _exactly(node: NodeRecord) -> object:
    """All of a step but its path."""
    return node.kind, node.keys, node.schema, node.text, node.parts


def _in_kind(node: NodeRecord) -> object:
    """A step but for what may change without any effect on what was kept."""
    rules = RULES.get(node.kind, {})
    fixed = tuple(part for part in node.parts if rules.get(part[0], _SAME) is not _FREE)
    return node.kind, node.keys, node.schema, fixed if node.parts else node.text


def _is_same_plan(
    old: Iterable[NodeRecord], new: Iterable[NodeRecord], *, with_sinks: bool
) -> bool:
    """Whether paths mean what they meant: each step is where it was."""
    was = {node.path: _in_kind(node) for node in old if with_sinks or node.kind != Sink.WIRE}
    return was == {node.path: _in_kind(node) for node in new}


def _grouped(
    nodes: Iterable[NodeRecord], key: Callable[[NodeRecord], object]
) -> dict[object, list[NodeRecord]]:
    found: dict[object, list[NodeRecord]] = {}
    for node in nodes:
        found.setdefault(key(node), []).append(node)
    return found


def _near(path: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = nearest(path, names)
    return f"; did you mean {quoted(close)}?" if close else f"; there are: {', '.join(names)}"


def _drop_line(path: str) -> str:
    return f"drop=[{quoted(path)}] leaves what it has kept behind"


# ---- whether it may


def _judged(old: NodeRecord, new: NodeRecord, gone: Set[str]) -> Change:
    """What becomes of a state whose step is now `new`; `gone` are splits that it had."""
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
    if gone:
        refused.append(f"it has no split {min(gone)} any more, {old.text} had one")
    if refused:
        why = f"{'; '.join(refused)}; {_drop_line(old.path)}"
        return Change("refused", old.path, new.path, why, is_kept=False)
    why = "; ".join([*anew, *other])
    if old.path != new.path:
        return Change("renamed", old.path, new.path, why, is_kept=not anew)
    return Change("changed" if why else "same", old.path, new.path, why, is_kept=not anew)


def _facts(node: NodeRecord) -> dict[str, str]:
    """All parts of a definition; of a node without any its text."""
    if not node.parts:
        return {"text": node.text}
    return {"keys": ", ".join(node.keys), "columns": node.schema, **dict(node.parts)}


def _rule(kind: str, part: str, was: Facts, now: Facts) -> Rule:
    """The rule for a part; some depend on others."""
    if part.startswith(STATE):
        return Rule(_state_goes_on, _why_not(part, was, now))
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
    what = _WORDS.get(part, part.removesuffix("_us").replace("_", " "))
    return f"{what} was {_shown(part, old)}, is {_shown(part, new)}"


def _shown(part: str, value: str) -> str:
    if part.endswith("_us") and value.isdecimal():
        return duration_text(int(value))
    return value or "none"
