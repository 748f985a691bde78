from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.config import AdaptiveConfig, AgentConfig, CheckpointConfig, FabricHome, default_home
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import ConfigError, StorageError
from fabric.plan_rules import PlanRules
from fabric.settings import explain, load
from fabric.values import ByteSize
from tests.support.arrays import examples


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path / "x"))
    assert default_home() == tmp_path / "x"
    home = FabricHome().create()
    assert home.root.stat().st_mode & 0o777 == 0o700
    assert home.secret == tmp_path / "x" / "secret"
    assert AgentConfig(name="3").files == tmp_path / "x" / "agents" / "3"
    monkeypatch.delenv("FABRIC_HOME")
    assert default_home() == Path.home() / ".fabric"
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't make the folder"):
        FabricHome(tmp_path / "file" / "below").create()


def test_environment_then_arguments() -> None:
    environ = {"FABRIC_AGENT_IDLE_S": "2.5", "FABRIC_AGENT_PORT": "7", "FABRIC_AGENT_HOME": "/h",
               "FABRIC_AGENT_FOLDER": "/f", "FABRIC_TOKEN": "x", "OTHER": "y"}  # fmt: skip
    config = load(AgentConfig, "agent", environ, port=9, folder=None)
    assert (config.idle_s, config.port) == (2.5, 9)
    assert (config.home, config.files) == (Path("/h"), Path("/f"))
    with pytest.raises(FrozenInstanceError):
        config.port = 1  # type: ignore[misc]


def test_switches() -> None:
    for text, on in (("1", True), ("true", True), ("0", False), ("false", False)):
        assert load(AgentConfig, "agent", {"FABRIC_AGENT_UNIX_SOCKETS": text}).unix_sockets is on


@pytest.mark.parametrize(
    ("environ", "given", "message"),
    [
        ({"FABRIC_AGENT_PROT": "1"}, {}, "AGENT_PROT is unknown; did you mean FABRIC_AGENT_PORT"),
        ({}, {"prot": 1}, "setting prot is unknown; did you mean port"),
        ({"FABRIC_AGENT_PORT": "x"}, {}, "FABRIC_AGENT_PORT must be int, got 'x'"),
        ({"FABRIC_AGENT_UNIX_SOCKETS": "maybe"}, {}, "UNIX_SOCKETS must be 1 or 0, got 'maybe'"),
        ({}, {"port": 65536}, "port must be 0 to 65535"),
        ({}, {"idle_s": 0}, "idle_s must be positive, got 0"),
        ({}, {"slots": -1}, "slots must be positive"),
        ({}, {"streams_max": 0}, "streams_max must be positive"),
        ({}, {"host": "0.0.0.0"}, "refusing to listen on '0.0.0.0' without TLS"),
        ({}, {"host": "agent.example"}, "without TLS"),
        ({}, {"tls_key": Path("k")}, "belong together"),
        ({"FABRIC_AGENT_MEMORY": "lots"}, {}, "AGENT_MEMORY: a size is a number and a unit"),
        ({"FABRIC_AGENT_MEMORY": "100MB"}, {}, "memory must be at least 384 MiB, got 100000000"),
        ({}, {"peer_requests_max": 0}, "peer_requests_max must be positive"),
    ],
)  # fmt: skip
def test_refusals(environ: dict[str, str], given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(AgentConfig, "agent", environ, **given)


def test_sizes_and_folders() -> None:
    environ = {"FABRIC_AGENT_MEMORY": "1.5GiB", "FABRIC_AGENT_SPILL_FOLDERS": "/a:/b"}
    config = load(AgentConfig, "agent", environ)
    assert (config.memory, config.spills_to) == (3 << 29, (Path("/a"), Path("/b")))
    assert AgentConfig(folder=Path("/f")).spills_to == (Path("/f/spill"),)
    sizes = {"1": 1, "1b": 1, "2k": 2000, "2KiB": 2048, "3 MB": 3_000_000, "1G": 10**9}
    assert {text: int(ByteSize(text)) for text in sizes} == sizes
    for wrong in ("", "-1", "1XB", "1 2", "MB"):
        with pytest.raises(ConfigError, match="a size is a number and a unit"):
            ByteSize(wrong)


def test_other_hosts_need_tls() -> None:
    tls = {"tls_certificate": Path("c"), "tls_key": Path("k")}
    assert AgentConfig(host="0.0.0.0", **tls).scheme == "grpc+tls"  # type: ignore[arg-type]
    assert AgentConfig(host="::1").scheme == AgentConfig(host="localhost").scheme == "grpc+tcp"


def test_checkpoint_settings_from_the_environment_and_the_file(tmp_path: Path) -> None:
    environ = {"FABRIC_CHECKPOINT_INTERVAL_S": "2", "FABRIC_CHECKPOINT_FAILURES_MAX": "3"}
    alone = load(CheckpointConfig, "checkpoint", environ)
    assert (alone.interval_s, alone.failures_max) == (2.0, 3)
    (tmp_path / "fabric.toml").write_text('[checkpoint]\nretained = 5\nstate = "rocksdb"\n')
    found = load(CoordinatorConfig, "coordinator", environ, home=tmp_path).checkpoint
    assert (found.interval_s, found.retained, found.state) == (2.0, 5, "rocksdb")
    placed = {"FABRIC_COORDINATOR_PLACEMENT": "bin_pack"}
    assert load(CoordinatorConfig, "coordinator", placed).placement == "bin_pack"
    with pytest.raises(ConfigError, match="'arrow', 'tonbo' or 'auto', got 'disk'"):
        load(CheckpointConfig, "checkpoint", {"FABRIC_CHECKPOINT_STATE": "disk"})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"interval_s": "1"}, "interval_s must be a number, got '1'"),
        ({"min_pause_s": True}, "min_pause_s must be a number, got True"),
        ({"retained": 2.5}, "retained must be a whole number, got 2.5"),
        ({"failures_max": "3"}, "failures_max must be a whole number, got '3'"),
        ({"seen_twice": "no"}, "seen_twice must be True or False, got 'no'"),
        ({"interval_s": 0}, "interval_s must be positive, got 0"),
    ],
)
def test_checkpoint_settings_are_of_their_kind(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        CheckpointConfig(**given)


def test_adaptive_settings_from_the_environment() -> None:
    environ = {"FABRIC_ADAPTIVE_ENABLED": "0", "FABRIC_ADAPTIVE_SKEW_FACTOR": "2.5"}
    config = load(AdaptiveConfig, "adaptive", environ, target_bytes=7)
    assert (config.enabled, config.skew_factor, config.target_bytes) == (False, 2.5, 7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target_bytes": 0}, "target_bytes must be positive, got 0"),
        ({"tiny_bytes": -1}, "tiny_bytes must not be negative, got -1"),
        ({"broadcast_bytes": -1}, "broadcast_bytes must not be negative"),
        ({"skew_factor": 0.5}, "skew_factor must be 1 or more, got 0.5"),
        ({"skew_factor": float("nan")}, "skew_factor must be 1 or more, got nan"),
    ],
)
def test_adaptive_settings_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AdaptiveConfig(**given)


def file_of(folder: Path, text: str) -> dict[str, str]:
    path = folder / "settings.toml"
    path.write_text(text)
    return {"FABRIC_CONFIG": str(path)}


PLACES = ("argument", "environment", "file")


@given(
    st.dictionaries(
        st.sampled_from(["slots", "idle_s", "port", "name", "unix_sockets", "memory"]),
        st.fixed_dictionaries({}, optional={place: st.integers(1, 900) for place in PLACES}),
    )
)
@examples()
def test_arguments_before_environment_before_file_before_defaults(
    chosen: dict[str, dict[str, int]],
) -> None:
    """Whatever is set wherever, the first place that says something wins."""
    makes: dict[str, Any] = {
        "slots": int, "port": int, "idle_s": float, "name": str,
        "unix_sockets": lambda n: bool(n % 2), "memory": lambda n: ByteSize((400 + n) << 20),
    }  # fmt: skip
    texts = {"unix_sockets": lambda v: str(int(v)), "memory": lambda v: f"{v >> 20}MiB"}
    arguments, environ, lines, wanted = {}, {}, ["[agent]"], {}
    for name, places in chosen.items():
        values = {place: makes[name](number) for place, number in places.items()}
        if "argument" in values:
            arguments[name] = values["argument"]
        if "environment" in values:
            text = texts.get(name, str)(values["environment"])
            environ[f"FABRIC_AGENT_{name.upper()}"] = text
        if "file" in values:
            lines.append(f"{name} = {json.dumps(values['file'])}")
        first = next((values[place] for place in PLACES if place in values), None)
        wanted[name] = getattr(AgentConfig(), name) if first is None else first
    with TemporaryDirectory() as folder:
        environ |= file_of(Path(folder), "\n".join(lines))
        config = load(AgentConfig, "agent", environ, **arguments)
        told = {one.name: one for one in explain(AgentConfig, "agent", environ, **arguments)}
    assert {name: getattr(config, name) for name in wanted} == wanted
    for name, places in chosen.items():
        assert told[name].value == wanted[name]
        origin = {"argument": "argument", "environment": f"FABRIC_AGENT_{name.upper()}",
                  "file": f": agent.{name}"}  # fmt: skip
        first_place = next((place for place in PLACES if place in places), None)
        assert told[name].origin.endswith(origin[first_place] if first_place else "default")


def test_well_known_names(tmp_path: Path) -> None:
    environ = {"FABRIC_TASK_SLOTS": "3", "FABRIC_HEARTBEAT_INTERVAL": "1s"}
    environ |= file_of(tmp_path, 'heartbeat_timeout = "5000ms"\ntask_slots = 9\n')
    assert load(AgentConfig, "agent", environ).slots == 3
    config = load(CoordinatorConfig, "coordinator", environ)
    assert (config.heartbeat_s, config.timeout_s) == (1.0, 5.0)
    plain = CoordinatorConfig()
    assert (plain.heartbeat_s, plain.timeout_s, AgentConfig().slots) == (5.0, 15.0, 4)


def test_the_file_in_the_state_folder(tmp_path: Path) -> None:
    text = '[agent]\nspill_folders = ["/a", "/b"]\nmemory = "1GiB"\n[adaptive]\nenabled = false\n'
    (tmp_path / "fabric.toml").write_text(text + '[coordinator]\nrest_port = "off"\n')
    config = load(AgentConfig, "agent", {"FABRIC_HOME": str(tmp_path)})
    assert (config.spill_folders, config.memory) == ((Path("/a"), Path("/b")), 1 << 30)
    coordinator = load(CoordinatorConfig, "coordinator", {}, home=tmp_path)
    assert (coordinator.rest_port, coordinator.adaptive.enabled) == (None, False)
    assert load(CoordinatorConfig, "coordinator", {}, home=tmp_path, rest_port="0").rest_port == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[agnet]\n", "section or setting agnet is unknown; did you mean agent"),
        ("[agent]\nprot = 1\n", r"agent\.prot is unknown; did you mean agent\.port"),
        ("[agent]\nport = true\n", r"agent\.port must be int, got 'True'"),
        ("[agent]\nport = 1.5\n", r"agent\.port must be int, got '1.5'"),
        ("[agent]\nport = 1979-05-27\n", r"agent\.port must be int"),
        ("[agent]\nname = 1\n", r"agent\.name must be str, got '1'"),
        ("[agent]\nunix_sockets = 2\n", r"unix_sockets must be 1 or 0, got '2'"),
        ("[agent]\nspill_folders = [1]\n", r"spill_folders must be Folders"),
        ("agent = 1\n", r"agent is a section: write \[agent\]"),
        ("task_slots = 1\n[agent]\nslots = 1\n", r"task_slots and agent\.slots are the same"),
        ("port = \n", "are not TOML"),
        ("[agent]\nport = 70000\n", "port must be 0 to 65535"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(AgentConfig, "agent", file_of(tmp_path, text))


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"FABRIC_TASK_SLOT": "1"}, "TASK_SLOT is unknown; did you mean FABRIC_TASK_SLOTS"),
        ({"FABRIC_AGNT_PORT": "1"}, "AGNT_PORT is unknown; did you mean FABRIC_AGENT_PORT"),
        ({"FABRIC_TASK_SLOTS": "1", "FABRIC_AGENT_SLOTS": "1"}, "are the same setting; set one"),
        ({"FABRIC_CONFIG": "/nowhere/x.toml"}, "can't read the settings /nowhere/x.toml"),
    ],
)
def test_variables_that_are_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(AgentConfig, "agent", environ)
    assert load(AgentConfig, "agent", {"FABRIC_CFG_PATH": "somebody else's"}).port == 0


def test_times_have_units() -> None:
    with pytest.raises(ConfigError, match="HEARTBEAT_INTERVAL: a time is a number and its unit"):
        load(CoordinatorConfig, "coordinator", {"FABRIC_HEARTBEAT_INTERVAL": "5000"})


@pytest.mark.parametrize("kind", [AgentConfig, CoordinatorConfig, AdaptiveConfig, PlanRules])
def test_every_setting_has_a_meaning(kind: type) -> None:
    told = explain(kind, "agent", {})
    assert [one.name for one in told if not one.meaning] == []


def test_what_plans_may_do(tmp_path: Path) -> None:
    """The same section for coordinator and agents, in the file or the environment."""
    text = '[plans]\nallowed_folders = ["/a", "/b"]\nallowed_hosts = ["x:1", "::1"]\n'
    environ = file_of(tmp_path, text + "allow_functions = false\n")
    rules = load(PlanRules, "plans", environ)
    assert load(CoordinatorConfig, "coordinator", environ).plans == rules
    assert rules.allowed_folders == (Path("/a"), Path("/b"))
    assert (rules.allowed_hosts, rules.allow_functions) == (("x:1", "::1"), False)
    named = {"FABRIC_PLANS_ALLOWED_FOLDERS": "/c", "FABRIC_PLANS_ALLOWED_HOSTS": "y, z:2"}
    rules = load(PlanRules, "plans", environ | named)
    assert rules.allowed_folders == (Path("/c"),)
    assert rules.allowed_hosts == ("y", "z:2")
    with pytest.raises(ConfigError, match=r"did you mean plans\.allowed_hosts"):
        load(PlanRules, "plans", file_of(tmp_path, "[plans]\nallowed_host = []\n"))
    with pytest.raises(ConfigError, match=r"allowed_hosts names hosts, .*not 'grpc://x'"):
        load(PlanRules, "plans", file_of(tmp_path, '[plans]\nallowed_hosts = ["grpc://x"]\n'))
