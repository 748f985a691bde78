"""Options of ``format("fabric")``: what each means, and every refusal with its words."""

from __future__ import annotations

import re

import pytest

from fabric.clients.spark.options import SparkOptions, parse_options
from fabric.errors import ConfigError

URL = "grpc+tcp://127.0.0.1:6124"
PLACE = {"url": URL, "token": "t"}
DATASET = {**PLACE, "dataset": "flights"}


def test_a_dataset_and_a_node_of_a_job() -> None:
    assert parse_options(DATASET, writing=False).descriptor == ("dataset", "flights")
    job = {**PLACE, "job": "job-1", "path": "by_carrier/exchange"}
    assert parse_options(job, writing=False).descriptor == ("job", "job-1", "by_carrier/exchange")


def test_names_of_options_in_any_case() -> None:
    given = {"URL": URL, "Token": "t", "DataSet": "flights"}
    assert parse_options(given, writing=False) == parse_options(DATASET, writing=False)


def test_keys_and_partitions_of_a_write() -> None:
    options = parse_options(
        {**DATASET, "keys": " origin, time_hour ,", "partitions": "7"}, writing=True
    )
    assert options.keys == ("origin", "time_hour")
    assert options.partitions == 7


def test_the_token_is_given_or_of_the_environment_and_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FABRIC_TOKEN", "of-the-environment")
    without = {"url": URL, "dataset": "flights"}
    assert parse_options(without, writing=False).token == "of-the-environment"
    options = parse_options({**DATASET, "token": "s3cret"}, writing=False)
    assert options.token == "s3cret"
    assert "s3cret" not in repr(options)
    monkeypatch.delenv("FABRIC_TOKEN")
    with pytest.raises(ConfigError, match=r'needs .option\("token", ...\), the text of the token'):
        parse_options(without, writing=False)


@pytest.mark.parametrize(
    "url", ["fabric://h:6123", "grpc://h:1", URL, "grpc+tls://h:1", "grpc+unix:///run/agent"]
)
def test_addresses(url: str) -> None:
    assert isinstance(parse_options({**DATASET, "url": url}, writing=False), SparkOptions)


TARGET = 'reading format("fabric") needs either .option("dataset", name), or .option("job", id)'
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
        "its options are url, token, dataset, job, path",
    ),
    "for writing only": ({**DATASET, "keys": "k"}, False, "has no option 'keys' for reading"),
    "for reading only": (
        {**DATASET, "job": "j"}, True,
        "has no option 'job' for writing; its options are url, token, dataset, keys, partitions",
    ),
    "nothing to read": (PLACE, False, TARGET),
    "two things to read": ({**DATASET, "job": "j", "path": "p"}, False, TARGET),
    "no path": ({**PLACE, "job": "j"}, False, "need each other"),
    "no job": ({**DATASET, "path": "p"}, False, "need each other"),
    "nothing to write": (PLACE, True, 'writing format("fabric") needs .option("dataset"'),
    "partitions": ({**DATASET, "partitions": "-1"}, True, "must be a whole number, got '-1'"),
    "odd digits": ({**DATASET, "partitions": "²"}, True, "must be a whole number, got '²'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    given, writing, message = REFUSED[case]
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_options(given, writing=writing)
