"""The control contract: each verb of the proto has a method, a handler and a scope."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from fabric.control import control_pb2 as pb
from fabric.control.api import SERVICE, VERBS, ControlApi, Verb, answer
from fabric.control.leader import is_repeatable
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.auth import SCOPES
from fabric.coordinator.service.front import Front

METHODS = [name for name in vars(ControlApi) if not name.startswith("_") and name != "call"]


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_a_verb_has_a_method_a_handler_and_a_scope(verb: Verb) -> None:
    hints = get_type_hints(getattr(ControlApi, verb.method))
    assert (hints["request"], hints["return"]) == (verb.request, verb.reply)
    handler = Front if verb.name == "Depose" else CoordinatorRuntime
    assert getattr(handler, verb.method) is not getattr(ControlApi, verb.method)
    assert verb.name in SCOPES


def test_there_is_no_other_method() -> None:
    assert sorted(METHODS) == sorted(["watch", *(verb.method for verb in VERBS.values())])
    assert {rpc.name for rpc in SERVICE.methods} == {*VERBS, "Watch", "Attach"}


def test_a_method_asks_for_its_own_verb() -> None:
    asked: list[tuple[str, Any, Any]] = []

    class Carrier(ControlApi):
        def call(self, verb: str, request: Any, reply: Any) -> Any:
            asked.append((verb, type(request), reply))
            return reply()

    for verb in VERBS.values():
        assert answer(Carrier(), verb.name, verb.request(), verb.reply) == verb.reply()
    assert asked == [(verb.name, verb.request, verb.reply) for verb in VERBS.values()]


def test_what_has_no_answer_says_so() -> None:
    with pytest.raises(NotImplementedError, match="ControlApi does not answer ListTasks"):
        ControlApi().list_tasks(pb.JobRequest())
    with pytest.raises(NotImplementedError, match="does not answer Watch"):
        ControlApi().watch(pb.JobRequest())


def test_which_requests_are_not_made_twice() -> None:
    unsafe = [verb.name for verb in VERBS.values() if not is_repeatable(verb.request())]
    assert unsafe == ["Submit", "Explain", "Restart"]
