"""The questions in Fabric's words, each as a user would write it.

One job: from the tables to what is written; what changes is put out as changes. Aggregates take
rows that stay, so where Nexmark's text nests aggregates whose results change, these questions wait
until the inner result is final: q4, q6 and q9 find the highest bid of an auction when the watermark
says that it is over. Rows of `_bids_in_time` are as old as their auction, so all that belong to it
lie in one window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.nexmark.data import OPEN_S, SIDE_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    import fabric


@dataclass(frozen=True, slots=True)
class Tables:
    """The streams, and the table that does not change."""

    person: fabric.DataFrame
    auction: fabric.DataFrame
    bid: fabric.DataFrame
    side: fabric.DataFrame


Question = Callable[[Tables], "fabric.DataFrame"]
WINDOW = ["window_start", "window_end"]
BOUND = "4 seconds"
CHEAP, DEAR = 10_000, 1_000_000
TTL = "1 day"
"""Of the clock on the wall, so a job forgets nothing here."""
CLOSED = "1 second"
AUCTION = (
    "itemName", "description", "initialBid", "reserve", "expires", "seller", "category"
)  # fmt: skip
CHANNEL_ID = "(&|^)channel_id=([^&]*)"
BID = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")


def q0(tables: Tables) -> fabric.DataFrame:
    """As they are."""
    return tables.bid.select("auction", "bidder", "price", "dateTime", "extra")


def q1(tables: Tables) -> fabric.DataFrame:
    """Prices in another currency, exactly."""
    from fabric import col, lit

    euros = (col("price") * lit(Decimal("0.908"))).alias("price")
    return tables.bid.select("auction", "bidder", euros, "dateTime", "extra")


def q2(tables: Tables) -> fabric.DataFrame:
    """Bids of some auctions."""
    from fabric import col

    return tables.bid.filter(col("auction") % 123 == 0).select("auction", "price")


def q3(tables: Tables) -> fabric.DataFrame:
    """Who sells things of one category in three states."""
    from fabric import col

    sold = tables.auction.filter(col("category") == 10).select("seller", auction="id")
    near = tables.person.filter(col("state").is_in(["OR", "ID", "CA"]))
    sellers = near.select("id", "name", "city", "state")
    found = sold.join(sellers, left_on="seller", right_on="id", ttl=TTL)
    return found.select("name", "city", "state", "auction").changes()


def q4(tables: Tables) -> fabric.DataFrame:
    """The mean of the highest bids of a category's auctions that are over."""
    from fabric import avg, col, max

    bids = _bids_in_time(tables, ["id", "category"], ["price"])
    last = bids.group_by("id", "category").window(CLOSED).agg(max("price").alias("final"))
    return last.group_by("category").agg(avg(col("final")).alias("avg_final")).changes()


def q5(tables: Tables) -> fabric.DataFrame:
    """The auctions with the most bids in the last ten seconds, every other second."""
    from fabric import col, count

    counts = (
        tables.bid.with_watermark("dateTime", BOUND)
        .group_by("auction")
        .window("10 seconds", slide="2 seconds")
        .agg(count().alias("num"))
    )
    hot = counts.top_n(1, by=col("num").desc(), keys=WINDOW, ties=True)
    return hot.select("auction", "num", *WINDOW)


def q6(tables: Tables) -> fabric.DataFrame:
    """The mean price of a seller's last ten auctions that are over.

    The ten change, and each change counts: the price of one that leaves them is taken off.
    """
    from fabric import col, lit, sum, when

    best = _winners(tables, ["id", "seller", "expires"], ["price"])
    newest = [col("expires").desc(), col("id").desc()]
    changes = best.top_n(10, by=newest, keys="seller").changes()
    sign = when(col("row_kind").is_in(["-U", "-D"]), lit(-1)).otherwise(lit(1))
    signed = changes.select("seller", "price", sign=sign)
    prices = sum(col("price") * col("sign")).alias("prices")
    totals = signed.group_by("seller").agg(prices, sum("sign").alias("auctions"))
    return totals.select("seller", avg_price=col("prices") / col("auctions")).changes()


def q7(tables: Tables) -> fabric.DataFrame:
    """The highest bids of every ten seconds."""
    from fabric import col

    windows = tables.bid.with_watermark("dateTime", BOUND).assign_windows("10 seconds")
    best = windows.top_n(1, by=col("price").desc(), keys=WINDOW, ties=True)
    return best.select("auction", "price", "bidder", "dateTime", "extra")


def q8(tables: Tables) -> fabric.DataFrame:
    """Who sells something within ten seconds of joining."""
    people, auctions = (
        each.with_watermark("dateTime", BOUND).assign_windows("10 seconds")
        for each in (tables.person, tables.auction)
    )
    mine, theirs = (["id", *WINDOW], ["seller", *WINDOW])
    new = people.join(auctions, left_on=mine, right_on=theirs, how="semi")
    return new.select("id", "name", "window_start")


def q9(tables: Tables) -> fabric.DataFrame:
    """Each auction that is over with its highest bid, the earlier of equal ones."""
    mine = ["id", *AUCTION, "dateTime", "extra"]
    return _winners(tables, mine, ["bidder", "price", "bid_time", "bid_extra"])


def q10(tables: Tables) -> fabric.DataFrame:
    """All bids into files, a folder a minute."""
    from fabric import col

    time = col("dateTime").dt
    days = {"dt": time.strftime("%Y-%m-%d"), "hm": time.strftime("%H:%M")}
    return tables.bid.select("auction", "bidder", "price", "dateTime", "extra", **days)


def q11(tables: Tables) -> fabric.DataFrame:
    """How often a bidder bids in one go."""
    from fabric import count, session

    groups = tables.bid.with_watermark("dateTime", BOUND).group_by("bidder")
    counts = groups.window(session("10 seconds")).agg(count().alias("bid_count"))
    return counts.select("bidder", "bid_count", *WINDOW)


def q12(tables: Tables) -> fabric.DataFrame:
    """How often a bidder bids in ten seconds of the clock on the wall."""
    from fabric import count

    groups = tables.bid.group_by("bidder").window("10 seconds", time="processing")
    return groups.agg(count().alias("bid_count")).select("bidder", "bid_count", *WINDOW)


def q13(tables: Tables) -> fabric.DataFrame:
    """Bids with a text out of a table that does not change."""
    from fabric import col

    bids = tables.bid.with_columns(key=col("auction") % SIDE_ROWS)
    found = bids.join(tables.side, on="key")
    return found.select("auction", "bidder", "price", "dateTime", "value")


def q14(tables: Tables) -> fabric.DataFrame:
    """Dear bids, by time of day, with what a function of ours says of a text."""
    from fabric import arrow_udf, col, lit, when

    price, hour = col("price") * lit(Decimal("0.908")), col("dateTime").dt.hour()
    kind = (
        when(hour.is_between(8, 18), lit("dayTime"))
        .when((hour <= 6) | (hour >= 20), lit("nightTime"))
        .otherwise(lit("otherTime"))
    )
    n_cs = arrow_udf(_n_cs, returns="int64")
    dear = tables.bid.filter((price > 1_000_000) & (price < 50_000_000))
    return dear.select(
        "auction", "bidder", price.alias("price"), kind.alias("bid_time_type"), "dateTime", "extra",
        n_cs("extra").alias("c_counts"),
    )  # fmt: skip


def q15(tables: Tables) -> fabric.DataFrame:
    """Bids, bidders and auctions of a day, by price."""
    return tables.bid.group_by(_day()).agg(*_counts()).changes()


def q16(tables: Tables) -> fabric.DataFrame:
    """Bids, bidders and auctions of a channel's day, by price."""
    from fabric import col, max

    minute = col("dateTime").dt.strftime("%H:%M")
    newest = max(minute).alias("minute")
    return tables.bid.group_by("channel", _day()).agg(newest, *_counts()).changes()


def q17(tables: Tables) -> fabric.DataFrame:
    """Bids and prices of an auction's day."""
    from fabric import avg, count, max, min, sum

    prices = [
        function("price").alias(f"{name}_price")
        for name, function in {"min": min, "max": max, "avg": avg, "sum": sum}.items()
    ]
    counts = [count().alias("total_bids"), *_by_price("bids", _n_where)]
    return tables.bid.group_by("auction", _day()).agg(*counts, *prices).changes()


def q18(tables: Tables) -> fabric.DataFrame:
    """The last bid of each bidder in each auction."""
    last = tables.bid.deduplicate("bidder", "auction", keep="last", by="dateTime")
    return last.select(*BID).changes()


def q19(tables: Tables) -> fabric.DataFrame:
    """The ten highest bids of each auction, the earlier of equal ones first."""
    from fabric import col

    by = [col("price").desc(), col("dateTime")]
    best = tables.bid.top_n(10, by=by, keys="auction", rank="rank_number")
    return best.select(*BID, "rank_number").changes()


def q20(tables: Tables) -> fabric.DataFrame:
    """Bids with their auctions, of one category."""
    from fabric import col

    rows = tables.auction.filter(col("category") == 10)
    auctions = rows.select("id", *AUCTION, auction_time=col("dateTime"), auction_extra=col("extra"))
    found = tables.bid.join(auctions, left_on="auction", right_on="id", ttl=TTL)
    return found.select(*BID, *AUCTION, "auction_time", "auction_extra").changes()


def q21(tables: Tables) -> fabric.DataFrame:
    """Bids with the number of their channel, by its name or out of its address."""
    from fabric import col, lit, when

    channel = col("channel").str.lower()
    found = col("url").str.regexp_extract(CHANNEL_ID, 2)
    names = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    number = when(channel == "apple", lit("0"))
    for name, text in list(names.items())[1:]:
        number = number.when(channel == name, lit(text))
    known = tables.bid.filter(channel.is_in(list(names)) | (found != ""))
    return known.select(
        "auction", "bidder", "price", "channel", number.otherwise(found).alias("channel_id")
    )


def q22(tables: Tables) -> fabric.DataFrame:
    """Bids with the folders of their address."""
    from fabric import col

    folders = {f"dir{i}": col("url").str.split_part("/", 3 + i) for i in (1, 2, 3)}
    return tables.bid.select("auction", "bidder", "price", "channel", **folders)


def _bids_in_time(tables: Tables, of_auction: list[str], of_bid: list[str]) -> fabric.DataFrame:
    """Auctions with their bids before they expire, as old as the auctions."""
    from datetime import timedelta

    from fabric import col

    times = {"bid_time": col("dateTime"), "bid_extra": col("extra")}
    wanted = ["auction", *(name for name in of_bid if name not in times)]
    named = {name: times[name] for name in times if name in of_bid or name == "bid_time"}
    bids = tables.bid.with_watermark("dateTime", BOUND).select(*wanted, **named)
    kept = list(dict.fromkeys([*of_auction, "dateTime", "expires"]))
    auctions = tables.auction.with_watermark("dateTime", BOUND).select(*kept)
    end = col("dateTime") + timedelta(seconds=OPEN_S)
    return auctions.join_interval(
        bids, ("dateTime", end), "bid_time", left_by="id", right_by="auction",
        where=col("bid_time") <= col("expires"),
    )  # fmt: skip


def _winners(tables: Tables, of_auction: list[str], of_bid: list[str]) -> fabric.DataFrame:
    """Auctions that are over with their highest bids, the earlier of equal ones."""
    from fabric import col

    bids = _bids_in_time(tables, of_auction, of_bid).assign_windows(CLOSED)
    by = [col("price").desc(), col("bid_time")]
    best = bids.top_n(1, by=by, keys=["id", "window_end"])
    return best.select(*of_auction, *of_bid)


def _n_cs(texts: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.count_substring(texts, "c").cast(pa.int64())


def _day() -> Any:
    from fabric import col

    return col("dateTime").dt.date().alias("day")


def _counts() -> list[Any]:
    """How many bids, bidders and auctions there are, by price."""
    from fabric import col, count, count_distinct

    counts = [count().alias("total_bids"), *_by_price("bids", _n_where)]
    for name in ("bidder", "auction"):
        counts.append(count_distinct(name).alias(f"total_{name}s"))
        counts += _by_price(f"{name}s", partial(_different, col(name)))
    return counts


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
    question.__name__: question
    for question in (
        q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15, q16, q17, q18, q19,
        q20, q21, q22,
    )
}  # fmt: skip
