"""What the core says, as protobuf.

One job: `Deploy`, `Locations` and `JobStatus` from a `Job`. A deploy is O(producers) for a stage
and an agent; a location never names pairs of producers and consumers. `page` cuts a long list of
jobs into pages, from the newest back, so that jobs that come in meanwhile change no later page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.planner.stages import (
    Edge,
    EdgeKind,
    EdgeMode,
    Key,
    Read,
    ScanSplits,
    Stage,
    steps_after,
)
from fabric.errors import ConfigError

KINDS: dict[EdgeKind, pb.EdgeKind] = {
    "hash": pb.EDGE_HASH,
    "broadcast": pb.EDGE_BROADCAST,
    "round_robin": pb.EDGE_ROUND_ROBIN,
    "gather": pb.EDGE_GATHER,
    "forward": pb.EDGE_FORWARD,
    "range": pb.EDGE_RANGE,
}
MODES: dict[EdgeMode, pb.EdgeMode] = {
    "materialised": pb.MODE_MATERIALISED,
    "pipelined": pb.MODE_PIPELINED,
}


def deploys(
    job: Job,
    stage: Stage,
    tasks: Iterable[int],
    epoch: int,
    hellos: Mapping[str, pb.Hello],
    *,
    stream: pb.StreamDeploy | None = None,
) -> dict[str, pb.Deploy]:
    """One message for each agent that was given some of `tasks` of `stage`, by agent id.

    `stream` is for the stages of the job's stream, if it has one.
    """
    by_agent: dict[str, list[int]] = {}
    for number in sorted(tasks):
        by_agent.setdefault(job.tasks[stage.stage, number].agent_id, []).append(number)
    inputs = [_input(job, edge) for edge in job.graph.inputs[stage.stage]]
    producers = sorted({p.agent_id for edge in inputs for p in edge.producers})
    common = pb.Deploy(
        job_id=job.job_id,
        stage=stage.stage,
        epoch=epoch,
        node_path=stage.path,
        kind=pb.STAGE_CHAIN if stage.kind == "chain" else pb.STAGE_FRAGMENT,
        fragment=job.fragments[stage.stage],
        n_tasks=stage.n_tasks,
        inputs=inputs,
        outputs=[output(edge) for edge in job.graph.outputs[stage.stage]],
        addresses={agent_id: _hello(hellos, agent_id).address for agent_id in producers},
        region=stage.region,
        run=job.run,
        sink_folder=job.checkpoint.folder if stage.is_sink else "",
        stream=stream if job.stream is not None and job.stream.region == stage.region else None,
    )
    threads = _threads(_at_work(job, stage), hellos)
    made = {}
    for agent_id, numbers in sorted(by_agent.items()):
        deploy = pb.Deploy()
        deploy.CopyFrom(common)
        deploy.tasks.extend(
            assignment(stage, number, job.tasks[stage.stage, number].attempt) for number in numbers
        )
        deploy.target_partitions = threads[agent_id]
        made[agent_id] = deploy
    return made


def _at_work(job: Job, stage: Stage) -> Counter[str]:
    """How many tasks of a stage each agent is at."""
    return Counter(task.agent_id for task in job.tasks.stage(stage.stage) if task.active)


def _threads(n_tasks: Mapping[str, int], hellos: Mapping[str, pb.Hello]) -> dict[str, int]:
    """Threads of a task of a stage, by agent: the tasks on one host share its processors."""
    hosts = {agent_id: _hello(hellos, agent_id).host or agent_id for agent_id in n_tasks}
    on_host = Counter[str]()
    for agent_id, n in n_tasks.items():
        on_host[hosts[agent_id]] += n
    return {
        agent_id: max(1, _hello(hellos, agent_id).cpus // on_host[host])
        for agent_id, host in hosts.items()
    }


def _hello(hellos: Mapping[str, pb.Hello], agent_id: str) -> pb.Hello:
    """What an agent said of itself; nothing when it is gone."""
    return hellos.get(agent_id) or pb.Hello()


def sink_message(job: Job, stage: int, command: pb.SinkCommand) -> pb.CoordinatorMessage:
    """What an agent is to do with what tasks of a sink stage prepared."""
    command.job_id, command.stage, command.state = job.job_id, stage, job.state_id
    command.node_path = job.graph.stages[stage].path
    command.plan, command.folder = job.sink_plan(stage), job.checkpoint.folder
    return pb.CoordinatorMessage(sink=command)


def attempt_key(job: Job, key: Key, task: Task) -> pb.TaskKey:
    """What agents call an attempt."""
    return pb.TaskKey(
        job_id=job.job_id, stage=key[0], task=key[1], attempt=task.attempt, epoch=task.epoch
    )


def edge_location(job: Job, edge: Edge, retain_s: float) -> pb.EdgeLocation:
    """Where the sealed output for an edge is, and once the job has ended, until when.

    A pipelined edge has no sealed output: its producers are all of them, to be tapped.
    """
    producers = _producers(job, edge, sealed_only=edge.mode == "materialised")
    rows, size = job.edge_totals(edge)
    return pb.EdgeLocation(
        job_id=job.job_id,
        node_path=edge.path,
        edge=edge.edge,
        schema=_schema(edge),
        n_partitions=edge.n_partitions,
        kind=KINDS[edge.kind],
        mode=MODES[edge.mode],
        producers=producers,
        complete=job.sealed(edge.producer),
        rows=rows,
        bytes=size,
        is_result=edge.is_result,
        n_producers=job.graph.stages[edge.producer].n_tasks,
        state=job.state if job.ended is not None else pb.JOB_UNKNOWN,
        release_s=0.0 if job.ended is None else job.wall_s(job.ended) + retain_s,
        error="" if job.error is None else job.error.message[:1024],
        ordered=edge.ordered,
    )


def job_status(job: Job, now: float) -> pb.JobStatus:
    """What a client is told about a job."""
    result = job.graph.result
    sinks = [stage.stage for stage in job.graph.stages if stage.is_sink]
    written = sum(job.tasks.of(stage).rows_out for stage in sinks)
    n_rows = written if sinks else job.edge_totals(result)[0]
    end = job.ended if job.ended is not None else now
    return pb.JobStatus(
        job_id=job.job_id,
        name=job.name,
        state=job.state,
        stages=[_stage_status(job, stage) for stage in job.graph.stages],
        error=to_detail(job.error) if job.error is not None else None,
        submitted_s=job.submitted_s,
        seconds=max(0.0, end - job.started),
        result_path=result.path,
        result_schema=job.schema,
        result_rows=n_rows,
        errors=[to_detail(error) for error in job.errors],
        n_attempts=job.tasks.n_attempts,
        run=job.run,
        parallelism=job.parallelism if job.stream is not None else 0,
        rescaling=job.rescaling if job.active else 0,
        reactive=job.reactivity is not None,
        client_key=job.client_key,
        waiting=job.waiting if job.active else "",
        stream=job.origin,
        stopped_at=job.stopped_at,
    )


def task_status(job: Job, key: Key, task: Task) -> pb.TaskStatus:
    """What is known of one attempt."""
    return pb.TaskStatus(
        stage=key[0],
        task=key[1],
        attempt=task.attempt,
        node_path=job.graph.stages[key[0]].path,
        agent_id=task.agent_id if task.given else "",
        state=task.state,
        started_s=task.started_s,
        ended_s=task.ended_s,
        rows_in=task.rows_in,
        rows_out=task.rows_out,
        backpressure_ratio=task.backpressure_ratio,
        error=to_detail(task.error) if task.error is not None else None,
        epoch=task.epoch,
        watermark_us=task.watermark_us,
    )


def _stage_status(job: Job, stage: Stage) -> pb.StageStatus:
    tasks, counts = job.tasks.stage(stage.stage), job.tasks.of(stage.stage)
    totals = [job.edge_totals(edge) for edge in job.graph.outputs[stage.stage]]
    return pb.StageStatus(
        stage=stage.stage,
        node_path=stage.path,
        n_tasks=stage.n_tasks,
        running=counts.running,
        finished=counts.finished,
        rows=counts.rows_out,
        bytes=sum(size for _, size in totals),
        backpressure_ratio=max((task.backpressure_ratio for task in tasks), default=0.0),
        adapted=stage.adapted,
        rows_in=sum(task.rows_in for task in tasks),
        watermark_us=_least(task.watermark_us for task in tasks),
        counts=_counted(tasks),
    )


def _counted(tasks: Iterable[Task]) -> list[pb.Counted]:
    """What all of them have counted."""
    total = sum((Counter(task.counts) for task in tasks), Counter[tuple[str, str]]())
    return [pb.Counted(node_path=node, name=name, n=n) for (node, name), n in sorted(total.items())]


def _least(times_us: Iterable[int | None]) -> int | None:
    """The least time; None while somebody has not said any."""
    known = list(times_us)
    return None if None in known else min((t for t in known if t is not None), default=None)


def assignment(stage: Stage, number: int, attempt: int) -> pb.TaskAssignment:
    """What one task of a stage reads."""
    return pb.TaskAssignment(
        task=number,
        attempt=attempt,
        scans=_scans(stage.splits[number] if stage.splits else ()),
        reads=[_read(edge, reads[number]) for edge, reads in stage.reads],
    )


def _read(edge: int, read: Read) -> pb.TaskRead:
    (begin, end), (first, last) = read.partitions, read.producers or (0, 0)
    return pb.TaskRead(
        edge=edge,
        first_partition=begin,
        end_partition=end,
        first_producer=first,
        end_producer=last,
    )


def _scans(scans: ScanSplits) -> list[pb.ScanSplits]:
    return [
        pb.ScanSplits(
            scan_id=scan_id,
            splits=[
                pb.Split(
                    uri=split.uri,
                    begin=split.begin,
                    end=split.end,
                    ticket=split.ticket,
                    n_rows=split.n_rows,
                    n_bytes=split.n_bytes,
                )
                for split in splits
            ],
        )
        for scan_id, splits in scans
    ]


def _input(job: Job, edge: Edge) -> pb.InputEdge:
    return pb.InputEdge(
        edge=edge.edge,
        kind=KINDS[edge.kind],
        mode=MODES[edge.mode],
        n_partitions=edge.n_partitions,
        schema=_schema(edge),
        producers=_producers(job, edge, sealed_only=False),
        node_path=edge.path,
        compression=_codec(edge),
        keys=edge.keys,
        readers=steps_after(job.graph, edge) if edge.mode == "pipelined" else (),
    )


def output(edge: Edge) -> pb.OutputEdge:
    """An edge as its producers are told of it."""
    return pb.OutputEdge(
        edge=edge.edge,
        kind=KINDS[edge.kind],
        mode=MODES[edge.mode],
        n_partitions=edge.n_partitions,
        schema=_schema(edge),
        keys=edge.keys,
        node_path=edge.path,
        buffer_batches=edge.buffer_batches,
        consumer_stage=0 if edge.is_result else edge.consumer,
        is_result=edge.is_result,
        compression=_codec(edge),
        side=edge.side,
    )


def _codec(edge: Edge) -> str:
    return "" if edge.compression == "none" else edge.compression


def _producers(job: Job, edge: Edge, *, sealed_only: bool) -> list[pb.Producer]:
    return [
        pb.Producer(task=number, attempt=task.attempt, agent_id=task.agent_id)
        for number, task in enumerate(job.tasks.stage(edge.producer))
        if not sealed_only or (task.finished and not task.lost)
    ]


def _schema(edge: Edge) -> bytes:
    return bytes(edge.schema.serialize())


def page(jobs: Iterable[pb.JobStatus], request: pb.ListRequest) -> pb.JobList:
    """The jobs of one page, oldest first; all of them when `limit` is 0.

    >>> jobs = [pb.JobStatus(job_id=name, submitted_s=at) for at, name in enumerate("abc")]
    >>> first = page(jobs, pb.ListRequest(limit=2))
    >>> [job.job_id for job in first.jobs], first.next
    (['b', 'c'], '1.0 b')
    >>> [job.job_id for job in page(jobs, pb.ListRequest(limit=2, before=first.next)).jobs]
    ['a']
    """
    wanted = [job for job in jobs if not request.states or job.state in request.states]
    wanted.sort(key=_place)
    if request.before:
        end = _read_place(request.before)
        wanted = [job for job in wanted if _place(job) < end]
    chosen = wanted[-request.limit :] if request.limit else wanted
    more = len(chosen) < len(wanted)
    return pb.JobList(jobs=chosen, next=_place_text(_place(chosen[0])) if more else "")


def _place(job: pb.JobStatus) -> tuple[float, str]:
    return job.submitted_s, job.job_id


def _place_text(place: tuple[float, str]) -> str:
    return f"{place[0]!r} {place[1]}"


def _read_place(text: str) -> tuple[float, str]:
    submitted, _, job_id = text.partition(" ")
    try:
        return float(submitted), job_id
    except ValueError:
        raise ConfigError("`before` must be the `next` of a page that was read earlier") from None
