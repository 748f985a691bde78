"""Options of stores: names of other libraries, what is secret, what is refused and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric.errors import ConfigError, PlanError
from fabric.io import object_files
from fabric.io.object_options import NAMES, check_reach, check_store, set_apart
from fabric.io.places import Places, guarding
from fabric.plan.codec import decode, encode
from fabric.plan.nodes import Plan, Scan, Sink
from fabric.plan.places import FilePlace, Settings
from fabric.plan.printer import tree
from fabric.plan.sources import FileSource
from fabric.plan.targets import FileTarget, StreamFileTarget
from fabric.plan_rules import PlanRules
from fabric.values import Names

URLS = {"s3": "s3://b/x", "gs": "gs://b/x", "az": "az://b/x"}
KEYS: dict[str, dict[str, Any]] = {
    "s3": {"access_key_id": "sec-1", "secret_access_key": "sec-2", "session_token": "sec-3"},
    "gs": {"bearer_token": "sec-1"},
    "az": {"account_key": "sec-1", "sas_token": "sec-2", "token": "sec-3"},
}


def apart(given: dict[str, Any], url: str = "s3://b/x") -> tuple[dict[str, str], dict[str, str]]:
    settings, secrets = set_apart(given, [url], "read_csv")
    return dict(settings), dict(secrets)


@pytest.mark.parametrize("scheme", NAMES)
def test_every_name_means_one_option_and_a_store_is_opened_with_it(scheme: str) -> None:
    seen: set[str] = set()
    for name, others in NAMES[scheme].items():
        assert not seen & {name, *others}, "one name is of one option"
        seen |= {name, *others}
    settings, secrets = set_apart(
        {**KEYS[scheme], "endpoint": "http://127.0.0.1:1", "anonymous": False, "allow_http": True},
        [URLS[scheme]], "read_csv",
    )  # fmt: skip
    assert sorted(value for _, value in secrets) == sorted(KEYS[scheme].values())
    assert "sec-" not in str(settings)
    store = tuple(sorted(settings + secrets))
    if scheme == "az":
        store = tuple(sorted((*store, ("azure_storage_account_name", "account"))))
    bucket, _ = object_files.place_of(URLS[scheme], store)
    assert "sec-" not in repr(bucket)


def test_names_of_other_libraries() -> None:
    ours = apart(
        {"aws_endpoint_url": "http://h:1", "AWS_REGION": "x", **KEYS["s3"], "anon": "False"}
    )
    assert ours == apart(
        {"endpoint_url": "http://h:1", "region": "x", "key": "sec-1", "secret": "sec-2",
         "token": "sec-3", "skip_signature": False},
    )  # fmt: skip
    assert set(ours[0]) == {"aws_endpoint", "aws_region", "aws_skip_signature"}
    assert apart({"region": None}) == ({}, {}), "None is what is not given"


@pytest.mark.parametrize(
    ("given", "url", "said"),
    [
        ({"regoin": "x"}, "s3://b/x", "of s3:// have no 'regoin'; did you mean 'region'"),
        ({"account_key": "sec-1"}, "s3://b/x", "of s3:// have no 'account_key'"),
        ({"access_key_id": "sec-1"}, "az://b/x", "of az:// have no 'access_key_id'"),
        ({"region": "x", "aws_region": "y"}, "s3://b/x", "region and aws_region, which are one"),
        ({"region": 5}, "s3://b/x", "region in storage_options must be a text"),
        ({"secret": ["sec-1"]}, "s3://b/x", "secret in storage_options must be a text"),
        ({"anonymous": "sec-1"}, "s3://b/x", "anonymous in storage_options must be True or False"),
        ({"region": "x"}, "/data/x", "'/data/x' is none; leave them out"),
        ({"region": "x"}, "https://b/x", "'https://b/x' is none; leave them out"),
        ("sec-1", "s3://b/x", "storage_options are a dict"),
        ({"key": "sec-1"}, "s3://b/x", "no aws_secret_access_key; give access_key_id and"),
        ({"session_token": "sec-1"}, "s3://b/x", "no aws_access_key_id; give access_key_id and"),
        ({"region": "evil.example/#"}, "s3://b/x", "aws_region must be as us-east-1"),
        ({"account_name": "a.example/#"}, "az://b/x", "account_name must be an account's name"),
        ({"endpoint": "h:1", **KEYS["s3"]}, "s3://b/x", "aws_endpoint must be https://host"),
        ({"endpoint": "http://u:sec-1@h"}, "s3://b/x", "aws_endpoint must be https://host"),
        ({"service_account_key": '{"gcs_base_url": "sec-1"}'}, "gs://b/x", "name the endpoint in"),
        ({"service_account": "/nowhere/key.json"}, "gs://b/x", r"can't be read: FileNotFoundError"),
    ],
)
def test_what_means_nothing(given: Any, url: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        set_apart(given, [url], "read_csv")
    assert said in str(caught.value)
    assert "sec-" not in str(caught.value)


def test_paths_of_several_stores() -> None:
    with pytest.raises(ConfigError, match="these paths are in gs, s3; read them apart"):
        set_apart({"anon": True}, ["s3://b/x", "gs://b/x"], "read_csv")


def test_a_google_key_s_file_is_read_where_the_plan_is_written(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"private_key": "sec-1", "client_email": "a@b"}))
    settings, secrets = apart({"service_account": str(key)}, "gs://b/x")
    assert settings == {}
    assert json.loads(secrets["google_service_account_key"])["private_key"] == "sec-1"
    key.write_text(json.dumps({"type": "authorized_user", "refresh_token": "sec-1"}))
    with pytest.raises(ConfigError, match="has no key of a service account") as caught:
        apart({"service_account": str(key)}, "gs://b/x")
    assert "sec-" not in str(caught.value)
    with pytest.raises(ConfigError, match="have no 'google_service_account'"):
        check_store("gs", (("google_service_account", "/etc/passwd"),))


@pytest.mark.parametrize(
    ("scheme", "endpoint", "variable"),
    [("s3", "aws_endpoint", "AWS_ENDPOINT"), ("gs", "google_base_url", "GOOGLE_BASE_URL"),
     ("az", "azure_endpoint", "AZURE_STORAGE_ENDPOINT")],
)  # fmt: skip
def test_credentials_of_the_environment_go_to_no_other_endpoint(
    scheme: str, endpoint: str, variable: str
) -> None:
    store: Settings = ((endpoint, "http://h:1"),)
    for environ in ({}, {variable: "http://other:1"}):
        with pytest.raises(ConfigError, match=r"the endpoint http://h:1 and no credentials for it"):
            check_store(scheme, store, environ)
    check_store(scheme, store, {variable: "http://h:1"})
    unsigned = f"{scheme.replace('s3', 'aws').replace('gs', 'google').replace('az', 'azure')}_"
    check_store(scheme, (*store, (f"{unsigned}skip_signature", "true")), {})
    with pytest.raises(ConfigError, match="no credentials for it"):
        check_store(scheme, (*store, (f"{unsigned}skip_signature", "false")), {})


def test_a_variable_that_would_come_first_is_named() -> None:
    store = tuple(sorted({"aws_endpoint": "http://h:1", "aws_skip_signature": "true"}.items()))
    with pytest.raises(ConfigError, match="variable AWS_ENDPOINT_URL_S3; call the variable"):
        check_store("s3", store, {"AWS_ENDPOINT_URL_S3": "http://other:1"})


PLACES = [
    FileSource("csv", ("s3://b/x.csv",)), FileTarget("csv", "s3://b/x", single=False),
    StreamFileTarget("csv", "s3://b/x"),
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: type(place).__name__)
def test_secrets_travel_and_are_not_shown(place: Any) -> None:
    settings, secrets = set_apart({"region": "eu-west-1", **KEYS["s3"]}, ["s3://b/x"], "read_csv")
    whole = type(place)(
        **{name: getattr(place, name) for name in ("format",)},
        **({"paths": place.paths} if isinstance(place, FileSource) else {"path": place.path}),
        **({"single": False} if isinstance(place, FileTarget) else {}),
        settings=settings, secrets=secrets,
    )  # fmt: skip
    schema = pa.schema([("a", pa.int64())])
    scan = Scan(whole if isinstance(whole, FileSource) else PLACES[0], schema)
    root = scan if isinstance(whole, FileSource) else Sink(scan, whole)
    back = decode(encode(Plan(root))).root
    assert back == decode(encode(Plan(back))).root
    found = back.source if isinstance(back, Scan) else back.target  # type: ignore[attr-defined]
    assert isinstance(found, FilePlace)
    assert found == whole
    assert dict(found.store)["aws_secret_access_key"] == "sec-2"
    assert "sec-" not in tree(back) + repr(back) + back.text()
    assert "eu-west-1" in repr(found)


def test_where_plans_may_not_reach() -> None:
    def source(endpoint: str) -> FileSource:
        settings, secrets = set_apart({"endpoint": endpoint, **KEYS["s3"]}, ["s3://b/x"], "read")
        return FileSource("csv", ("s3://b/x",), settings=settings, secrets=secrets)

    known, other = source("http://store:9000"), source("http://other:9000")
    check_reach(other, other.paths)
    with guarding(Places(PlanRules(allowed_hosts=Names("store:9000")))):
        check_reach(known, known.paths)
        object_files.place_of("s3://b/x", known.store)
        with pytest.raises(PlanError, match="plans may not call other:9000"):
            check_reach(other, other.paths)
        with pytest.raises(PlanError, match="plans may not call other:9000"):
            object_files.place_of("s3://b/x", other.store)
    for forged in ("aws_metadata_endpoint", "aws_role_arn", "google_service_account"):
        with pytest.raises(ConfigError, match=f"have no '{forged}'"):
            object_files.place_of("s3://b/x", ((forged, "http://169.254.169.254"),))
    with pytest.raises(ConfigError, match=r"storage_options of :// have no"):
        check_reach(known, ["/etc/passwd"])


@pytest.mark.parametrize("verb", ["read_parquet", "read_csv", "read_json", "read_ipc"])
def test_readers_refuse_them_for_folders(verb: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{verb}: storage_options are for s3://"):
        getattr(fabric, verb)(tmp_path, storage_options={"region": "x"})


def test_writers_refuse_them_for_folders(tmp_path: Path) -> None:
    rows, stream = fabric.DataFrame({"a": [1]}), fabric.streams.generator(n_rows=1)
    for verb in ("write_parquet", "write_csv", "write_json", "write_ipc"):
        with pytest.raises(ConfigError, match=f"{verb}: storage_options are for s3://"):
            getattr(rows, verb)(tmp_path / "out", storage_options={"region": "x"})
    with pytest.raises(ConfigError, match="to_files: storage_options are for s3://"):
        stream.write_stream(tmp_path / "out", storage_options={"region": "x"})
    target = fabric.streams.to_files(tmp_path / "out")
    with pytest.raises(PlanError, match="give them to the target: "):
        stream.write_stream(target, storage_options={"region": "x"})
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(ConfigError, match=r"read_csv has no option 'storage_option'; did you mean"):
        fabric.read_csv(tmp_path, storage_option={"region": "x"})
