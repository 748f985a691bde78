"""``fabric.connect``: one call for every kind of session.

One job: choose the kind of session and open it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fabric.clients.session.address import find_token, is_spark, parse_address, read_roots
from fabric.config import TLS
from fabric.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from fabric.clients.dataframe.durations import Length
    from fabric.clients.session.session import Session


def connect(
    target: str | None = None,
    *,
    token: str | None = None,
    serve: bool = False,
    parallelism: int | None = None,
    latency: Length | None = None,
    spark: SparkSession | None = None,
    datasets: str | Session | None = None,
    tls_roots: str | Path | None = None,
    insecure: bool = False,
) -> Session:
    """Open a session; frames that name no session run on the newest open one.

    Parameters
    ----------
    target
        None runs everything in this process. ``"fabric://host:6123"`` is a coordinator,
        ``"fabric+tls://host:6123"`` one with TLS, ``"fabric://a:6123,b:6123"`` whichever of several
        leads. ``"spark://host:7077"`` and ``"local[2]"`` are Spark masters, ``"spark"`` is the
        Spark that runs in this process or else one on all cores.
    token
        Of a remote fabric; default: the variable FABRIC_TOKEN, else ``token`` in FABRIC_HOME.
    serve
        Embedded only: also serve this session's jobs to Flight clients on a free local port.
    parallelism
        Tasks a stage; default: one for each agent. On Spark: partitions after a shuffle.
    latency
        How long a row of a stream may be gathered with others on its whole way, as ``"1 ms"``; more
        is cheaper. Default: the coordinator's, 20 ms; `submit` and `configure` may say otherwise.
    spark
        Run on this PySpark session; it stays open when ours is closed.
    datasets
        Spark only: the fabric whose datasets are read and written, an address or a session.
        Default, when Spark runs on this machine: one in this process, as long as the session lives.
    tls_roots
        With TLS: a file of the certificates (PEM) that may have signed the fabric's; default: the
        variable FABRIC_TLS_ROOTS, else those that gRPC trusts by itself.
    insecure
        Send the token without TLS to another machine, where whoever is on the way can read it.

    Raises
    ------
    ConfigError, AuthError, PeerLostError
        When the address is no address, the token is missing or wrong, or nobody answers there.
    ExternalError
        When Spark is asked for, and PySpark or Java is missing or too old.

    Examples
    --------
    >>> import fabric
    >>> with fabric.connect() as session:
    ...     session.read_arrow({"a": [1, 2]}).count()
    2
    """
    remote = partial(_remote, token=token, tls_roots=tls_roots, insecure=insecure)
    if spark is not None or (target is not None and is_spark(target)):
        _check_spark(serve, latency, token if not isinstance(datasets, str) else None)
        return _on_spark(target, parallelism, spark, datasets, remote)
    if datasets is not None:
        raise ConfigError("datasets=... is for sessions on Spark; other fabrics have their own")
    if target is None:
        if token is not None:
            raise ConfigError("an embedded session needs no token; give connect an address too")
        from fabric.clients.session.local import EmbeddedSession

        return EmbeddedSession(serve=serve, parallelism=parallelism, latency=latency)
    if serve:
        raise ConfigError("serve=True is for embedded sessions; a remote fabric serves already")
    return remote(target, parallelism, latency)


def _remote(
    target: str,
    parallelism: int | None = None,
    latency: Length | None = None,
    *,
    token: str | None,
    tls_roots: str | Path | None,
    insecure: bool,
) -> Session:
    from fabric.clients.session.remote import RemoteSession

    address = parse_address(target)
    return RemoteSession(
        address,
        token or find_token(),
        parallelism=parallelism,
        latency=latency,
        tls_roots=read_roots(tls_roots) if address.startswith(TLS) else None,
        insecure=insecure,
    )


def _check_spark(serve: bool, latency: Length | None, token: str | None) -> None:
    """Refuse what means nothing on Spark."""
    if serve:
        raise ConfigError("serve=True is for embedded sessions; Spark serves no Flight clients")
    if latency is not None:
        raise ConfigError("latency=... is of streams, and those don't run on Spark")
    if token is not None:
        raise ConfigError('Spark needs no token; it is for datasets="fabric://host:6123"')


def _on_spark(
    target: str | None,
    parallelism: int | None,
    spark: SparkSession | None,
    datasets: str | Session | None,
    opens: Callable[[str], Session],
) -> Session:
    """A session on Spark and, when an address is given, one on the fabric of its datasets."""
    from fabric.clients.spark.plan.session import SparkPlanSession

    if spark is not None and target is not None:
        raise ConfigError(f"give an address or a Spark session, not both; got {target!r}")
    return SparkPlanSession(
        target or "spark",
        spark=spark,
        datasets=None if isinstance(datasets, str) else datasets,
        opens=partial(opens, datasets) if isinstance(datasets, str) else None,
        parallelism=parallelism,
    )
