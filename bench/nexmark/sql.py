"""The questions in DuckDB's SQL, over views `person`, `auction`, `bid` and `side` of all rows.

One job: the statements, and which tables each question reads. Aggregates are over all that is
there: of a stream's changing results that is what stands in the end.
"""

from __future__ import annotations

OF_BIDS, OF_ALL = ("bid",), ("auction", "bid")
TABLES = {f"q{i}": OF_BIDS for i in range(23)} | {
    "q3": ("person", "auction"), "q4": OF_ALL, "q6": OF_ALL, "q8": ("person", "auction"),
    "q9": OF_ALL, "q13": ("bid", "side"), "q20": OF_ALL,
}  # fmt: skip
"""What each question reads."""
PARTITIONED = {"q10": ["dt", "hm"]}
"""What is written into files, in folders of the values of these columns."""
AUCTION = "itemName, description, initialBid, reserve, expires, seller, category"

_CHEAP, _MIDDLING, _DEAR = (
    "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000",
)  # fmt: skip
RANKS = (_CHEAP, _MIDDLING, _DEAR)


def by_price(count: str, name: str) -> str:
    """`count` of cheap, middling and dear bids, as three columns."""
    return ", ".join(
        f"{count} FILTER (WHERE {rank}) AS rank{i}_{name}" for i, rank in enumerate(RANKS, start=1)
    )


def bid_counts() -> str:
    """All bids, and those of each rank."""
    return f"COUNT(*) AS total_bids, {by_price('COUNT(*)', 'bids')}"


def distinct_counts(column: str) -> str:
    """The different values of a column, and those of each rank."""
    count = f"COUNT(DISTINCT {column})"
    return f"{count} AS total_{column}s, {by_price(count, f'{column}s')}"


_IN_TIME = """auction JOIN bid ON auction.id = bid.auction
            AND bid.dateTime BETWEEN auction.dateTime AND auction.expires"""
_WINNERS = f"""
        SELECT auction.*, bidder, price, bid.dateTime AS bid_time, bid.extra AS bid_extra
        FROM {_IN_TIME}
        QUALIFY ROW_NUMBER() OVER (
            PARTITION BY auction.id ORDER BY price DESC, bid.dateTime) = 1"""

DUCKDB = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, (0.908 * price)::DECIMAL(23, 3), dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT name, city, state, auction.id FROM auction JOIN person ON seller = person.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
        WITH finals AS (
            SELECT category, MAX(price) AS final FROM {_IN_TIME} GROUP BY auction.id, category)
        SELECT category, AVG(final) FROM finals GROUP BY category""",
    "q5": """
        WITH panes AS (
            SELECT auction, time_bucket(INTERVAL 2 SECOND, dateTime) AS pane, COUNT(*) AS num
            FROM bid GROUP BY ALL),
        counts AS (
            SELECT auction, pane - to_seconds(2 * i) AS begins, SUM(num)::BIGINT AS num
            FROM panes, range(5) AS back(i) GROUP BY ALL)
        SELECT auction, num, begins, begins + INTERVAL 10 SECOND FROM counts
        QUALIFY RANK() OVER (PARTITION BY begins ORDER BY num DESC) = 1""",
    "q6": f"""
        WITH winners AS ({_WINNERS}),
        newest AS (
            SELECT seller, price FROM winners QUALIFY ROW_NUMBER() OVER (
                PARTITION BY seller ORDER BY expires DESC, id DESC) <= 10)
        SELECT seller, AVG(price) FROM newest GROUP BY seller""",
    "q7": """
        SELECT auction, price, bidder, dateTime, extra FROM bid
        QUALIFY RANK() OVER (
            PARTITION BY time_bucket(INTERVAL 10 SECOND, dateTime) ORDER BY price DESC) = 1""",
    "q8": """
        SELECT DISTINCT person.id, name, time_bucket(INTERVAL 10 SECOND, person.dateTime)
        FROM person JOIN auction ON person.id = seller
        AND time_bucket(INTERVAL 10 SECOND, person.dateTime)
            = time_bucket(INTERVAL 10 SECOND, auction.dateTime)""",
    "q9": f"""
        SELECT id, {AUCTION}, dateTime, extra, bidder, price, bid_time, bid_extra
        FROM ({_WINNERS})""",
    "q10": """
        SELECT auction, bidder, price, dateTime, extra,
            strftime(dateTime, '%Y-%m-%d') AS dt, strftime(dateTime, '%H:%M') AS hm FROM bid""",
    "q11": """
        WITH gaps AS (
            SELECT bidder, dateTime,
                dateTime > LAG(dateTime) OVER mine + INTERVAL 10 SECOND AS is_new
            FROM bid WINDOW mine AS (PARTITION BY bidder ORDER BY dateTime)),
        numbered AS (
            SELECT bidder, dateTime,
                COUNT(*) FILTER (WHERE is_new) OVER (PARTITION BY bidder ORDER BY dateTime) AS n
            FROM gaps)
        SELECT bidder, COUNT(*), MIN(dateTime), MAX(dateTime) + INTERVAL 10 SECOND
        FROM numbered GROUP BY bidder, n""",
    "q12": "SELECT COUNT(*) AS bid_count FROM bid",
    "q13": """
        SELECT auction, bidder, price, dateTime, value
        FROM bid JOIN side ON auction % 10000 = key""",
    "q14": """
        SELECT auction, bidder, (0.908 * price)::DECIMAL(23, 3) AS euros,
            CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
                ELSE 'otherTime' END,
            dateTime, extra, (LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')))::BIGINT
        FROM bid WHERE euros > 1000000 AND euros < 50000000""",
    "q15": f"""
        SELECT dateTime::DATE AS day, {bid_counts()},
            {distinct_counts('bidder')}, {distinct_counts('auction')}
        FROM bid GROUP BY day""",
    "q16": f"""
        SELECT channel, dateTime::DATE AS day, MAX(strftime(dateTime, '%H:%M')), {bid_counts()},
            {distinct_counts('bidder')}, {distinct_counts('auction')}
        FROM bid GROUP BY channel, day""",
    "q17": f"""
        SELECT auction, dateTime::DATE AS day, {bid_counts()},
            MIN(price), MAX(price), AVG(price), SUM(price)::BIGINT
        FROM bid GROUP BY auction, day""",
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid
        QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1""",
    "q19": """
        SELECT auction, bidder, price, channel, url, dateTime, extra, rank_number FROM (
            SELECT *, ROW_NUMBER() OVER (
                PARTITION BY auction ORDER BY price DESC, dateTime) AS rank_number FROM bid)
        WHERE rank_number <= 10""",
    "q20": f"""
        SELECT auction, bidder, price, channel, url, bid.dateTime, bid.extra, {AUCTION},
            auction.dateTime, auction.extra
        FROM bid JOIN auction ON bid.auction = auction.id WHERE category = 10""",
    "q21": r"""
        WITH found AS (
            SELECT *, regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) AS number FROM bid)
        SELECT auction, bidder, price, channel,
            CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE number END
        FROM found
        WHERE number != '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4),
            split_part(url, '/', 5), split_part(url, '/', 6)
        FROM bid""",
}  # fmt: skip
