"""A URL of a bucket, and what is said when its store refuses, is busy, slow, or breaks off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

from fabric import object_store
from fabric.checkpoint.object_names import ObjectName
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.errors import ConfigError, FabricError, NotFoundError, StorageError
from fabric.object_store import Bucket
from fabric.object_urls import ObjectUrl, is_object_url
from tests.checkpoint.test_pointer import manifest
from tests.support.answers import Answer, Answers, answering, refusal

SECRETS = ("AKSECRET", "SKSECRET")


@pytest.fixture
def answers() -> Iterator[Answers]:
    with answering() as found:
        yield found


@pytest.fixture
def bucket(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setattr(object_store, "RETRY_S", 1.0)
    return opened(answers)


def opened(answers: Answers) -> Bucket:
    options = {
        "aws_access_key_id": SECRETS[0], "aws_secret_access_key": SECRETS[1],
        "aws_endpoint": answers.url, "aws_region": "us-east-1",
    }  # fmt: skip
    return Bucket("s3://data/x", options)


@pytest.mark.parametrize(
    "url",
    ["s3://", "/data", "hdfs://b/x", "s3://user:pass@b/x", "s3://b/x?y=1", "s3://b/../x"],
)  # fmt: skip
def test_what_is_no_url_of_a_bucket(url: str) -> None:
    with pytest.raises(ConfigError, match="not a bucket URL") as caught:
        ObjectUrl.of(url)
    assert "pass" not in str(caught.value)


def test_urls() -> None:
    assert str(ObjectUrl.of("GS://b/x/y/")) == "gs://b/x/y"
    assert str(ObjectUrl.of(Path("az://b"))) == "az://b"
    assert [is_object_url(each) for each in ("s3://b", "b", Path("s3://b/x"))] == [
        True,
        False,
        True,
    ]


def test_an_option_that_there_is_not() -> None:
    with pytest.raises(
        ConfigError, match=r"can't be opened: .*; options given: aws_nonsense"
    ) as caught:
        Bucket("s3://b", {"aws_nonsense": "SKSECRET"})
    assert "SKSECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (refusal(403, "SignatureDoesNotMatch"), StorageError, "SignatureDoesNotMatch"),
        (refusal(403, "AccessDenied"), StorageError, "the store refuses"),
        (refusal(401, "Unauthorized"), StorageError, "the store refuses"),
        (refusal(404, "NoSuchKey"), NotFoundError, "a in s3://data/x is missing"),
        (refusal(404, "NoSuchBucket"), StorageError, "there is no such bucket"),
        (refusal(503, "SlowDown"), StorageError, r"the store is busy \(.*SlowDown"),
        (refusal(500, "InternalError"), StorageError, "InternalError"),
        (Answer(body=b"0123456789", half=0), StorageError, "broke off"),
    ],
)
def test_a_refusal_has_its_name_and_no_secret(
    bucket: Bucket, answers: Answers, answer: Answer, kind: type[FabricError], said: str
) -> None:
    answers.say(answer)
    with pytest.raises(kind, match=said) as caught:
        bucket.read("a")
    assert not any(secret in f"{caught.value}{bucket!r}" for secret in SECRETS)
    assert caught.value.__suppress_context__


def test_a_store_that_is_silent(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "RETRY_S", 1.0)
    monkeypatch.setattr(object_store, "REQUEST_S", 0.5)
    answers.say(Answer(body=b"0123456789", silent_s=60.0))
    with pytest.raises(StorageError, match="no answer in time"):
        opened(answers).read("a")


@pytest.mark.parametrize("status", [500, 503])
def test_what_fails_for_a_while_is_tried_again(
    bucket: Bucket, answers: Answers, status: int
) -> None:
    answers.say(refusal(status, "SlowDown"), refusal(status, "SlowDown"), Answer(body=b"123"))
    assert bucket.read("a")[0] == b"123"
    answers.say(refusal(status, "SlowDown"), Answer())
    bucket.put("a", b"1")
    assert len(answers.seen) == 2


def test_time_ends_the_tries(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short the pauses are."""
    monkeypatch.setattr(object_store, "PAUSE_MAX_S", 0.001)
    monkeypatch.setattr(object_store, "PAUSE_S", 0.001)
    answers.say(*[refusal(503, "SlowDown")] * 50, Answer(body=b"123"))
    assert opened(answers).read("a")[0] == b"123"


def test_a_large_object_is_read_in_parts(
    bucket: Bucket, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request ends in time that all of them together would not."""
    monkeypatch.setattr(object_store, "PART_BYTES", 1 << 20)
    large = bytes(range(256)) * (10 << 10)
    answers.say(Answer(body=large))
    assert bucket.read("a") == (large, '"tag"')
    assert b"".join(bucket.pieces("a")) == large
    asked = [each.get("range") for each in answers.headers]
    parts = ["bytes=0-1048575", "bytes=1048576-2097151", "bytes=2097152-2621439"]
    assert asked == [None, *parts] * 2
    assert {each.get("if-match") for each in answers.headers} == {None, '"tag"'}
    for small in (b"", b"1" * (1 << 20)):
        answers.say(Answer(body=small))
        assert bucket.read("a")[0] == b"".join(bucket.pieces("a")) == small
        assert len(answers.seen) == 2


def test_google_replaces_by_the_generation(answers: Answers) -> None:
    key = {
        "gcs_base_url": answers.url, "disable_oauth": True, "client_email": "", "private_key": "",
        "private_key_id": "",
    }  # fmt: skip
    options = {"google_service_account_key": json.dumps(key), "google_base_url": answers.url}
    bucket = Bucket("gs://data/x", options)
    answers.say(Answer(body=b"1", headers=(("x-goog-generation", "17"),)))
    _, tag = bucket.read("a")
    made = bucket.create("a", b"2")
    assert tag == made
    answers.say(Answer(headers=(("x-goog-generation", "18"),)))
    assert bucket.replace("a", b"3", tag) not in (None, tag)
    assert answers.headers[0]["x-goog-if-generation-match"] == "17"


def test_conditions_that_do_not_hold(bucket: Bucket, answers: Answers) -> None:
    for status, code in ((412, "PreconditionFailed"), (409, "ConditionalRequestConflict")):
        answers.say(refusal(status, code))
        assert bucket.create("a", b"1") is None
    answers.say(refusal(412, "PreconditionFailed"))
    assert bucket.replace("a", b"1", '"old"') is None
    answers.say(refusal(404, "NoSuchKey"))
    assert bucket.replace("a", b"1", '"old"') is None
    answers.say(refusal(404, "NoSuchBucket"))
    with pytest.raises(StorageError, match="no such bucket"):
        bucket.replace("a", b"1", '"old"')


def test_nobody_listens() -> None:
    options = {
        "aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "r",
        "aws_endpoint": "http://127.0.0.1:9",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_store, "RETRY_S", 0.3)
        with pytest.raises(
            StorageError, match="can't be listed: no connection; check the endpoint"
        ):
            Bucket("s3://data", options).names("")


def test_without_credentials_this_process_is_named(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the one of a command, beside those of the fabric."""

    def refused(*_: object) -> None:
        raise OSError("no answer from http://169.254.169.254/latest/api/token")

    monkeypatch.setattr(obstore, "get", refused)
    with pytest.raises(StorageError, match="AWS_… in the environment of this process, and of"):
        bucket.read("a")


@pytest.mark.parametrize("ignored", ["create", "replace", ""])
def test_a_store_that_ignores_conditions(ignored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket("s3://data/x", store=MemoryStore())
    asked: list[str] = []

    def put(key: str, data: bytes, *_: str) -> str:
        bucket.put(key, data)
        return "tag"

    def read(key: str) -> tuple[bytes, str]:
        asked.append(key)
        return Bucket.read(bucket, key)

    monkeypatch.setattr(bucket, "read", read)
    if ignored:
        monkeypatch.setattr(bucket, ignored, put)
        with pytest.raises(StorageError, match="s3://data/x ignores conditional writes"):
            bucket.check_conditions()
        return
    for _ in range(3):
        bucket.check_conditions()
    assert asked == [object_store.PROBE]
    again = Bucket("s3://data/x", store=bucket._store)  # what is left of it is in nobody's way
    again.check_conditions()


@pytest.mark.parametrize("use", ["name", "begin again", "commit", "lead"])
def test_a_coordinator_asks_for_conditions_first(use: str) -> None:
    class Ignoring(Bucket):
        def create(self, key: str, data: bytes) -> str | None:
            self.put(key, data)
            return "tag"

    storage = ObjectStorage(bucket := Ignoring("s3://data/x", store=MemoryStore()))
    uses: dict[str, Callable[[], object]] = {
        "name": lambda: ObjectName(bucket, "clicks"),
        "begin again": lambda: storage.begin_again("job-1", "job-2"),
        "commit": lambda: storage.commit_manifest(manifest(1, 1)),
        "lead": lambda: storage.lead("job-1", "job-1", 1),
    }
    with pytest.raises(StorageError, match="ignores conditional writes"):
        uses[use]()
    assert list(bucket.sizes("")) == [object_store.PROBE]
