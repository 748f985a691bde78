"""``fabric config``: every setting, where it can be set, what it is now and why."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from fabric.clients.cli.options import Home, home_of
from fabric.settings import FILE, Setting, explain

_PASSWORD = re.compile(r"(://[^/@\s:]*):[^@\s]*@")


def config(
    explain_all: Annotated[
        bool, typer.Option("--explain", help="Every setting, not only those that were set.")
    ] = False,
    home: Home = None,
) -> None:
    """Print settings: those that are set, or with --explain all of them.

    An argument of a command says more than the environment, that more than the file, and that more
    than the default.
    """
    root = home_of(home).root
    settings = all_settings(root if home else None)
    wanted = settings if explain_all else [one for one in settings if one.origin != "default"]
    typer.echo(f"# file: {os.environ.get('FABRIC_CONFIG') or root / FILE}")
    if not wanted:
        typer.echo("# nothing is set; fabric config --explain prints all settings")
    for one in wanted:
        typer.echo("\n" + described(one))


def all_settings(home: Path | None) -> list[Setting]:
    """Those of an agent, a coordinator, planning anew, checkpoints and plans."""
    from fabric.config import AdaptiveConfig, AgentConfig, CheckpointConfig
    from fabric.coordinator.config import CoordinatorConfig
    from fabric.plan_rules import PlanRules

    environ = {**os.environ, **({"FABRIC_HOME": str(home)} if home else {})}
    return [
        *explain(AgentConfig, "agent", environ, home=home),
        *explain(CoordinatorConfig, "coordinator", environ, home=home),
        *explain(AdaptiveConfig, "adaptive", environ),
        *explain(CheckpointConfig, "checkpoint", environ),
        *explain(PlanRules, "plans", environ),
    ]


def described(one: Setting) -> str:
    """What, where, default, value and origin, in lines."""
    variables = [one.variable, *(f"FABRIC_{alias}".upper() for alias in one.aliases)]
    keys = [one.key, *one.aliases]
    lines = [
        f"{one.key} = {shown(one.name, one.value)}",
        f"  {one.meaning}{unit(one.name)}",
        f"  from {one.origin}, default {shown(one.name, one.default)}",
        f"  {' or '.join(variables)}; in the file: {' or '.join(keys)}",
    ]
    return "\n".join(lines)


def unit(name: str) -> str:
    """What a number of that name counts.

    >>> unit("idle_s"), unit("message_bytes"), unit("name")
    (' (seconds)', ' (bytes)', '')
    """
    for ending, text in (("_s", "seconds"), ("_bytes", "bytes"), ("_bytes_max", "bytes")):
        if name.endswith(ending):
            return f" ({text})"
    return " (bytes)" if name == "memory" else ""


def shown(name: str, value: Any) -> str:
    """`value` as it would be set; what is secret is masked."""
    from fabric.telemetry.logs import SECRET_WORDS

    if any(word in name for word in SECRET_WORDS):
        return "***"
    if value is None:
        return "off"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return os.pathsep.join(map(str, value)) or '""'
    return _PASSWORD.sub(r"\1:***@", str(value)) or '""'
