"""What the demo leaves: a picture of delays as bars, and a snippet to paste while its fabric is up.

One job: write them. The picture is drawn by matplotlib without a display.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_delays(carriers: pa.Table, weather: pa.Table, path: Path) -> Path:
    """Mean departure delay by carrier, and by what the sky did at each origin, in minutes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    ordered = carriers.sort_by([("mean_delay", "ascending")])
    left.barh(ordered["name"].to_pylist(), ordered["mean_delay"].to_pylist(), color="#2a6f97")
    left.set_title("Mean departure delay by carrier")
    left.set_xlabel("minutes")
    _draw_weather(right, weather)
    figure.suptitle("Flights out of New York, 2013")
    figure.savefig(path, dpi=110)
    return path


def _draw_weather(axes: Axes, weather: pa.Table) -> None:
    rows = weather.to_pylist()
    skies = [
        sky for sky in ("dry", "fog", "rain", "heavy rain") if any(r["sky"] == sky for r in rows)
    ]
    origins = sorted({row["origin"] for row in rows})
    width = 0.8 / len(origins)
    for index, origin in enumerate(origins):
        delay = {row["sky"]: row["mean_delay"] for row in rows if row["origin"] == origin}
        places = [place + index * width for place in range(len(skies))]
        heights = [delay.get(sky) or 0.0 for sky in skies]
        axes.bar(places, heights, width, label=origin)
    axes.set_xticks([p + 0.4 - width / 2 for p in range(len(skies))], skies)
    axes.set_title("… and by the weather of the departure hour")
    axes.set_ylabel("minutes")
    axes.legend(title="origin")


def snippet(url: str, dataset: str, token: Path, roots: Path | None = None) -> str:
    """Python that reads a dataset of the agents at `url` with DuckDB over plain pyarrow.flight."""
    trusts = (
        f'tls = {{"tls_root_certs": open({str(roots)!r}, "rb").read()}}' if roots else "tls = {}"
    )
    return f"""
# paste into another Python (needs pyarrow and duckdb)
import duckdb, pyarrow as pa, pyarrow.flight as flight
{trusts}
client = flight.connect({url!r}, **tls)
token = open({str(token.absolute())!r}, "rb").read().strip()
auth = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token)])
info = client.get_flight_info(flight.FlightDescriptor.for_path("dataset", {dataset!r}), auth)
rows = pa.concat_tables(
    flight.connect(end.locations[0], **tls).do_get(end.ticket, auth).read_all()
    for end in info.endpoints)
print(duckdb.sql("select * from rows order by mean_delay desc"))
"""
