"""Which zones there are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.schema import type_of
from fabric.plan.zones import is_zone, offset_minutes, zone_info

SCHEMA = pa.schema([("t", pa.timestamp("us"))])


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "America/Argentina/Ushuaia", "+05:30"])
def test_zones(zone: str) -> None:
    assert is_zone(zone)


@pytest.mark.parametrize(
    "zone",
    ["", "Mars/Base", "europe/berlin", "EST", "PST8PDT", "+5:30", "+18:01", "+01:60", "Europe",
     "../zones", "/etc/localtime", "Europe/Berlin\0", "Zürich"],
)  # fmt: skip
def test_no_zones(zone: str) -> None:
    assert not is_zone(zone)


def test_offsets() -> None:
    assert [offset_minutes(zone) for zone in ("+05:30", "-18:00", "00:00", "Z")] == [
        330, -1080, None, None
    ]  # fmt: skip
    assert zone_info("Asia/Tokyo").key == "Asia/Tokyo"


def test_a_wrong_name_is_told_the_nearest() -> None:
    call = Call("from_utc_timestamp", (Column("t"), Literal("Europe/Berlim", pa.string())))
    with pytest.raises(PlanError, match=r"no zone 'Europe/Berlim'.*\"Europe/Berlin\""):
        type_of(call, SCHEMA)
