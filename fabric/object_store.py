"""Buckets of object stores: one URL, its credentials from the environment, errors by name.

One job: `Bucket`, the operations that checkpoints and files are made of, over ``obstore``. A
request that fails for a while (a connection, a status of 500 or more) is tried again with growing
pauses, for `RETRY_S` in all. An object is there whole or not at all: what fails amid a multi-part
upload is abandoned. A large one is read in parts, each by a request of its own, so that slow ones
have time. `create` and `replace` are conditional, so of two writers one wins.

Credentials come from the usual variables (``AWS_…``, ``GOOGLE_…``, ``AZURE_…``) or from `options`,
which have the same names in lower case. They are in no message, repr or plan: an error has the
status and the code of the answer, never its text.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from fabric.errors import ConfigError, DataError, FabricError, NotFoundError, StorageError
from fabric.object_urls import SCHEMES, ObjectUrl

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta, PutResult, WritableFile
    from obstore.store import ObjectStore as Store
    from typing_extensions import Buffer

RETRY_S, RETRIES_MAX = 20.0, 200
"""Time ends the tries: so many pauses are always longer than that."""
PAUSE_S, PAUSE_MAX_S = 0.1, 4.0
PROBE = ".conditions"
"""The object by which it is tried out whether a store has conditional writes."""
CONNECT_S, REQUEST_S = 5.0, 30.0
"""A request has to be answered in that time, with the whole of its part."""
PART_BYTES, PARTS_AT_ONCE = 8 << 20, 4
_REMOVED_AT_ONCE = 8
_BESIDE = "\n"
"""Between the two parts of a tag; it is in neither."""
_METADATA = ("169.254.169.254", "metadata.google.internal")
"""Whom a client asks that was given no credentials."""
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")
_STATUS = re.compile(r"(?:status|response|code)[ :a-z]{0,20}([45]\d\d)\b|\b([45]\d\d) [A-Z][a-z]")


class ObjectFacts(NamedTuple):
    """What a store says of an object; `e_tag` changes with its bytes and may be empty."""

    size: int
    e_tag: str
    written_at: datetime


class Bucket:
    """The objects below a URL; keys are from there on.

    Parameters
    ----------
    url
        ``s3://bucket/prefix``, ``gs://…`` or ``az://container/…``.
    options
        Settings that come before those of the environment, by the names of obstore, such as
        ``{"aws_endpoint": "http://127.0.0.1:7070"}``.

    Raises
    ------
    ConfigError
        The URL or an option is not one. What each method raises: `StorageError` when the store
        refuses or can't be reached, `NotFoundError` when an object is missing.

    Examples
    --------
    >>> from obstore.store import MemoryStore
    >>> bucket = Bucket("s3://data/x", store=MemoryStore())
    >>> tag = bucket.create("a", b"1")
    >>> bucket.create("a", b"2") is None, bucket.replace("a", b"3", tag) is None
    (True, False)
    >>> bucket.read("a")[0], bucket.sizes("")
    (b'3', {'a': 1})
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        options: Mapping[str, str] | None = None,
        *,
        store: Store | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.url = ObjectUrl.of(url)
        self._has_conditions = False
        variables = f"{SCHEMES[self.url.scheme]}… in the environment"
        self._credentials = f"storage_options, or {variables}" if options else variables
        self._store: Any = store or _opened(self.url, dict(options or {}), environ)

    def __repr__(self) -> str:
        return f"Bucket({str(self.url)!r})"

    def read(self, key: str) -> tuple[bytes, str]:
        """All of an object, and its tag."""
        import obstore

        with self.asking("read", key):
            found = obstore.get(self._store, key)
            tag = self._tag(found.meta)
            return b"".join(self._parts(key, found)), tag

    def pieces(self, key: str) -> Iterator[Buffer]:
        """An object, some megabytes at a time."""
        import obstore

        with self.asking("read", key):
            yield from self._parts(key, obstore.get(self._store, key))

    def _parts(self, key: str, found: GetResult) -> Iterator[Buffer]:
        """An object of which the head has been read, and of a large one nothing else."""
        size, e_tag = found.meta["size"], found.meta["e_tag"]
        if size <= PART_BYTES:
            yield found.bytes()
            return
        del found  # its connection is closed
        for start in range(0, size, PART_BYTES):
            yield self.part(key, start, min(size, start + PART_BYTES), e_tag or "")

    def put(self, key: str, data: Buffer | IO[bytes]) -> None:
        """Store an object, in place of the one that is there; large ones in parts."""
        import obstore

        with self.asking("written", key):
            obstore.put(
                self._store, key, data, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        """Store an object of what comes piece by piece; nothing of it is there when that fails."""
        with self.asking("written", key), self.writer(key) as out:
            for piece in pieces:
                out.write(piece)

    def writer(self, key: str) -> WritableFile:
        """An object to be written in parts, some at once; it is there once it was closed.

        What it raises is obstore's: use it within `asking`. When its context ends by an error,
        nothing is there, and no part is left.
        """
        import obstore

        return obstore.open_writer(
            self._store, key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
        )

    def create(self, key: str, data: bytes) -> str | None:
        """Store an object and return its tag; None when there is one already.

        After a lost answer that one may be the caller's own.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self.asking("written", key):
            try:
                return self._tag(obstore.put(self._store, key, data, mode="create"))
            except (AlreadyExistsError, PreconditionError):
                return None

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Store an object in place of the one with this tag; None when that is there no more."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self.asking("written", key):
            try:
                e_tag, _, version = tag.partition(_BESIDE)
                mode = {"e_tag": e_tag, "version": version} if version else {"e_tag": e_tag}
                put: Callable[..., Any] = obstore.put
                return self._tag(put(self._store, key, data, mode=mode))
            except (PreconditionError, AlreadyExistsError, FileNotFoundError) as error:
                if _code(error) == "NoSuchBucket":
                    raise
                return None

    def check_conditions(self, key: str = PROBE) -> None:
        """Refuse a store that ignores the conditions of writes; it is tried out once, at `key`.

        Raises
        ------
        StorageError
            It does, or it can't be asked.
        """
        if self._has_conditions:
            return
        # each time other bytes: the tag of some stores is a digest of them
        first, second, third = (secrets.token_bytes(16) for _ in range(3))
        holds = self.create(key, first) is None or self.create(key, second) is None
        if holds:
            _, tag = self.read(key)
            self.replace(key, second, tag)  # or somebody else has done so just now
            holds = self.replace(key, third, tag) is None
        if not holds:
            raise StorageError(
                f"the store of {self.url} ignores conditional writes (If-None-Match and If-Match), "
                "so two processes could both write what is one's alone; use a store that has them"
            )
        self._has_conditions = True

    def sizes(self, prefix: str) -> dict[str, int]:
        """The bytes of each object below a prefix, which is a whole name; by its key."""
        return {key: facts.size for key, facts in self.listed(prefix).items()}

    def listed(self, prefix: str, after: str = "") -> dict[str, ObjectFacts]:
        """Each object below a prefix, by its key; those whose keys come behind `after`."""
        import obstore

        with self.asking("listed", prefix or "the root"):
            listed = obstore.list(self._store, prefix or None, offset=after or None)
            return {each["path"]: _facts(each) for some in listed for each in some}

    def names(self, prefix: str) -> tuple[list[str], list[str]]:
        """What lies right below a prefix: the names of further prefixes, and of objects."""
        import obstore

        with self.asking("listed", prefix or "the root"):
            found = obstore.list_with_delimiter(self._store, prefix or None)
        below = len(prefix) + 1 if prefix else 0
        folders = sorted(str(each)[below:].strip("/") for each in found["common_prefixes"])
        return folders, sorted(each["path"][below:] for each in found["objects"])

    def facts(self, key: str) -> ObjectFacts:
        """What the store says of an object; the time is that of its clock."""
        import obstore

        with self.asking("read", key):
            return _facts(obstore.head(self._store, key))

    def part(self, key: str, start: int, end: int, e_tag: str = "") -> Buffer:
        """Bytes `start` to `end`; `DataError` where the object no longer has the tag."""
        import obstore
        from obstore.exceptions import PreconditionError

        options: GetOptions = {"range": (start, end)}
        if e_tag:
            options["if_match"] = e_tag
        with self.asking("read", key):
            try:
                return obstore.get(self._store, key, options=options).bytes()
            except PreconditionError:
                raise DataError(
                    f"{key} in {self.url} was replaced while it was read; read it again"
                ) from None

    def copy(self, key: str, to: str) -> None:
        """Have the store copy an object."""
        import obstore

        with self.asking("copied", key):
            obstore.copy(self._store, key, to)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove objects, some at a time; those that are not there are fine."""
        if len(found := list(keys)) == 1:
            self._remove(found[0])
        elif found:
            with ThreadPoolExecutor(_REMOVED_AT_ONCE, thread_name_prefix="removing") as pool:
                for _ in pool.map(self._remove, found):
                    pass

    def _remove(self, key: str) -> None:
        import obstore

        with self.asking("removed", key):
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError as error:
                if _code(error) == "NoSuchBucket":
                    raise

    def _tag(self, found: PutResult | ObjectMeta) -> str:
        """What tells one state of an object from all others: in Google's store, its generation."""
        e_tag, version = found["e_tag"] or "", found["version"] or ""
        return f"{e_tag}{_BESIDE}{version}" if self.url.scheme == "gs" else e_tag

    @contextmanager
    def asking(self, what: str, key: str) -> Iterator[None]:
        """Turn what obstore raises into errors that say what happened and what to do."""
        try:
            yield
        except FabricError:
            raise
        except Exception as error:
            known = _known(error, f"{key} in {self.url}", what, self._credentials)
            if known is None:
                raise
            raise known from None  # the text of `error` may hold more than people should see


def _facts(found: ObjectMeta) -> ObjectFacts:
    return ObjectFacts(found["size"], found["e_tag"] or "", found["last_modified"])


_CREDENTIALS = {
    "aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "token", "google_bearer_token": "token", "azure_storage_token": "token",
    "azure_storage_account_key": "access_key", "azure_storage_sas_token": "sas_token",
}  # fmt: skip
"""Options that are credentials, and what obstore calls them where they are given as a whole."""


def _provider(scheme: str, options: dict[str, str]) -> dict[str, Any]:
    """Given credentials as an argument of obstore, which mixes them with none of the environment,
    such as the token of another key; they are left in no other of `options`."""
    found = {_CREDENTIALS[name]: options.pop(name) for name in [*options] if name in _CREDENTIALS}
    if not found:
        return {}
    options.setdefault(f"{SCHEMES[scheme].lower()}skip_signature", "false")
    whole = {"expires_at": None, **({"token": None} if scheme == "s3" else {}), **found}
    return {"credential_provider": lambda: whole}


def _opened(url: ObjectUrl, options: dict[str, str], environ: Mapping[str, str]) -> Store:
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=CONNECT_S), "timeout": timedelta(seconds=REQUEST_S)
    }  # fmt: skip
    lowered = {name.lower(): value for name, value in {**environ, **options}.items()}
    ends = [value for name, value in lowered.items() if "endpoint" in name or "base_url" in name]
    names = ", ".join(sorted(options)) or "none"
    is_plain = any(str(end).startswith("http://") for end in ends)
    if options.pop("allow_http", str(is_plain)).lower() == "true":
        client["allow_http"] = True  # whoever names such an endpoint wants it
    apart = _provider(url.scheme, options)
    first, most = timedelta(seconds=PAUSE_S), timedelta(seconds=PAUSE_MAX_S)
    retry = {
        "max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=RETRY_S),
        "backoff": {"init_backoff": first, "max_backoff": most},
    }  # fmt: skip
    open_any: Callable[..., Any] = from_url
    try:
        return open_any(  # type: ignore[no-any-return]
            str(url), config=options, client_options=client, retry_config=retry, **apart
        )
    except (BaseError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{url} can't be opened: {type(error).__name__}; options given: {names}. Are the "
            f"variables {SCHEMES[url.scheme]}… complete?"
        ) from None


def _known(error: Exception, where: str, what: str, credentials: str) -> FabricError | None:
    """What an error of obstore means, by the place of `credentials`; None: it is not one."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    if not isinstance(error, BaseError | OSError):
        return None
    if any(host in str(error) for host in _METADATA):
        return StorageError(
            f"{where} can't be {what}: no credentials were found; set {credentials} of this "
            "process, and of coordinator and agents (a process of Python functions sees what "
            "FABRIC_AGENT_SLOT_ENVIRONMENT names)"
        )
    code, status = _code(error), _status(error)
    said = " ".join(filter(None, (status and f"status {status}", code)))
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return StorageError(f"{where} can't be {what}: there is no such bucket; create it")
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"{where} is missing; was it moved or removed?")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in ("401", "403"):
        return StorageError(
            f"{where} can't be {what}: the store refuses ({said or 'no permission'}); are the "
            f"credentials ({credentials}) valid, and does the bucket's policy allow this?"
        )
    if status == "503" or code in ("SlowDown", "ServerBusy"):
        return StorageError(
            f"{where} can't be {what}: the store is busy ({said}); tried for {RETRY_S:.0f} seconds"
        )
    if not said:
        said = _kind(str(error)) or type(error).__name__
    return StorageError(
        f"{where} can't be {what}: {said}; check the endpoint, and that it can be reached"
    )


def _code(error: Exception) -> str:
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _status(error: Exception) -> str:
    found = _STATUS.search(str(error))
    return (found[1] or found[2]) if found else ""


def _kind(text: str) -> str:
    """What a request without an answer came to."""
    if "Timeout" in text or "timed out" in text:
        return "no answer in time"
    if "kind: Connect" in text or "connect" in text.lower():
        return "no connection"
    if "IncompleteMessage" in text or "body" in text.lower() or "ContentRange" in text:
        return "the answer broke off"
    return ""
