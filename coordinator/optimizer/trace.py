"""What the optimizer did, for `explain`.

One job: keep which rule changed which node into what, and tell it in lines. A node is written as
the calls that make it; what both sides have in common is written as its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from fabric.plan.nodes import Node, Scan
from fabric.plan.printer import expr_text, tree
from fabric.plan.walk import walk

_STEP_MAX = 90
_LINE_MAX = 400
_CHANGES_MAX = 20
"""Of one rule in a row; a plan of a thousand steps has more."""


@dataclass(frozen=True, slots=True)
class Fired:
    """One rule at one node: what was there and what came in its place."""

    rule: str
    before: Node
    after: Node


def effects_text(fired: Iterable[Fired], *, verbose: bool = False) -> str:
    """The rules that fired, in order, a change a line; `verbose` adds the part of the plan it made.

    >>> effects_text(())
    'no rule fired\\n'
    """
    lines: list[str] = []
    for rule, group in groupby(fired, lambda one: one.rule):
        lines.append(rule.replace("_", " "))
        changes = list(group)
        for one in changes[:_CHANGES_MAX]:
            lines += _lines(one)
            if verbose:
                lines += [f"      {line}" for line in tree(one.after).splitlines()]
        if len(changes) > _CHANGES_MAX:
            lines.append(f"  ... and {len(changes) - _CHANGES_MAX} more")
    return "\n".join(lines or ["no rule fired"]) + "\n"


def _lines(one: Fired) -> Iterator[str]:
    """The path, then before and after."""
    before, after = _common_cut(one)
    yield f"  {one.before.path}"
    yield f"    - {before}"
    yield f"    + {after}"


def _common_cut(one: Fired) -> tuple[str, str]:
    old = {id(node) for node in walk(one.before)}
    new = {id(node) for node in walk(one.after)}
    return _text(one.before, new), _text(one.after, old)


def _text(root: Node, known: set[int]) -> str:
    """The calls that make `root`, from the nodes in `known` on."""
    texts: dict[int, str] = {}
    for node in walk(root):
        if id(node) in known and node is not root:
            texts[id(node)] = node.path or node.text()
            continue
        inputs = [texts[id(child)] for child in node.children]
        step = _cut(_scan_text(node) if isinstance(node, Scan) else node.text(), _STEP_MAX)
        others = f" [{'; '.join(inputs[1:])}]" if len(inputs) > 1 else ""
        texts[id(node)] = (inputs[0] if inputs else "") + step + others
    return _cut(texts[id(root)], _LINE_MAX)


def _scan_text(scan: Scan) -> str:
    """The path of a scan and what it does itself."""
    told = []
    if scan.predicate is not None:
        told.append(f"where {expr_text(scan.predicate)}")
    if scan.columns is not None:
        told.append(f"columns {', '.join(scan.columns)}")
    if scan.limit is not None:
        told.append(f"limit {scan.limit}")
    return f"{scan.path}{{{'; '.join(told)}}}" if told else scan.path


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 4] + " ..."
