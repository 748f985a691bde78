"""Whose state is whose when the program of a stream has changed, and whether it may go on with it.

    nodes of a checkpoint ─┐
                           ├─► renames= ─► .named(…) ─► the one step that fits ─► drop=, or refused
    nodes of the new plan ─┘                        then: its changed parts, `upgrade_rules.py`

One job: `upgrade`, a pure function of a manifest and the records of a plan. Nothing is guessed: the
number in a path such as ``top_n_2`` decides nothing, a state that fits two steps is refused, and so
is one that no step takes, each with the line to write. What of a step's definition may change is
in `upgrade_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal

from fabric.checkpoint.manifest import INFLIGHT, Manifest, NodeRecord
from fabric.checkpoint.savepoint import RESULT
from fabric.coordinator.submit.upgrade_rules import in_kind, judge
from fabric.errors import PlanError
from fabric.plan.faults import nearest, quoted
from fabric.plan.nodes import Sink

_SHOWN = 5
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
    nodes = tuple(nodes)
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
    for fits in (_exactly, in_kind):
        match.by_fit(fits)
    changes = [*match.changes(manifest, splits), *match.added()]
    changes.sort(key=lambda change: change.new or change.old)
    goes_on = {change.old: change.new for change in changes if change.old and change.is_kept}
    paths = _paths(manifest, goes_on, plan)
    moved = any(new != old for old, new in paths.items())
    if manifest.inflight() and (moved or nodes != manifest.nodes):
        changes.append(_in_flight(manifest))
    return Upgrade(tuple(changes), paths)


def _in_flight(manifest: Manifest) -> Change:
    path = manifest.inflight()[0].node.removesuffix(INFLIGHT)
    why = (
        "the checkpoint is unaligned and has rows in flight there, and only the program that wrote "
        "it can restore them; run that program, stop it, then start this one"
    )
    return Change("refused", path, "", why, is_kept=False)


def _but_sinks(nodes: Mapping[str, NodeRecord]) -> dict[str, NodeRecord]:
    return {path: node for path, node in nodes.items() if node.kind != Sink.WIRE}


def _paths(
    manifest: Manifest, goes_on: Mapping[str, str], plan: Mapping[str, NodeRecord]
) -> dict[str, str | None]:
    """Where each node goes of which there is anything; one that keeps nothing stays, if it can."""
    kept = {node.path for node in manifest.kept()}
    nodes = {task.node for task in manifest.tasks if not task.node.endswith((RESULT, INFLIGHT))}
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
                del self._old[old.path], self._new[old.path]  # its name goes to no other state
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
        near = [node for node in self._new.values() if in_kind(node) == in_kind(old)]
        n_states = sum(in_kind(node) == in_kind(old) for node in self._old.values())
        drop = _drop_line(old.path)
        if not near:
            return f"no step of the program goes on with {old.text}; {drop}"
        if n_states == 1 and len(near) == 1:
            rename = f"renames={{{quoted(old.path)}: {quoted(near[0].path)}}}"
            return (
                f"the program has {near[0].path}, which fits; {rename} if it goes on with this, "
                f"else {drop}"
            )
        steps = " and ".join(node.path for node in near)
        return (
            f"{old.text} is one of {n_states} states that fit {steps}, and numbers don't tell them "
            'apart; give the step that goes on with it a name, .named("mine"), and write renames='
            f'{{{quoted(old.path)}: "mine"}}; if none does, {drop}'
        )


def _exactly(node: NodeRecord) -> object:
    """All of a step but its path."""
    return node.kind, node.keys, node.schema, node.text, node.parts


def _is_same_plan(
    old: Iterable[NodeRecord], new: Iterable[NodeRecord], *, with_sinks: bool
) -> bool:
    """Whether paths mean what they meant: each step is where it was."""
    was = {node.path: in_kind(node) for node in old if with_sinks or node.kind != Sink.WIRE}
    return was == {node.path: in_kind(node) for node in new}


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
    found = judge(old, new)
    refused = list(found.refused)
    if gone:
        refused.append(f"it has no split {min(gone)} any more, {old.text} had one")
    if refused:
        why = f"{'; '.join(refused)}; {_drop_line(old.path)}"
        return Change("refused", old.path, new.path, why, is_kept=False)
    why, is_kept = "; ".join([*found.anew, *found.other]), not found.anew
    if old.path != new.path:
        return Change("renamed", old.path, new.path, why, is_kept=is_kept)
    return Change("changed" if why else "same", old.path, new.path, why, is_kept=is_kept)
