"""The demo's pictures: delays as bars, the job graph as SVG.

One job: write two files. Drawn by matplotlib without a display; the graph by `fabric.plan.svg`.
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
