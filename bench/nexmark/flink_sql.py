"""The questions in Flink's SQL, over tables with the times `rt` (rows) and `pt` (clock).

One job: the statements, the settings, and the tables. They ask what those of Nexmark's own
repository for Flink ask, with days as dates, not texts, averages of doubles, and the best of a
window by a join of the same windows, which keeps ties (Flink ranks rows of a window by number
only). Flink knows what Fabric knows: that an auction is over after `OPEN_S`, so q4, q6 and q9 are
interval joins there, too, whose state does not grow. Its files can't be looked up, so q13 is a join
that keeps all rows; what a function of ours counts in q14, functions of Flink count.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.nexmark.data import OPEN_S, SIDE, SIDE_ROWS
from bench.nexmark.sql import (
    AUCTION,
    PARTITIONED,
    TABLES,
    bid_counts,
    by_price,
    distinct_counts,
)

SETTINGS = {
    "table.local-time-zone": "UTC",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "state.backend.type": "hashmap",
}
"""Like those of Nexmark's own repository; state lies on the heap, without checkpoints."""

COLUMNS = ("auction", "bidder", "price", "channel", "url", "`dateTime`", "extra")
_ALL = ", ".join(COLUMNS)
_FIVE = "auction, bidder, price, `dateTime`, extra"
_IN_TIME = f"""auction AS a JOIN bid AS b ON a.id = b.auction
            AND b.rt BETWEEN a.rt AND a.rt + INTERVAL '{OPEN_S}' SECOND
            AND b.`dateTime` <= a.expires"""
_WINNERS = f"""
        SELECT * FROM (SELECT *, ROW_NUMBER() OVER (
            PARTITION BY id ORDER BY price DESC, bid_time ASC) AS place
            FROM (SELECT a.id, {AUCTION}, a.`dateTime`, a.extra, bidder, price,
                b.`dateTime` AS bid_time, b.extra AS bid_extra FROM {_IN_TIME}))
        WHERE place <= 1"""
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_HOUR = "HOUR(`dateTime`)"
_COUNTS = """
    SELECT auction, COUNT(*) AS num, window_start, window_end
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rt), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end"""
_TENS = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(rt), INTERVAL '10' SECOND))"

FLINK = {
    "q0": f"SELECT {_FIVE} FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id AS auction
        FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
        SELECT category, AVG(CAST(final AS DOUBLE)) AS avg_final
        FROM (SELECT a.category, MAX(b.price) AS final FROM {_IN_TIME} GROUP BY a.id, a.category)
        GROUP BY category""",
    "q5": f"""
        SELECT c.auction, c.num, c.window_start AS begins, c.window_end AS ends
        FROM ({_COUNTS}) AS c JOIN (
            SELECT MAX(num) AS most, window_start, window_end FROM ({_COUNTS})
            GROUP BY window_start, window_end) AS m
        ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num = m.most""",
    "q6": f"""
        SELECT seller, AVG(CAST(price AS DOUBLE)) AS avg_price
        FROM (SELECT seller, price, ROW_NUMBER() OVER (
            PARTITION BY seller ORDER BY expires DESC, id DESC) AS nth FROM ({_WINNERS}))
        WHERE nth <= 10 GROUP BY seller""",
    "q7": f"""
        SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra
        FROM (SELECT * FROM {_TENS}) AS b JOIN (
            SELECT MAX(price) AS most, window_start, window_end FROM {_TENS}
            GROUP BY window_start, window_end) AS m
        ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.most""",
    "q8": """
        SELECT p.id, p.name, p.window_start
        FROM (SELECT id, name, window_start, window_end
            FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(rt), INTERVAL '10' SECOND))
            GROUP BY id, name, window_start, window_end) AS p
        JOIN (SELECT seller, window_start, window_end
            FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(rt), INTERVAL '10' SECOND))
            GROUP BY seller, window_start, window_end) AS a
        ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
    "q9": f"""
        SELECT id, {AUCTION}, `dateTime`, extra, bidder, price, bid_time, bid_extra
        FROM ({_WINNERS})""",
    "q10": f"""
        SELECT {_FIVE}, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS dt,
            DATE_FORMAT(`dateTime`, 'HH:mm') AS hm FROM bid""",
    "q11": """
        SELECT bidder, COUNT(*) AS bid_count, window_start AS begins, window_end AS ends
        FROM TABLE(SESSION(
            TABLE bid PARTITION BY bidder, DESCRIPTOR(rt), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q12": """
        SELECT bidder, COUNT(*) AS bid_count, window_start AS begins, window_end AS ends
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(pt), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q13": f"""
        SELECT b.auction, b.bidder, b.price, b.`dateTime`, s.`value`
        FROM bid AS b JOIN {SIDE} AS s ON MOD(b.auction, {SIDE_ROWS}) = s.`key`""",
    "q14": f"""
        SELECT auction, bidder, 0.908 * price AS price,
            CASE WHEN {_HOUR} BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN {_HOUR} <= 6 OR {_HOUR} >= 20 THEN 'nightTime'
                ELSE 'otherTime' END AS bid_time_type,
            `dateTime`, extra,
            CAST(CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS BIGINT) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"""
        SELECT CAST(`dateTime` AS DATE) AS `day`, {bid_counts()},
            {distinct_counts('bidder')}, {distinct_counts('auction')}
        FROM bid GROUP BY CAST(`dateTime` AS DATE)""",
    "q16": f"""
        SELECT channel, CAST(`dateTime` AS DATE) AS `day`,
            MAX(DATE_FORMAT(`dateTime`, 'HH:mm')) AS `minute`, {bid_counts()},
            {distinct_counts('bidder')}, {distinct_counts('auction')}
        FROM bid GROUP BY channel, CAST(`dateTime` AS DATE)""",
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
    "q20": f"""
        SELECT {", ".join(f"b.{name}" for name in COLUMNS)}, {AUCTION},
            a.`dateTime` AS auction_time, a.extra AS auction_extra
        FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10""",
    "q21": f"""
        SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0'
            WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
            ELSE {_CHANNEL_ID} END AS channel_id
        FROM bid WHERE {_CHANNEL_ID} IS NOT NULL
            OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,
            SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3
        FROM bid""",
}  # fmt: skip

_WHOLE = f"id, {AUCTION}, `dateTime`, extra, rt"
READS: Mapping[str, Mapping[str, str]] = {
    "q0": {"bid": _FIVE},
    "q1": {"bid": _FIVE},
    "q2": {"bid": "auction, price"},
    "q3": {"person": "id, name, city, state", "auction": "id, seller, category"},
    "q4": {"auction": "id, category, expires, rt", "bid": "auction, price, rt"},
    "q5": {"bid": "auction, rt"},
    "q6": {"auction": "id, seller, expires, rt", "bid": "auction, price, rt"},
    "q7": {"bid": f"{_FIVE}, rt"},
    "q8": {"person": "id, name, rt", "auction": "seller, rt"},
    "q9": {"auction": _WHOLE, "bid": f"{_FIVE}, rt"},
    "q10": {"bid": _FIVE},
    "q11": {"bid": "bidder, rt"},
    "q12": {"bid": "bidder"},
    "q13": {"bid": "auction, bidder, price, `dateTime`", SIDE: "`key`, `value`"},
    "q14": {"bid": _FIVE},
    "q15": {"bid": "auction, bidder, price, `dateTime`"},
    "q16": {"bid": "auction, bidder, price, channel, `dateTime`"},
    "q17": {"bid": "auction, price, `dateTime`"},
    "q18": {"bid": _ALL},
    "q19": {"bid": _ALL},
    "q20": {"auction": _WHOLE, "bid": _ALL},
    "q21": {"bid": "auction, bidder, price, channel, url"},
    "q22": {"bid": "auction, bidder, price, channel, url"},
}
"""The columns that a question needs, by table."""

CHANGING = {"q4", "q6", "q9", "q15", "q16", "q17", "q18", "q19"}
"""Their rows come as changes."""

_TIMES = """rt AS CAST(`dateTime` AS TIMESTAMP(3)), pt AS PROCTIME(),
            WATERMARK FOR rt AS rt - INTERVAL '4' SECOND"""
_SCHEMAS = {
    "person": f"""id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING,
            state STRING, `dateTime` TIMESTAMP(6), extra STRING, {_TIMES}""",
    "auction": f"""id BIGINT, itemName STRING, description STRING, initialBid BIGINT,
            reserve BIGINT, `dateTime` TIMESTAMP(6), expires TIMESTAMP(6), seller BIGINT,
            category BIGINT, extra STRING, {_TIMES}""",
    "bid": f"""auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
            `dateTime` TIMESTAMP(6), extra STRING, {_TIMES}""",
    SIDE: "`key` BIGINT, `value` STRING",
}


def tables(question: str, folders: Mapping[str, str], *, endless: bool = False) -> list[str]:
    """The tables of a question, by the folder of each; `endless` waits for files that never come.

    What an earlier question had is dropped.
    """
    waits = ", 'source.monitor-interval' = '1 s'" if endless else ""
    made = ["DROP TABLE IF EXISTS found"]
    for table in TABLES[question]:
        made += [f"DROP TEMPORARY TABLE IF EXISTS {table}", f"""
            CREATE TEMPORARY TABLE {table} ({_SCHEMAS[table]})
            WITH ('connector' = 'filesystem', 'path' = 'file://{folders[table]}',
                'format' = 'parquet', 'parquet.utc-timezone' = 'true'{waits})"""]  # fmt: skip
    return made


def to_nowhere(question: str) -> str:
    """A job that answers and drops the answer."""
    return f"CREATE TABLE found WITH ('connector' = 'blackhole') AS {FLINK[question]}"


def only_parsing(question: str) -> str:
    """A job that reads what the question reads, and finds nothing."""
    parts = []
    for table, columns in READS[question].items():
        texts = [f"CAST({column} AS STRING)" for column in columns.split(", ")]
        nothing = f"HASH_CODE({texts[0]}) IS NULL"
        parts.append(f"SELECT CONCAT({', '.join(texts)}) AS x FROM {table} WHERE {nothing}")
    joined = " UNION ALL ".join(parts)
    return f"CREATE TABLE found WITH ('connector' = 'blackhole') AS {joined}"


def to_files(question: str, folder: str) -> str:
    """A job that writes the answer, changes as JSON with what they do."""
    format = "'parquet', 'parquet.utc-timezone' = 'true'"
    if question in CHANGING:
        format = "'debezium-json', 'debezium-json.timestamp-format.standard' = 'ISO-8601'"
    columns = PARTITIONED.get(question)
    folders = f"PARTITIONED BY ({', '.join(columns)}) " if columns else ""
    return (
        f"CREATE TABLE found {folders}WITH ('connector' = 'filesystem', "
        f"'path' = 'file://{folder}', 'format' = {format}) AS {FLINK[question]}"
    )
