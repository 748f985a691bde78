"""A plan as a picture: boxes from the sources down to the result, arrows the way rows go.

`svg` returns a picture that stands alone (no script, font, style sheet or link outside). Each box
has the path, the step and the output columns; the whole text shows when the mouse rests on it.

The places of the boxes are a layered drawing (Sugiyama, Tagawa and Toda 1981): the layer of a node
is its distance to the root, edges over several layers get bends, and neighbours are ordered by the
mean place of what they are joined to. O(sweeps x (nodes + edges)).
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from fabric.plan.node import Node, Role
from fabric.plan.paths import display_paths
from fabric.plan.printer import columns_text, columns_within
from fabric.plan.walk import walk

BOX_WIDTH, BOX_HEIGHT = 330, 62
GAP_X, GAP_Y, MARGIN = 28, 34, 16
_LETTERS = 44  # of 11 px monospace in a box
_COLORS: dict[Role, str] = {
    "source": "#2e7d32", "exchange": "#d9690f", "sink": "#7b3fa0", "combine": "#1f5fa8",
    "group": "#b3261e", "time": "#00838f", "step": "#5f6b7a",
}  # fmt: skip


def svg(root: Node) -> str:
    """The picture of the plan under `root` as the text of an SVG file.

    >>> from fabric.plan.nodes import Limit, StageInput
    >>> import pyarrow as pa
    >>> svg(Limit(StageInput(0, pa.schema([("a", pa.int32())])), 3)).count("<rect")
    5
    """
    placed = layout(root)
    paths = display_paths(root)
    right = max(column for column, _ in placed.places.values())
    width = round(2 * MARGIN + BOX_WIDTH + right * (BOX_WIDTH + GAP_X))
    height = 2 * MARGIN + placed.n_layers * (BOX_HEIGHT + GAP_Y) - GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-family="ui-monospace, Menlo, Consolas, monospace" '
        'font-size="11">',
        "<title>plan</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *(_arrow(points) for points in placed.edges),
        *(_box(node, paths[id(node)], placed) for node in walk(root)),
        "</svg>",
    ]
    return "\n".join(parts)


def _left(column: float) -> float:
    return MARGIN + column * (BOX_WIDTH + GAP_X)


def _top(layer: int) -> float:
    return MARGIN + layer * (BOX_HEIGHT + GAP_Y)


def _box(node: Node, path: str, placed: Layout) -> str:
    """One node: frame, coloured edge, three lines."""
    column, layer = placed.places[id(node)]
    x, y = _left(column), _top(layer)
    color = _COLORS[node.ROLE]
    step, columns = node.text(), columns_within(node, _LETTERS)
    lines = (
        (path, 18, 'font-weight="bold" fill="#1b1f24"'),
        (step, 35, 'fill="#1b1f24"'),
        (columns, 52, 'fill="#5f6b7a"'),
    )
    texts = "".join(
        f'<text x="{x + 14:.1f}" y="{y + down:.1f}" {style}>{_cut(text)}</text>'
        for text, down, style in lines
    )
    return (
        f"<g><title>{_safe(f'{path}: {step} -> {columns_text(node, 1000)}')}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" '
        f'fill="#f7f8fa" stroke="#c9d0d8"/>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="6" height="{BOX_HEIGHT}" rx="3" fill="{color}"/>'
        f"{texts}</g>"
    )


def _arrow(points: list[tuple[float, int]]) -> str:
    """The line from the bottom of a box, down through its bends, to the top of the next box."""
    middle = BOX_WIDTH / 2
    (column, layer), *rest = points
    x, y = _left(column) + middle, _top(layer) + BOX_HEIGHT
    path = [f"M{x:.1f},{y:.1f}"]
    for place, (column, layer) in enumerate(rest, 1):
        end = place == len(rest)
        to_x, to_y = _left(column) + middle, _top(layer) - (6 if end else 0)
        bend = (to_y - y) / 2
        path.append(f"C{x:.1f},{y + bend:.1f} {to_x:.1f},{to_y - bend:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
        if not end:  # straight past the boxes of a layer
            y += BOX_HEIGHT
            path.append(f"V{y:.1f}")
    head = f"M{x - 4:.1f},{y - 1:.1f}L{x:.1f},{y + 6:.1f}L{x + 4:.1f},{y - 1:.1f}Z"
    line = f'<path d="{"".join(path)}" fill="none" stroke="#8a94a0" stroke-width="1.5"/>'
    return f'{line}<path d="{head}" fill="#8a94a0"/>'


def _cut(text: str) -> str:
    return _safe(text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…")


def _safe(text: str) -> str:
    """Text for XML, which has no control characters at all."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


_SWEEPS = 40


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns (floats, at least 1 apart in a layer) and layers (0 on top) of nodes by ``id(node)``.

    `edges` are polylines of (column, layer) from a node to what reads it, bends between.
    """

    places: dict[int, tuple[float, int]]
    edges: list[list[tuple[float, int]]]
    n_layers: int


def layout(root: Node) -> Layout:
    """Place every node of the plan once."""
    nodes = list(walk(root))
    layer_of = _layers(nodes)
    layers: list[list[int]] = [[] for _ in range(max(layer_of.values()) + 1)]
    for node in nodes:
        layers[layer_of[id(node)]].append(id(node))
    chains = _chains(nodes, layer_of, layers)
    column_of = _columns(layers, chains)
    # bends are negative numbers, ids of nodes are not
    at = {item: (column_of[item], y) for y, layer in enumerate(layers) for item in layer}
    edges = [[at[item] for item in chain] for chain in chains]
    return Layout({id(node): at[id(node)] for node in nodes}, edges, len(layers))


def _layers(nodes: list[Node]) -> dict[int, int]:
    """Layer by id: the longest way to the root, counted from the farthest source."""
    height = {id(node): 0 for node in nodes}
    for node in reversed(nodes):  # parents before children
        for child in node.children:
            height[id(child)] = max(height[id(child)], height[id(node)] + 1)
    top = max(height.values())
    return {key: top - value for key, value in height.items()}


def _chains(
    nodes: list[Node], layer_of: dict[int, int], layers: list[list[int]]
) -> list[list[int]]:
    """One chain of items an edge, with a bend in each layer it passes; bends join `layers`."""
    chains, bend = [], 0
    for node in nodes:
        for child in node.children:
            chain = [id(child)]
            for layer in range(layer_of[id(child)] + 1, layer_of[id(node)]):
                bend -= 1
                layers[layer].append(bend)
                chain.append(bend)
            chains.append([*chain, id(node)])
    return chains


def _columns(layers: list[list[int]], chains: list[list[int]]) -> dict[int, float]:
    """A column for every item, near the mean of its neighbours' columns."""
    joined: dict[int, list[int]] = {item: [] for layer in layers for item in layer}
    for chain in chains:
        for above, below in pairwise(chain):
            joined[above].append(below)
            joined[below].append(above)
    column = {item: float(i) for layer in layers for i, item in enumerate(layer)}
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            wanted = {item: _mean([column[other] for other in joined[item]], column[item])
                      for item in layer}  # fmt: skip
            layer.sort(key=lambda item: wanted[item])
            _spread(layer, wanted, column)
    left = min(column.values())
    return {item: value - left for item, value in column.items()}


def _spread(layer: list[int], wanted: dict[int, float], column: dict[int, float]) -> None:
    """Give each item of an ordered layer the column it wants, 1 apart at least, centred."""
    last = float("-inf")
    for item in layer:
        last = max(wanted[item], last + 1)
        column[item] = last
    shift = _mean([wanted[item] - column[item] for item in layer], 0.0)
    for item in layer:
        column[item] += shift


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default
