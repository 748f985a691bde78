"""``fabric datasets``: the datasets of a fabric, and whether all their replicas are there."""

from __future__ import annotations

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session


def datasets(connect: Connect = LOCAL, token: Token = "") -> None:
    """List the datasets of a fabric.

    Lacking are partitions with fewer attached owners than the dataset has replicas.
    """
    from fabric.clients.cli.tables import datasets_table, show

    with open_session(connect, token) as session:
        show(datasets_table(session.dataset_list()), "there are no datasets")
