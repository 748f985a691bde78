"""Which pickled functions may be loaded: only those whose MAC was checked.

One job: sign functions where a plan is accepted, check them where a stage arrives, and load them in
a task. `load` refuses whatever nobody vouched for in this process, so that no path through decoder,
optimizer or planner can run code of a stranger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from fabric.errors import AuthError, PlanError
from fabric.operators.functions.user_code import said, watched
from fabric.plan.expr import Expr, Udf
from fabric.plan.nodes import Node
from fabric.plan.walk import map_exprs, rewrite, rewrite_expr, walk, walk_expr
from fabric.security.tokens import MAC_BYTES, Signer

PAYLOAD_MAX = 16 << 20
_TRUSTED_MAX = 4096
_trusted: dict[bytes, None] = {}


def functions_of(root: Node) -> Iterator[Udf]:
    """Every user function in a plan."""
    return (udf for _, udf in placed_functions(root))


def placed_functions(root: Node) -> Iterator[tuple[Node, Udf]]:
    """The same with their nodes."""
    for node in walk(root):
        for expr in node.expressions:
            for part in walk_expr(expr):
                if isinstance(part, Udf):
                    yield node, part


def signed(root: Node, signer: Signer) -> Node:
    """The plan with a MAC on every function; itself when it has none.

    Raises
    ------
    PlanError
        If a function is larger than 16 MiB: what it closes over belongs into a table.
    """

    def sign(part: Expr) -> Expr:
        if not isinstance(part, Udf):
            return part
        if len(part.payload) > PAYLOAD_MAX:
            raise PlanError(
                f"the function {part.name} is {len(part.payload) >> 20} MiB, at most "
                f"{PAYLOAD_MAX >> 20} MiB travel; join what it closes over as a table"
            )
        mac = signer.sign(_digest(part), "function")[-MAC_BYTES:]
        return Udf(part.name, part.args, part.dtype, part.kind, part.payload, mac)

    if next(functions_of(root), None) is None:
        return root
    return rewrite(root, lambda node: map_exprs(node, lambda expr: rewrite_expr(expr, sign)))


def check_functions(root: Node, signer: Signer | None) -> None:
    """Vouch for the functions of a stage, or raise `AuthError`."""
    for udf in functions_of(root):
        if signer is None:
            raise AuthError(f"the function {udf.name} can't be checked: this agent has no secret")
        signer.check(_digest(udf) + udf.mac, "function")
        vouch(udf.payload)


def vouch(payload: bytes) -> None:
    """Let `load` take `payload`: its MAC was checked, or it is this process's own."""
    if len(_trusted) >= _TRUSTED_MAX:
        _trusted.pop(next(iter(_trusted)))
    _trusted[hashlib.sha256(payload).digest()] = None


@lru_cache(maxsize=256)
def _loaded(payload: bytes) -> Any:
    return _unpickled(payload)


def _unpickled(payload: bytes) -> Any:
    import cloudpickle

    return cloudpickle.loads(payload)


def load(udf: Udf) -> Callable[..., Any]:
    """The function itself; `AuthError` when nobody vouched for it."""
    found: Callable[..., Any] = _trusted_by(udf, _loaded)
    return found


def load_anew(udf: Udf) -> Any:
    """The same as an object that nobody else has: what it keeps is its own."""
    return _trusted_by(udf, _unpickled)


def _trusted_by(udf: Udf, unpickle: Callable[[bytes], Any]) -> Any:
    if hashlib.sha256(udf.payload).digest() not in _trusted:
        raise AuthError(f"the function {udf.name} was not signed by this fabric")
    try:
        with watched(udf.payload):
            return unpickle(udf.payload)
    except BaseException as error:  # whatever the user's module does when it is imported
        raise PlanError(
            f"the function {udf.name} can't be loaded: {said(error)}; is every module "
            "it uses installed where the agents run?"
        ) from error


def _digest(udf: Udf) -> bytes:
    return hashlib.sha256(udf.payload).digest() + udf.kind.encode()
