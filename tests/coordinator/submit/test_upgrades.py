"""Whose state is whose when a program has changed: nothing is guessed, rules have examples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabric
from fabric import DataFrame, Process, ProcessContext, col, count, streams
from fabric.checkpoint.manifest import FileRecord, Manifest, NodeRecord, TaskSnapshot
from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.planner.node_records import is_generated, node_records, splits_of
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import StageGraph
from fabric.coordinator.submit.upgrade_rules import RULES, in_kind, judge
from fabric.coordinator.submit.upgrades import Upgrade, upgrade
from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.expr import Expr
from fabric.plan.node import Columns
from fabric.plan.nodes import Node, Plan, Sink, StreamScan, TopN, Union
from fabric.plan.nodes.groups import Groups, Late
from fabric.plan.sources import GeneratorStream, Split
from fabric.plan.targets import KafkaTarget, StreamFileTarget, Target
from fabric.plan.walk import rewrite, walk

FILE = FileRecord("rows", 1, 1)


def manifest_of(
    nodes: tuple[NodeRecord, ...], splits: dict[str, set[str]] | None = None
) -> Manifest:
    """Every node that may keep something has a file, sources have positions."""
    tasks = []
    for node in nodes:
        if node.path in (splits or {}):
            positions = tuple((each, b"7") for each in sorted((splits or {})[node.path]))
            tasks.append(TaskSnapshot(node.path, 0, 0, range(1), positions=positions))
        elif node.parts:
            tasks.append(TaskSnapshot(node.path, 0, 0, range(1), (FILE,)))
    return Manifest(
        job="job-1", checkpoint=5, epoch=1, run=0, wall_us=0, tasks=tuple(tasks), nodes=nodes
    )


# ---- whatever plans there are

NAMES = ["a", "b", "c", "top_n_1", "top_n_2", "top_n_3", "deduplicate_1", "deduplicate_2"]


@st.composite
def plans(draw: st.DrawFn) -> tuple[NodeRecord, ...]:
    found = {}
    for path in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6)):
        kind = draw(st.sampled_from(["top_n", "deduplicate"]))
        keys = (draw(st.sampled_from(["k: int64", "k: string"])),)
        schema = draw(st.sampled_from(["k: int64", "v: int64"]))
        parts = (
            ("late", draw(st.sampled_from(["drop", "side"]))),
            ("lateness_us", draw(st.sampled_from(["0", "5"]))),
            ("n", draw(st.sampled_from(["1", "2"]))),
        )
        named = len(path) == 1
        found[path] = NodeRecord(path, kind, f"{kind} {parts}", named, keys, schema, parts)
    return tuple(found[path] for path in sorted(found))


def pairs(found: Upgrade) -> dict[str, str]:
    return {c.old: c.new for c in found.changes if c.old and c.new and c.what != "refused"}


@given(plans())
def test_the_same_plan_keeps_everything(plan: tuple[NodeRecord, ...]) -> None:
    found = upgrade(manifest_of(plan), plan, {})
    assert [(c.what, c.old) for c in found.changes] == [("same", c.new) for c in found.changes]
    assert {change.old for change in found.changes} == {node.path for node in plan}
    assert found.is_plain
    assert found.lines == []


@given(plans(), plans())
def test_a_state_goes_to_one_step_that_can_have_it(
    old: tuple[NodeRecord, ...], new: tuple[NodeRecord, ...]
) -> None:
    found = upgrade(manifest_of(old), new, {})
    was, now = ({node.path: node for node in plan} for plan in (old, new))
    matched = pairs(found)
    assert len(set(matched.values())) == len(matched)
    for before, after in matched.items():
        a, b = was[before], now[after]
        assert (a.kind, a.keys, a.schema) == (b.kind, b.keys, b.schema)
        assert dict(a.parts)["n"] == dict(b.parts)["n"]
        assert int(dict(b.parts)["lateness_us"]) <= int(dict(a.parts)["lateness_us"])
    told = Counter(change.old for change in found.changes if change.old)
    assert told == Counter(was.keys()), "each state is told once"
    kept = {path for path in found.paths if found.paths[path] is not None}
    assert kept == matched.keys()


@given(plans(), plans())
def test_what_is_ambiguous_is_refused(
    old: tuple[NodeRecord, ...], new: tuple[NodeRecord, ...]
) -> None:
    """What was found without a name is the one that fits, of all that no name has found."""
    found = upgrade(manifest_of(old), new, {})
    matched = pairs(found)
    by_name = {n.path for n in old if n.named} & {n.path for n in new if n.named}
    if {shape(n) for n in old} == {shape(n) for n in new}:
        return  # nothing has changed but what rules allow
    free = [n for n in old if n.path not in by_name]
    left = [n for n in new if n.path not in by_name]
    for node in free:
        fits = [n for n in left if fit(n) == fit(node)]
        alike = [n for n in free if fit(n) == fit(node)]
        if node.path in matched:
            (step,) = [n for n in new if n.path == matched[node.path]]
            assert not (node.named and step.named)
            exact = [n for n in fits if n.parts == node.parts]
            twins = [n for n in alike if n.parts == node.parts]
            others = [n for n in fits if n.path not in matched.values()]
            assert (len(exact), len(twins)) == (1, 1) or not others
        else:
            (change,) = [c for c in found.changes if c.old == node.path]
            assert change.what == "refused"
            assert f'drop=["{node.path}"] leaves what it has kept behind' in change.why


def test_a_name_that_is_of_another_kind_now_takes_no_other_state() -> None:
    """It did, until its own state was dropped: then the state beside it went elsewhere."""
    late = (("late", "side"), ("lateness_us", "0"), ("n", "1"))
    old = (
        NodeRecord("c", "deduplicate", "first", True, ("k: int64",), "k: int64", late),
        NodeRecord("top_n_1", "top_n", "top", False, ("k: int64",), "k: int64", late),
    )
    drops = (("late", "drop"), *late[1:])
    new = (replace(old[1], path="c", named=True), replace(old[1], parts=drops))
    kept = {"top_n_1": "top_n_1"}
    assert pairs(upgrade(manifest_of(old), new, {})) == kept
    assert pairs(upgrade(manifest_of(old), new, {}, drop=["c"])) == kept


def fit(node: NodeRecord) -> object:
    parts = tuple(part for part in node.parts if part[0] != "late")
    return node.kind, node.keys, node.schema, parts


def shape(node: NodeRecord) -> object:
    return node.path, fit(node)


@given(plans(), st.data())
def test_what_is_dropped_is_gone_and_the_others_stay(
    plan: tuple[NodeRecord, ...], data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.sampled_from([n.path for n in plan]))) if plan else set()
    found = upgrade(manifest_of(plan), plan, {}, drop=sorted(gone))
    assert {old for old, new in found.paths.items() if new is None} == gone
    assert pairs(found) == {n.path: n.path for n in plan if n.path not in gone}


# ---- plans of programs


class Counting(Process):
    """Keeps something."""

    def on_rows(self, ctx: ProcessContext, key: int, rows: pa.RecordBatch) -> None:
        """Nothing."""


def graph_of(frame: DataFrame, target: Target | None = None, *others: DataFrame) -> StageGraph:
    """The stages of a program that writes frames, optimised as every plan is."""
    targets = [target or StreamFileTarget("parquet", "/out")]
    targets += [StreamFileTarget("parquet", f"/{n}") for n in range(len(others))]
    sinks = [Sink(f.plan.root, t) for f, t in zip([frame, *others], targets, strict=True)]
    plan = optimize(check(Plan(sinks[0] if len(sinks) == 1 else Union(tuple(sinks)))))
    splits = {}
    for node in walk(plan.root):
        if isinstance(node, StreamScan) and isinstance(node.source, GeneratorStream):
            n = node.source.n_splits
            splits[node.path] = [Split(f"{index}-of-{n}") for index in range(n)]
    return plan_stages(plan, splits, 2)


def changed(old: StageGraph, new: StageGraph, **asked: Any) -> Upgrade:
    manifest = manifest_of(node_records(old), splits_of(old))
    return upgrade(manifest, node_records(new), splits_of(new), **asked)


def rows(bound: str = "1 second", **options: Any) -> DataFrame:
    made = streams.generator(n_rows=100, n_splits=options.pop("n_splits", 2), **options)
    return made.with_watermark("ts", bound)


def windows(length: str = "1 second", frame: DataFrame | None = None, **options: Any) -> DataFrame:
    grouped = (frame or rows()).group_by("key")
    return grouped.window(length, **options).agg(count().alias("n")).named("counts")


def process(dtype: str = "int32", **more: Any) -> DataFrame:
    state = {"n": streams.value_state(dtype), **more}
    made = rows().process(Counting(), keys="key", schema={"n": "int64"}, state=state)
    return made.named("p")


def ruled(*columns: str, **more: Any) -> DataFrame:
    state = {"n": streams.value_state("int32")}
    rules = rows().select("key", *columns)
    made = rows().process(
        Counting(), keys="key", schema={"n": "int64"}, state=state, broadcast=rules, **more
    )
    return made.named("p")


def running() -> DataFrame:
    return rows().group_by("key").agg(count().alias("n")).named("counts").changes()


def modulo(n: int) -> DataFrame:
    return rows().group_by((col("key") % n).alias("k")).window("1 second").count().named("c")


def line(found: Upgrade, path: str) -> str:
    """What is said of a state; nothing when it is the same."""
    return next((text for text in found.lines if text.startswith(f"{path}: ")), "")


def near(before: str = "1s", key: Any = "key", how: Any = "inner", **more: Any) -> DataFrame:
    ago = col("ts").dt.offset_by(f"-{before}")
    return rows().join_interval(rows(), (ago, "ts"), "ts", by=key, how=how, **more).named("j")


def matched(within: str = "1 minute", by: Any = "key", **more: Any) -> DataFrame:
    options = {"measures": {"n": count()}, **more}
    return rows().match("A B", partition_by=by, within=within, **options).named("m")


CHANGES = [
    ("timeout", matched(), matched(timeout="side"), "m: changed: timeout was drop, is side"),
    ("match within", matched(), matched("2 minutes"), "m: refused: within was 1 minute, is"),
    ("match rows", matched(), matched(rows="all"), "m: refused: "),
    ("match key", matched(), matched(by="row"), "m: refused: its keys was key: int64, is"),
    ("watermark", rows(), rows("3 seconds"), "watermark_1: changed: its bound was 1 second, is 3"),
    ("source", rows(), rows(rows_per_s=5), "stream_scan_1: changed: rows_per_s was 0, is 5"),
    ("fewer", rows(), rows(n_splits=1), "stream_scan_1: refused: it has no split 0-of-2 any more"),
    ("anew", windows(), windows("2 seconds"), "counts: changed: the window was tumbling"),
    ("session", windows(), windows(fabric.session("1 second")), "counts: changed: the window was"),
    ("shorter", windows(lateness="5 seconds"), windows(), "counts: changed: the lateness was"),
    ("longer", windows(), windows(lateness="5 seconds"), "counts: refused: the lateness was"),
    ("early", windows(), windows(early="1 second").changes(), "counts: refused: changing results"),
    (
        "running", windows(), running(),
        "counts: refused: changing results was False, is True: only where",
    ),
    (
        "key", windows(), rows().group_by("row").window("1 second").agg(count().alias("n"))
        .named("counts"), "counts: refused: its keys was key: int64, is row: int64",
    ),
    (
        "computed", modulo(3), modulo(4), "c: refused: its computed keys and arguments was",
    ),
    (
        "aggregates", windows(), rows().group_by("key").window("1 second")
        .agg(count().alias("n"), col("value").sum()).named("counts"),
        "counts: refused: what it computes was count(), is count(), ",
    ),
    (
        "names", windows(), rows().group_by("key").window("1 second").agg(count().alias("m"))
        .named("counts"), "counts: changed: names of its results was n, is m",
    ),
    (
        "n", rows().top_n(3, by="value", keys="key").named("best").changes(),
        rows().top_n(2, by="value", keys="key").named("best").changes(),
        "best: refused: n was 3, is 2: the rows beyond the first ones are not kept",
    ),
    (
        "columns", rows().top_n(3, by="value", keys="key").named("best").changes(),
        rows().select("key", "value").top_n(3, by="value", keys="key").named("best").changes(),
        "best: refused: the columns of what it keeps was",
    ),
    (
        "ttl", rows().deduplicate("key", ttl="1 hour").named("first"),
        rows().deduplicate("key", ttl="2 hours").named("first"),
        "first: changed: ttl was 1 hour, is 2 hours",
    ),
    (
        "no ttl", rows().deduplicate("key").named("first"),
        rows().deduplicate("key", ttl="2 hours").named("first"), "first: refused: ttl was 0",
    ),
    (
        "keep", rows().deduplicate("key").named("first"),
        rows().deduplicate("key", keep="last").named("first").changes(), "first: refused: changing",
    ),
    ("apart", near(), near("2s"), "j: refused: lower was -1000000, is -2000000: it must stay"),
    ("joined key", near(), near(key="row"), "j: refused: its keys was key: int64, is row: int64"),
    ("joined how", near(), near(how="left"), "j: refused: how was inner, is left"),
    (
        "joined sum", near(key=(col("key") % 3).alias("k")), near(key=(col("key") % 4).alias("k")),
        "j: refused: left computed was",
    ),
    ("suffix", near(), near(suffix="_b"), "j: changed: suffix was _right, is _b"),
    ("salt", near(salt=4), near(salt=8), "j: refused: left computed was"),
    ("salted", near(), near(salt=8), "j: refused: its keys was key: int64, is key: int64, __salt"),
    (
        "joined columns", near(), near().select("key", "ts", "ts_right"),
        "j: refused: the columns of what it keeps was",
    ),
    ("ruled", process(), ruled(), "p: changed: broadcast was none, is key: int64"),
    ("unruled", ruled(), process(), "p: changed: broadcast was key: int64, is none"),
    ("rules", ruled(), ruled("row"), "p: refused: broadcast was key: int64, is key: int64, row: "),
    ("rule keys", ruled(), ruled(broadcast_keys="key"), "p: changed: broadcast keys was none, is"),
    ("widened", process(), process("int64"), "p: changed: state n was a value"),
    ("narrowed", process("int64"), process(), "p: refused: state n was a value"),
    (
        "state", process(), process(m=streams.value_state("int8")),
        "p: changed: state m is new",
    ),
    (
        "no state", process(m=streams.value_state("int8")), process(),
        "p: refused: state m is not there any more: what it has kept would be lost",
    ),
    (
        "kind", windows(), rows().deduplicate("key").named("counts"),
        "counts: refused: it was a stream_aggregate, .group_by",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_each_change_has_its_rule(old: DataFrame, new: DataFrame, said: str) -> None:
    found = changed(graph_of(old), graph_of(new), with_sinks=False)
    assert line(found, said.partition(":")[0]).startswith(said), found.lines
    if ": refused" in said:
        path = said.partition(":")[0]
        with pytest.raises(PlanError, match=r"the stream 'clicks' can't go on from checkpoint 5"):
            found.check("clicks", manifest_of(()))
        dropped = changed(graph_of(old), graph_of(new), with_sinks=False, drop=[path])
        assert line(dropped, path).startswith(f"{path}: dropped")
        assert dropped.paths[path] is None


def test_a_window_of_another_length_starts_anew_and_says_so() -> None:
    found = changed(graph_of(windows()), graph_of(windows("2 seconds")))
    assert "it starts anew, what was open is lost" in line(found, "counts")
    assert found.paths["counts"] is None
    assert found.paths["stream_scan_1"] == "stream_scan_1"


def test_a_source_may_have_more_splits() -> None:
    old, new = graph_of(rows()), graph_of(rows(rows_per_s=5))
    manifest = manifest_of(node_records(old), splits_of(old))
    more = {"stream_scan_1": splits_of(old)["stream_scan_1"] | {"another"}}
    found = upgrade(manifest, node_records(new), more)
    assert found.lines == ["stream_scan_1: changed: rows_per_s was 0, is 5"]
    assert found.is_plain


def test_parts_without_a_rule_must_stay() -> None:
    (node,) = (n for n in node_records(graph_of(windows())) if n.path == "counts")
    for part, value in node.parts:
        if part not in RULES[node.kind]:
            other = tuple((p, f"{v}!" if p == part else v) for p, v in node.parts)
            old = manifest_of((node,))
            (change,) = upgrade(old, (replace(node, parts=other),), {}).changes
            assert change.what == "refused", (part, value)


@dataclass(frozen=True, slots=True)
class Newest(Groups):
    """A step that no rule and no record knows by name."""

    keys: tuple[Expr, ...]
    closes: str = ""
    lateness_us: int = 0
    late: Late = "drop"
    kinds: bool = False

    WIRE: ClassVar[str] = "newest"

    def output(self, *inputs: pa.Schema) -> Columns:
        return [(field.name, field.type) for field in inputs[0]]

    def text(self) -> str:
        return ".newest()"


def test_a_new_step_keeps_the_columns_of_its_input() -> None:
    """Else rows of another type would be restored into it."""

    def newest(node: Node) -> Node:
        return Newest(node.input, node.keys, path=node.path) if isinstance(node, TopN) else node

    graph = graph_of(rows().top_n(3, by="value", keys="key").named("best").changes())
    stages = tuple(replace(each, root=rewrite(each.root, newest)) for each in graph.stages)
    (node,) = (n for n in node_records(replace(graph, stages=stages)) if n.kind == "newest")
    old = manifest_of((replace(node, schema=node.schema.replace("value: int64", "value: string")),))
    (change,) = upgrade(old, (node,), {}).changes
    assert change.what == "refused"
    assert "the columns of what it keeps was" in change.why


def test_a_name_alone_makes_no_difference() -> None:
    """A step that gets a name is found as the one that fits, whatever number it had."""
    old = rows().top_n(3, by="value", keys="key").changes()
    new = rows().top_n(3, by="value", keys="key").named("best").changes()
    found = changed(graph_of(old), graph_of(new))
    assert found.lines == ["best: renamed from top_n_1"]
    assert found.paths["top_n_1"] == "best"


def test_numbers_never_decide() -> None:
    def best(n: int) -> DataFrame:
        return rows().top_n(n, by="value", keys="key").changes()

    old = graph_of(best(1), None, best(2))
    new = graph_of(best(2), StreamFileTarget("parquet", "/0"))
    found = changed(old, new, drop=["top_n_1", "sink_1", "stream_scan_1", "watermark_1"])
    assert "top_n_1: renamed from top_n_2" in found.lines
    assert "sink_1: renamed from sink_2" in found.lines
    twins = changed(graph_of(best(1), None, best(1)), graph_of(best(1)))
    said = line(twins, "top_n_1")
    assert "is one of 2 states that fit top_n_1" in said
    assert 'renames={"top_n_1": "mine"}' in said


def test_a_name_is_not_given_to_another_step_without_a_word() -> None:
    old, new = windows(), windows().named("hourly")
    said = line(changed(graph_of(old), graph_of(new)), "counts")
    assert 'renames={"counts": "hourly"} if it goes on with this' in said
    found = changed(graph_of(old), graph_of(new), renames={"counts": "hourly"})
    assert found.lines == ["hourly: renamed from counts"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"renames": {"count": "counts"}}, 'no state "count"; did you mean "counts"'),
        ({"renames": {"counts": "hours"}}, 'has no step "hours"'),
        ({"renames": {"counts": "sink_1"}}, "is of a stream_aggregate, and sink_1 is a sink"),
        ({"drop": ["count"]}, r'drop=\["count"\]: the checkpoint has no state .* mean "counts"'),
        ({"drop": ["nothing"]}, "there are: counts, sink_1, stream_scan_1, watermark_1"),
        ({"drop": ["counts"], "renames": {"counts": "counts"}}, "dropped and renamed at once"),
        (
            {"renames": {"counts": "counts", "watermark_1": "counts"}},
            'gives "counts" two states|watermark_1 is of a watermark',
        ),
    ],
)  # fmt: skip
def test_what_there_is_not_is_refused_by_name(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        changed(graph_of(windows()), graph_of(windows()), **asked)


def test_a_sink_writes_where_it_wrote() -> None:
    elsewhere = StreamFileTarget("parquet", "/elsewhere")
    larger = StreamFileTarget("parquet", "/out", roll_rows=9)
    old = graph_of(windows())
    assert "sink_1: refused: no step of the program goes on with" in line(
        changed(old, graph_of(windows(), elsewhere)), "sink_1"
    )
    assert line(changed(old, graph_of(windows(), larger)), "sink_1").startswith("sink_1: changed")
    anew = changed(old, graph_of(windows(), elsewhere), with_sinks=False)
    assert anew.lines == []
    assert anew.paths["sink_1"] is None


def test_secrets_are_not_written_down() -> None:
    target = KafkaTarget("host:1", "t", secrets=(("sasl.password", "hush"),))
    (sink,) = (n for n in node_records(graph_of(rows(), target)) if n.kind == "sink")
    assert "hush" not in str(sink)
    assert ("target.topic", "t") in sink.parts


def test_paths_that_nobody_gave() -> None:
    assert is_generated("stream_aggregate_1", "stream_aggregate")
    assert is_generated("with_row_index_2/window", "window")
    assert not is_generated("counts_2024", "stream_aggregate")
    assert not is_generated("enrich/join", "join")


@pytest.mark.parametrize(("source", "goes_on"), [("kafka", True), ("collatz", False)])
def test_a_setting_may_change_if_its_own_source_says_so(source: str, goes_on: bool) -> None:
    """Kafka's `start` is for partitions without a position; that of others is what they read."""
    old, new = (
        NodeRecord(
            "numbers", "stream_scan", "", parts=(("source", source), ("source.start", start))
        )
        for start in ("27", "97")
    )
    assert (not judge(old, new).refused) == goes_on
    assert (in_kind(old) == in_kind(new)) == goes_on
