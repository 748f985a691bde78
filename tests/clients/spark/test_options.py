"""Options of ``format("fabric")``: what each means, and every refusal with its words."""

from __future__ import annotations

import re

import pytest

from fabric.clients.spark.options import COMMON, READ, WRITE, SparkOptions, parse_options
from fabric.errors import ConfigError

URL = "grpc+tcp://127.0.0.1:6124"
PLACE = {"url": URL, "token": "t"}
DATASET = {**PLACE, "dataset": "flights"}
JOB = {**PLACE, "job": "job-1", "path": "by_carrier/exchange"}


def reading(**given: str) -> SparkOptions:
    return parse_options({**PLACE, **given}, writing=False)


def writing(**given: str) -> SparkOptions:
    return parse_options({**DATASET, **given}, writing=True)


@pytest.mark.parametrize(
    ("given", "path", "command"),
    [
        ({"dataset": "flights"}, ("dataset", "flights"), b""),
        ({"path": "flights"}, ("dataset", "flights"), b""),
        ({"job": "job-1", "path": "a/b"}, ("job", "job-1", "a/b"), b""),
        ({"job": "job-1", "path": "a", "partition": "3"}, ("job", "job-1", "a", "3"), b""),
        ({"job": "job-1", "path": "a", "partition": "0"}, ("job", "job-1", "a", "0"), b""),
        ({"command": "select 1"}, (), b"select 1"),
        ({"descriptor": '["any", "where, else"]'}, ("any", "where, else"), b""),
    ],
)
def test_every_descriptor(given: dict[str, str], path: tuple[str, ...], command: bytes) -> None:
    options = reading(**given)
    assert (options.path, options.command) == (path, command)


def test_names_of_options_in_any_case() -> None:
    given = {"URL": URL, "Token": "t", "DataSet": "flights"}
    assert parse_options(given, writing=False) == reading(dataset="flights")


def test_keys_and_partitions_of_a_write() -> None:
    options = writing(keys=" origin, time_hour ,", partitions="7")
    assert options.keys == ("origin", "time_hour")
    assert (options.partitions, options.replicas) == (7, 0)
    assert writing(replicas="2").replicas == 2
    saved = parse_options({**PLACE, "path": "flights"}, writing=True)
    assert (saved.dataset, saved.path) == ("flights", ("dataset", "flights"))
    assert writing(keys='["with, comma", " k "]').keys == ("with, comma", " k ")
    assert (writing().if_exists, writing(if_exists="Ignore").if_exists) == ("append", "ignore")


def test_how_to_read() -> None:
    options = reading(
        dataset="d", columns="k, v", min_partitions="4", max_partitions="8", timeout_s="2.5"
    )
    assert options.columns == ("k", "v")
    assert (options.min_partitions, options.max_partitions) == (4, 8)
    assert options.timeout_s == 2.5
    assert options.push_filters
    assert not reading(dataset="d", push_filters="False").push_filters


def test_the_token_is_given_or_of_the_environment_and_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FABRIC_TOKEN", "of-the-environment")
    without = {"url": URL, "dataset": "flights"}
    assert parse_options(without, writing=False).credentials.token == "of-the-environment"
    options = parse_options({**DATASET, "token": "s3cret"}, writing=False)
    assert options.credentials.token == "s3cret"
    assert "s3cret" not in repr(options)
    monkeypatch.delenv("FABRIC_TOKEN")
    with pytest.raises(ConfigError, match=r'needs .option\("token", ...\), the text of the token'):
        parse_options(without, writing=False)


@pytest.mark.parametrize("target", [{"command": "select 1"}, {"descriptor": '["x"]'}])
def test_a_foreign_server_may_want_no_token(
    target: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FABRIC_TOKEN", raising=False)
    options = parse_options({"url": URL, **target}, writing=False)
    assert options.credentials.token == ""


@pytest.mark.parametrize(
    "url", ["fabric://h:6123", "grpc://h:1", URL, "grpc+tls://h:1", "grpc+unix:///run/agent"]
)
def test_addresses(url: str) -> None:
    assert reading(url=url, dataset="d").url == url


TARGET = 'reading format("fabric") needs one of .load(dataset name), .option("dataset", name), .op'
REFUSED = {
    "no url": ({"dataset": "d"}, False, 'format("fabric") needs .option("url", ...): an agent'),
    "empty url": ({"url": "", "dataset": "d"}, True, 'needs .option("url", ...)'),
    "other url": (
        {"url": "http://h:1", "dataset": "d"}, False,
        "must be an agent (grpc+tcp://host:port) or the coordinator (fabric://host:6123), "
        "got 'http://h:1'",
    ),
    "unknown": (
        {**DATASET, "tabel": "x"}, False,
        "format(\"fabric\") has no option 'tabel' for reading; "
        f"its options are {', '.join(COMMON + READ)}",
    ),
    "misspelt": ({**DATASET, "colums": "x"}, False, "for reading; did you mean 'columns'?; its"),
    "misspelt token": ({**DATASET, "tokn": "s"}, False, "'tokn' for reading; did you mean 'token'"),
    "misspelt in capitals": ({**DATASET, "MaxPartition": "1"}, False, "mean 'max_partitions'?"),
    "for writing only": ({**DATASET, "keys": "k"}, False, "has no option 'keys' for reading"),
    "for reading only": (
        {**DATASET, "job": "j"}, True,
        f"has no option 'job' for writing; its options are {', '.join(COMMON + WRITE)}",
    ),
    "nothing to read": (PLACE, False, TARGET),
    "two things to read": ({**DATASET, "job": "j", "path": "p"}, False, TARGET),
    "a command and more": ({**DATASET, "command": "c"}, False, TARGET),
    "no path": ({**PLACE, "job": "j"}, False, 'needs .option("path", node path)'),
    "named twice": ({**DATASET, "path": "p"}, False, "named twice, as 'flights' and as 'p'; a pa"),
    "partition of a dataset": ({**DATASET, "partition": "1"}, False, "is of a job's node"),
    "partition": ({**JOB, "partition": "x"}, False, '"partition", ...) must be a whole number'),
    "no list": ({**PLACE, "descriptor": "a/b"}, False, "must be a JSON list of texts, got 'a/b'"),
    "numbers": ({**PLACE, "descriptor": "[1]"}, False, "must be a JSON list of texts"),
    "bounds": (
        {**DATASET, "min_partitions": "3", "max_partitions": "2"}, False,
        "min_partitions 3 is more than max_partitions 2",
    ),
    "flag": ({**DATASET, "push_filters": "yes"}, False, "must be true or false, got 'yes'"),
    "time": ({**DATASET, "timeout_s": "0"}, True, "must be seconds above 0, got '0'"),
    "no time": ({**DATASET, "timeout_s": "soon"}, False, "must be seconds above 0, got 'soon'"),
    "nothing to write": (PLACE, True, 'writing format("fabric") needs .save(dataset name), or'),
    "partitions": ({**DATASET, "partitions": "-1"}, True, "must be a whole number, got '-1'"),
    "replicas": ({**DATASET, "replicas": "0"}, True, "must be at least 1, got '0'"),
    "odd digits": ({**DATASET, "partitions": "²"}, True, "must be a whole number, got '²'"),
    "if it exists": (
        {**DATASET, "if_exists": "fail"}, True, "is one of append, error, ignore, got 'fail'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    given, is_write, message = REFUSED[case]
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_options(given, writing=is_write)
