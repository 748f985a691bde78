"""The questions in Fabric's words, each as a user would write it.

One job: from bids to what is written; what changes is put out as changes.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import fabric

Question = Callable[["fabric.DataFrame"], "fabric.DataFrame"]
WINDOW = ["window_start", "window_end"]
BOUND = "4 seconds"
CHEAP, DEAR = 10_000, 1_000_000


def q0(bids: fabric.DataFrame) -> fabric.DataFrame:
    """As they are."""
    return bids.select("auction", "bidder", "price", "dateTime", "extra")


def q1(bids: fabric.DataFrame) -> fabric.DataFrame:
    """Prices in another currency, exactly."""
    from fabric import col, lit

    euros = (col("price") * lit(Decimal("0.908"))).alias("price")
    return bids.select("auction", "bidder", euros, "dateTime", "extra")


def q2(bids: fabric.DataFrame) -> fabric.DataFrame:
    """Bids of some auctions."""
    from fabric import col

    return bids.filter(col("auction") % 123 == 0).select("auction", "price")


def q5(bids: fabric.DataFrame) -> fabric.DataFrame:
    """The auctions with the most bids in the last ten seconds, every other second."""
    from fabric import col, count

    counts = (
        bids.with_watermark("dateTime", BOUND)
        .group_by("auction")
        .window("10 seconds", slide="2 seconds")
        .agg(count().alias("num"))
    )
    hot = counts.top_n(1, by=col("num").desc(), keys=WINDOW, ties=True)
    return hot.select("auction", "num", *WINDOW)


def q7(bids: fabric.DataFrame) -> fabric.DataFrame:
    """The highest bids of every ten seconds."""
    from fabric import col

    windows = bids.with_watermark("dateTime", BOUND).assign_windows("10 seconds")
    best = windows.top_n(1, by=col("price").desc(), keys=WINDOW, ties=True)
    return best.select("auction", "price", "bidder", "dateTime", "extra")


def q11(bids: fabric.DataFrame) -> fabric.DataFrame:
    """How often a bidder bids in one go."""
    from fabric import count, session

    groups = bids.with_watermark("dateTime", BOUND).group_by("bidder")
    counts = groups.window(session("10 seconds")).agg(count().alias("bid_count"))
    return counts.select("bidder", "bid_count", *WINDOW)


def q12(bids: fabric.DataFrame) -> fabric.DataFrame:
    """How often a bidder bids in ten seconds of the clock on the wall."""
    from fabric import count

    groups = bids.group_by("bidder").window("10 seconds", time="processing")
    return groups.agg(count().alias("bid_count")).select("bidder", "bid_count", *WINDOW)


def q15(bids: fabric.DataFrame) -> fabric.DataFrame:
    """Bids, bidders and auctions of a day, by price."""
    from fabric import col, count, count_distinct

    counts = [count().alias("total_bids"), *_by_price("bids", _n_where)]
    for name in ("bidder", "auction"):
        counts.append(count_distinct(name).alias(f"total_{name}s"))
        counts += _by_price(f"{name}s", partial(_different, col(name)))
    return bids.group_by(_day()).agg(*counts).changes()


def q17(bids: fabric.DataFrame) -> fabric.DataFrame:
    """Bids and prices of an auction's day."""
    from fabric import avg, count, max, min, sum

    prices = [
        function("price").alias(f"{name}_price")
        for name, function in {"min": min, "max": max, "avg": avg, "sum": sum}.items()
    ]
    counts = [count().alias("total_bids"), *_by_price("bids", _n_where)]
    return bids.group_by("auction", _day()).agg(*counts, *prices).changes()


def q18(bids: fabric.DataFrame) -> fabric.DataFrame:
    """The last bid of each bidder in each auction."""
    last = bids.deduplicate("bidder", "auction", keep="last", by="dateTime")
    return last.select(
        "auction", "bidder", "price", "channel", "url", "dateTime", "extra"
    ).changes()


def q19(bids: fabric.DataFrame) -> fabric.DataFrame:
    """The ten highest bids of each auction, the earlier of equal ones first."""
    from fabric import col

    by = [col("price").desc(), col("dateTime")]
    best = bids.top_n(10, by=by, keys="auction", rank="rank_number")
    return best.select(
        "auction", "bidder", "price", "channel", "url", "dateTime", "extra", "rank_number"
    ).changes()


def _day() -> Any:
    from fabric import col

    return col("dateTime").dt.date().alias("day")


def _by_price(name: str, counted: Callable[[Any], Any]) -> list[Any]:
    """What is counted of cheap, middling and dear bids."""
    from fabric import col

    price = col("price")
    ranks = (price < CHEAP, (price >= CHEAP) & (price < DEAR), price >= DEAR)
    return [counted(where).alias(f"rank{i}_{name}") for i, where in enumerate(ranks, start=1)]


def _n_where(where: Any) -> Any:
    from fabric import count_if

    return count_if(where)


def _different(value: Any, where: Any) -> Any:
    from fabric import count_distinct, when

    return count_distinct(when(where, value))


PIPELINES: dict[str, Question] = {
    question.__name__: question for question in (q0, q1, q2, q5, q7, q11, q12, q15, q17, q18, q19)
}
