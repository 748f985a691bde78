"""The questions in DuckDB's SQL, over a view `bid` of all bids."""

from __future__ import annotations

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


DUCKDB = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, (0.908 * price)::DECIMAL(23, 3), dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q5": """
        WITH panes AS (
            SELECT auction, time_bucket(INTERVAL 2 SECOND, dateTime) AS pane, COUNT(*) AS num
            FROM bid GROUP BY ALL),
        counts AS (
            SELECT auction, pane - to_seconds(2 * i) AS begins, SUM(num)::BIGINT AS num
            FROM panes, range(5) AS back(i) GROUP BY ALL)
        SELECT auction, num, begins, begins + INTERVAL 10 SECOND FROM counts
        QUALIFY RANK() OVER (PARTITION BY begins ORDER BY num DESC) = 1""",
    "q7": """
        SELECT auction, price, bidder, dateTime, extra FROM bid
        QUALIFY RANK() OVER (
            PARTITION BY time_bucket(INTERVAL 10 SECOND, dateTime) ORDER BY price DESC) = 1""",
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
    "q15": f"""
        SELECT dateTime::DATE AS day, {bid_counts()},
            {distinct_counts('bidder')}, {distinct_counts('auction')}
        FROM bid GROUP BY day""",
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
}  # fmt: skip
