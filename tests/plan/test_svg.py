"""The picture: well-formed XML that stands alone; boxes apart, arrows downwards."""

from __future__ import annotations

from itertools import combinations
from random import Random
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.plan.expr import Alias, Column
from fabric.plan.nodes import Join, Limit, Node, Scan, Select, Union
from fabric.plan.sources import FileSource, MemorySource
from fabric.plan.svg import layout, svg
from fabric.plan.walk import walk
from tests.support.plans import random_plan, random_tables

TABLES = random_tables(Random(8))
NS = "{http://www.w3.org/2000/svg}"


@given(seed=st.integers(0, 1 << 32))
def test_it_is_xml_with_a_box_a_node_and_an_arrow_an_input(seed: int) -> None:
    root = random_plan(Random(seed), TABLES)
    picture = ElementTree.fromstring(svg(root))
    assert len(picture.findall(f"{NS}g")) == len(list(walk(root)))
    n_inputs = sum(len(node.children) for node in walk(root))
    assert len(picture.findall(f"{NS}path")) == 2 * n_inputs  # the line and its head
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    for box in picture.iter(f"{NS}rect"):
        x, y = float(box.attrib.get("x", 0)), float(box.attrib.get("y", 0))
        assert 0 <= x <= x + float(box.attrib["width"]) <= width
        assert 0 <= y <= y + float(box.attrib["height"]) <= height


@given(seed=st.integers(0, 1 << 32))
def test_boxes_of_a_layer_do_not_overlap_and_arrows_go_down(seed: int) -> None:
    root = random_plan(Random(seed), TABLES)
    placed = layout(root)
    for one, other in combinations(placed.places.values(), 2):
        assert one[1] != other[1] or abs(one[0] - other[0]) > 0.999
    for points in placed.edges:
        layers = [layer for _, layer in points]
        assert layers == list(range(layers[0], layers[-1] + 1))
    for node in walk(root):
        for child in node.children:
            assert placed.places[id(child)][1] < placed.places[id(node)][1]


def test_the_root_is_at_the_bottom_and_a_chain_is_straight() -> None:
    node: Node = Scan(MemorySource("t", 1), pa.schema([("a", pa.int32())]))
    for _ in range(5):
        node = Limit(node, 1)
    placed = layout(node)
    assert placed.places[id(node)] == (0, 5)
    assert {column for column, _ in placed.places.values()} == {0}


def test_nothing_comes_from_outside_and_nothing_breaks_out() -> None:
    name = "<script>alert('x')</script>&\x00\u202e"
    scan = Scan(
        FileSource("csv", (f"/{name}",)), pa.schema([("a", pa.int32())]), path=name + "\ud800"
    )
    text = svg(Select(scan, (Alias(Column("a"), name),)))
    ElementTree.fromstring(text.encode())
    assert "<script" not in text
    assert text.count("http") == 1  # the name of SVG's own namespace
    assert "style" not in text


@pytest.mark.parametrize("n", [1, 2, 7])
def test_many_inputs(n: int) -> None:
    schema = pa.schema([("a", pa.int32())])
    scans = tuple(Scan(MemorySource(f"t{i}", 1), schema) for i in range(n))
    union = Union(scans)
    root = Join(union, scans[0], (Column("a"),), (Column("a"),))
    assert layout(root).n_layers == 3
    assert svg(root).count("<title>") == n + 3
