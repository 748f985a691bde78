"""Where the boxes of a plan's picture go: layers from the sources down to the root.

One job: a layered drawing (Sugiyama, Tagawa and Toda 1981): a node's layer is its distance to the
root, edges over several layers get bends, neighbours are ordered by the mean place of what they are
joined to. O(sweeps x (nodes + edges)).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from fabric.plan.node import Node
from fabric.plan.walk import walk

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
