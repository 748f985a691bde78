"""Count the rows of a stream in windows of event time, and write the counts to files exactly once.

    python examples/stream_windows.py [FOLDER]

The stream ends after 20,000 rows, so the program ends, too. A stream without an end goes on until
`job.cancel()`; a job that is restarted continues from its last checkpoint.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import fabric
from fabric import streams

N_ROWS = 20_000


def main(folder: Path) -> fabric.DataFrame:
    """The counts as a frame over the files that the stream wrote."""
    with fabric.connect() as session:
        session.checkpoints(interval_s=1, folder=str(folder / "checkpoints"))
        clicks = streams.generator(n_rows=N_ROWS, n_keys=4, disorder="1 second", session=session)
        counts = (
            clicks.with_watermark("ts", "2 seconds")
            .group_by("key")
            .window("10 seconds")
            .agg(fabric.count().alias("clicks"), fabric.max("row").alias("newest"))
        )
        written = folder / "counts"
        counts.write_stream(streams.to_files(str(written), format="parquet")).wait()
    return fabric.read_parquet(str(written)).sort("window_end", "key")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary)).show()
