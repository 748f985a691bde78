from __future__ import annotations

import pytest

from fabric.control import control_pb2 as pb
from fabric.control.errors import MESSAGE_CHARS_MAX, from_detail, to_detail
from fabric.errors import ERRORS, ExternalError, FabricError, InternalError


@pytest.mark.parametrize("kind", ERRORS.values(), ids=ERRORS)
def test_round_trip(kind: type[FabricError]) -> None:
    error = kind("what happened", job="j", node="n", task="t", agent="a")
    found = from_detail(pb.ErrorDetail.FromString(to_detail(error).SerializeToString()))
    assert type(found) is kind
    assert (str(found), found.where) == (str(error), error.where)


def test_a_class_of_ones_own_travels_as_its_nearest_known_one() -> None:
    class TapeError(ExternalError):
        """Not known to the other side."""

    assert to_detail(TapeError("torn")).kind == "ExternalError"


def test_foreign_errors_tell_only_their_class() -> None:
    found = from_detail(to_detail(OSError(2, "no such file", "/home/ann/secret")))
    assert isinstance(found, InternalError)
    assert "FileNotFoundError" in found.message
    assert "secret" not in found.message


def test_unknown_kinds_and_empty_details() -> None:
    assert isinstance(from_detail(pb.ErrorDetail(kind="Nonsense", message="x")), InternalError)
    assert from_detail(pb.ErrorDetail()).message == "no reason was given"


def test_messages_are_clipped_and_valid() -> None:
    detail = to_detail(FabricError("é" * 10_000 + "\ud800", node="n" * 9_000))
    assert len(detail.message) == MESSAGE_CHARS_MAX
    assert len(detail.node) == 256
    assert pb.ErrorDetail.FromString(detail.SerializeToString()) == detail
