"""Nexmark's kernel: proportions, ranges, time; its values are held against the scalar model by
tests/contract/sources."""

from __future__ import annotations

import numpy as np
import pytest

from fabric._cython.kernels.nexmark import PRICE_STEPS, auctions, bids, persons

PRICES = np.arange(PRICE_STEPS, dtype=np.int64)
BIDS = {"auction", "bidder", "price", "dateTime", "channel", "extra"}


def test_epochs_may_be_taken_in_any_stride():
    whole = bids(1, 0, 1, 12, 0, 10_000, BIDS, PRICES, 9)
    for start in range(3):
        part = bids(1, start, 3, 4, 0, 10_000, BIDS, PRICES, 9)
        for name in BIDS:
            expected = whole[name].reshape(12, 46)[start::3].ravel()
            np.testing.assert_array_equal(part[name], expected)


def test_layouts_hold_the_same_values_in_their_places():
    dense = bids(1, 5, 2, 3, 0, 10_000, BIDS, PRICES, 9)
    beside = bids(1, 5, 2, 3, 0, 10_000, BIDS, PRICES, 9, dense=False)
    for name in BIDS:
        rows = beside[name].reshape(3, 50)
        assert not rows[:, :4].any()
        np.testing.assert_array_equal(rows[:, 4:].ravel(), dense[name])


def test_half_of_the_bids_go_to_the_hot_auction_and_three_quarters_from_the_hot_bidder():
    found = bids(7, 1_000, 1, 2_000, 0, 10_000, BIDS, PRICES, 9)
    last = np.repeat(np.arange(1_000, 3_000) * 3 + 2, 46)
    hot = found["auction"] == 1_000 + last // 100 * 100
    assert 0.49 < hot.mean() < 0.52
    assert (found["auction"] <= 1_000 + last + 10).all()
    bidder = 1_000 + np.repeat(np.arange(1_000, 3_000) // 100 * 100, 46) + 1
    assert 0.74 < (found["bidder"] == bidder).mean() < 0.76
    assert 0.49 < (found["channel"] <= 4).mean() < 0.51
    assert found["extra"].min() == 1
    assert found["extra"].max() == 9


@pytest.mark.parametrize("rate", [1, 7, 10_000, 3_000_000])
def test_time_never_goes_back(rate):
    made = [
        bids(0, 0, 1, 50, 5, rate, {"dateTime"}, PRICES, 1, dense=False),
        auctions(0, 0, 1, 50, 5, rate, {"dateTime"}, PRICES,
                 {"itemName": 1, "description": 1, "extra": 1}, dense=False),
        persons(0, 0, 1, 50, 5, rate, {"dateTime"}, dict.fromkeys(
            ("name", "emailAddress", "creditCard", "city", "state", "extra"), 1), dense=False),
    ]  # fmt: skip
    times = sum(columns["dateTime"] for columns in made)
    assert times[0] == 5
    assert (np.diff(times) >= 0).all()
    assert times[-1] <= 5 + 2_499 * 10**6 // rate


def test_only_what_is_wanted_is_made():
    assert set(bids(0, 0, 1, 1, 0, 1, {"price"}, PRICES, 1)) == {"price"}
    assert bids(0, 0, 1, 0, 0, 1, BIDS, PRICES, 1) == {}


@pytest.mark.parametrize("change", [{"first": -1}, {"stride": 0}, {"n": -1}, {"first": 1 << 56}])
def test_refusals(change):
    of = {"first": 0, "stride": 1, "n": 1, **change}
    with pytest.raises(ValueError, match="epochs"):
        bids(0, of["first"], of["stride"], of["n"], 0, 1, BIDS, PRICES, 1)
    with pytest.raises(ValueError, match="prices"):
        bids(0, 0, 1, 1, 0, 1, BIDS, PRICES[1:], 1)
