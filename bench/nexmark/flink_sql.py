"""The questions in Flink's SQL, over a table `bid` with the times `rt` (rows) and `pt` (clock).

One job: the statements, the settings, and the tables. Those of Nexmark's own repository for Flink,
with days as dates, not texts, averages of doubles, and the best of a window by a join of the same
windows, which keeps ties (Flink ranks rows of a window by number only).
"""

from __future__ import annotations

from bench.nexmark.sql import bid_counts, by_price, distinct_counts

SETTINGS = {
    "table.local-time-zone": "UTC",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
"""Like those of Nexmark's own repository; state lies on the heap, without checkpoints."""

COLUMNS = ("auction", "bidder", "price", "channel", "url", "`dateTime`", "extra")
_ALL = ", ".join(COLUMNS)
_FIVE = "auction, bidder, price, `dateTime`, extra"
_COUNTS = """
    SELECT auction, COUNT(*) AS num, window_start, window_end
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rt), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end"""
_TENS = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(rt), INTERVAL '10' SECOND))"

FLINK = {
    "q0": f"SELECT {_FIVE} FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q5": f"""
        SELECT c.auction, c.num, c.window_start AS begins, c.window_end AS ends
        FROM ({_COUNTS}) AS c JOIN (
            SELECT MAX(num) AS most, window_start, window_end FROM ({_COUNTS})
            GROUP BY window_start, window_end) AS m
        ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num = m.most""",
    "q7": f"""
        SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra
        FROM (SELECT * FROM {_TENS}) AS b JOIN (
            SELECT MAX(price) AS most, window_start, window_end FROM {_TENS}
            GROUP BY window_start, window_end) AS m
        ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.most""",
    "q11": """
        SELECT bidder, COUNT(*) AS bid_count, window_start AS begins, window_end AS ends
        FROM TABLE(SESSION(
            TABLE bid PARTITION BY bidder, DESCRIPTOR(rt), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q12": """
        SELECT bidder, COUNT(*) AS bid_count, window_start AS begins, window_end AS ends
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(pt), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q15": f"""
        SELECT CAST(`dateTime` AS DATE) AS `day`, {bid_counts()},
            {distinct_counts('bidder')}, {distinct_counts('auction')}
        FROM bid GROUP BY CAST(`dateTime` AS DATE)""",
    "q17": f"""
        SELECT auction, CAST(`dateTime` AS DATE) AS `day`,
            COUNT(*) AS total_bids, {by_price('COUNT(*)', 'bids')},
            MIN(price) AS min_price, MAX(price) AS max_price,
            AVG(CAST(price AS DOUBLE)) AS avg_price, SUM(price) AS sum_price
        FROM bid GROUP BY auction, CAST(`dateTime` AS DATE)""",
    "q18": f"""
        SELECT {_ALL} FROM (SELECT *, ROW_NUMBER() OVER (
            PARTITION BY bidder, auction ORDER BY rt DESC) AS place FROM bid)
        WHERE place <= 1""",
    "q19": f"""
        SELECT {_ALL}, rank_number FROM (SELECT *, ROW_NUMBER() OVER (
            PARTITION BY auction ORDER BY price DESC, `dateTime` ASC) AS rank_number FROM bid)
        WHERE rank_number <= 10""",
}  # fmt: skip

READS = {
    "q0": _FIVE,
    "q1": _FIVE,
    "q2": "auction, price",
    "q5": "auction, rt",
    "q7": f"{_FIVE}, rt",
    "q11": "bidder, rt",
    "q12": "bidder",
    "q15": "auction, bidder, price, `dateTime`",
    "q17": "auction, price, `dateTime`",
    "q18": _ALL,
    "q19": _ALL,
}
"""The columns that a question needs."""

CHANGING = {"q15", "q17", "q18", "q19"}
"""Their rows come as changes."""


def bid(folder: str, *, endless: bool = False) -> str:
    """The table of the bids in a folder; `endless` waits for files that never come."""
    waits = ", 'source.monitor-interval' = '1 s'" if endless else ""
    return f"""
        CREATE TEMPORARY TABLE bid (
            auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
            `dateTime` TIMESTAMP(6), extra STRING,
            rt AS CAST(`dateTime` AS TIMESTAMP(3)), pt AS PROCTIME(),
            WATERMARK FOR rt AS rt - INTERVAL '4' SECOND)
        WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'parquet',
            'parquet.utc-timezone' = 'true'{waits})"""


def to_nowhere(question: str) -> str:
    """A job that answers and drops the answer."""
    return f"CREATE TABLE found WITH ('connector' = 'blackhole') AS {FLINK[question]}"


def only_parsing(question: str) -> str:
    """A job that reads what the question reads, and finds nothing."""
    columns = READS[question].split(", ")
    nothing = f"HASH_CODE(CAST({columns[0]} AS STRING)) IS NULL"
    return (
        "CREATE TABLE found WITH ('connector' = 'blackhole') AS "
        f"SELECT {READS[question]} FROM bid WHERE {nothing}"
    )


def to_files(question: str, folder: str) -> str:
    """A job that writes the answer, changes as JSON with what they do."""
    format = "'parquet', 'parquet.utc-timezone' = 'true'"
    if question in CHANGING:
        format = "'debezium-json', 'debezium-json.timestamp-format.standard' = 'ISO-8601'"
    return (
        "CREATE TABLE found WITH ('connector' = 'filesystem', "
        f"'path' = 'file://{folder}', 'format' = {format}) AS {FLINK[question]}"
    )
