"""Options of the store of one reader or writer: their names, which are secret, and what is refused.

One job: `set_apart` turns a user's ``storage_options`` into public settings and secrets, by the
names of obstore, whatever other library the given names come from; `check_store` refuses, wherever
a store is opened, what no reader or writer could have made of them, and confines plans to `[plans]
allowed_hosts`. Messages name options, never their values.

An endpoint of a plan's is sent no credentials but its own: whoever names one could have the
fabric's credentials sent there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from fabric.errors import ConfigError
from fabric.io import places
from fabric.object_urls import SCHEMES, is_object_url, split_url
from fabric.plan.faults import listed, nearest
from fabric.plan.places import FilePlace, Settings
from fabric.values import scheme_of

NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "s3": {
        "aws_access_key_id": ("access_key_id", "key"),
        "aws_secret_access_key": ("secret_access_key", "secret"),
        "aws_session_token": ("session_token", "aws_token", "token"),
        "aws_region": ("region", "region_name", "default_region", "aws_default_region"),
        "aws_endpoint": ("endpoint", "endpoint_url", "aws_endpoint_url"),
        "aws_skip_signature": ("skip_signature", "anonymous", "anon"),
        "aws_virtual_hosted_style_request": ("virtual_hosted_style_request",),
        "aws_request_payer": ("request_payer", "requester_pays"),
        "allow_http": ("allow_http", "aws_allow_http"),
    },
    "gs": {
        "google_service_account_key": ("service_account_key",),
        "google_service_account": (
            "service_account", "service_account_path", "application_credentials",
            "google_application_credentials",
        ),
        "google_bearer_token": ("bearer_token", "token"),
        "google_base_url": ("base_url", "endpoint", "endpoint_url"),
        "google_skip_signature": ("skip_signature", "anonymous", "anon"),
        "allow_http": ("allow_http",),
    },
    "az": {
        "azure_storage_account_name": ("account_name", "azure_account_name"),
        "azure_storage_account_key": (
            "account_key", "access_key", "azure_storage_access_key", "azure_account_key",
        ),
        "azure_storage_sas_token": ("sas_token", "sas_key", "azure_storage_sas_key"),
        "azure_storage_token": ("bearer_token", "token"),
        "azure_endpoint": ("endpoint", "endpoint_url", "azure_storage_endpoint"),
        "azure_skip_signature": ("skip_signature", "anonymous", "anon"),
        "allow_http": ("allow_http",),
    },
}  # fmt: skip
"""By scheme: each option as obstore calls it, and its other names; in capitals or not."""
_FILE, _KEY = "google_service_account", "google_service_account_key"
"""A file is read where the plan is written, so that agents do not need it."""
_SECRET = frozenset(
    (
        "aws_access_key_id", "aws_secret_access_key", "aws_session_token", _KEY,
        "google_bearer_token", "azure_storage_account_key", "azure_storage_sas_token",
        "azure_storage_token",
    )
)  # fmt: skip
_CREDENTIALS = {
    "s3": ("aws_access_key_id",),
    "gs": (_KEY, "google_bearer_token"),
    "az": ("azure_storage_account_key", "azure_storage_sas_token", "azure_storage_token"),
}
_ENDPOINT = {"s3": "aws_endpoint", "gs": "google_base_url", "az": "azure_endpoint"}
_FLAGS = re.compile(r"allow_http|.*_skip_signature|.*_style_request|.*_payer")
_VALUES = {
    **dict.fromkeys(_ENDPOINT.values(), (r"https?://[^\s@?#]+", "https://host or http://host")),
    "aws_region": (r"[A-Za-z0-9-]+", "as us-east-1"),
    "azure_storage_account_name": (r"[A-Za-z0-9-]+", "an account's name"),
}
"""What becomes part of an address is no other address."""


def set_apart(
    given: Mapping[str, object] | None, paths: Iterable[str | os.PathLike[str]], verb: str
) -> tuple[Settings, Settings]:
    """Split the ``storage_options`` for `paths` into (settings, secrets), each sorted by name.

    Raises
    ------
    ConfigError
        An option that the store does not have (the message names the nearest one), a value that
        means nothing, or a path that is not in one store with the others.

    Examples
    --------
    >>> given = {"endpoint": "http://127.0.0.1:9000", "key": "ada", "AWS_SECRET_ACCESS_KEY": "x"}
    >>> settings, secrets = set_apart(given, ["s3://data/x"], "read_csv")
    >>> settings, [name for name, _ in secrets]
    ((('aws_endpoint', 'http://127.0.0.1:9000'),), ['aws_access_key_id', 'aws_secret_access_key'])
    """
    if given is None:
        return (), ()
    if not isinstance(given, Mapping):
        raise ConfigError(
            f'{verb}: storage_options are a dict, as {{"region": "us-east-1"}}, got '
            f"{type(given).__name__}"
        )
    scheme = _scheme_of(paths, verb)
    found = _named(given, scheme, verb)
    if _FILE in found:
        found.setdefault(_KEY, _content(found.pop(_FILE), verb))
    store = tuple(sorted(found.items()))
    check_store(scheme, store)
    settings = tuple(pair for pair in store if pair[0] not in _SECRET)
    return settings, tuple(pair for pair in store if pair[0] in _SECRET)


def check_store(scheme: str, store: Settings, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse options that no store of this kind is opened with.

    Raises
    ------
    ConfigError, PlanError
        They are half of something, are no options, or name an endpoint without credentials for it,
        or one that plans may not reach.
    """
    given = dict(store)
    if wrong := sorted(given.keys() - (NAMES.get(scheme, {}).keys() - {_FILE})):
        raise ConfigError(f"storage_options of {scheme}:// have no {wrong[0][:80]!r}")
    for name, (pattern, words) in _VALUES.items():
        if name in given and re.fullmatch(pattern, given[name]) is None:
            raise ConfigError(f"storage_options: {name} must be {words}")
    for name in ("aws_access_key_id", "aws_secret_access_key"):
        if name not in given and given.keys() & _SECRET and scheme == "s3":
            raise ConfigError(
                f"storage_options have no {name}; give access_key_id and secret_access_key together"
            )
    if "gcs_base_url" in given.get(_KEY, ""):
        raise ConfigError("storage_options: name the endpoint in endpoint=, not in the key")
    _check_endpoint(scheme, given, environ)


def check_reach(place: FilePlace, paths: Iterable[str]) -> None:
    """`check_store` for all `paths` of a source or sink."""
    if place.store:
        for scheme in {scheme_of(path) for path in paths}:
            check_store(scheme, place.store)


def _check_endpoint(scheme: str, given: Mapping[str, str], environ: Mapping[str, str]) -> None:
    endpoint = given.get(_ENDPOINT[scheme], "")
    if not endpoint:
        return
    places.check_host(endpoint)
    first = environ.get("AWS_ENDPOINT_URL_S3", endpoint) if scheme == "s3" else endpoint
    if first != endpoint:
        raise ConfigError(
            f"storage_options name the endpoint {endpoint}, and obstore would take that of the "
            "variable AWS_ENDPOINT_URL_S3; call the variable AWS_ENDPOINT_URL"
        )
    own = any(name in given for name in _CREDENTIALS[scheme])
    is_unsigned = any(given[name] == "true" for name in given if name.endswith("_skip_signature"))
    known = [
        value
        for name, value in environ.items()
        if name.startswith(SCHEMES[scheme]) and ("ENDPOINT" in name or "BASE_URL" in name)
    ]
    if not (own or is_unsigned or endpoint in known):
        raise ConfigError(
            f"storage_options name the endpoint {endpoint} and no credentials for it, and those of "
            "the environment are not sent to another endpoint than its own; give them, too, or "
            "anonymous=True"
        )


def _scheme_of(paths: Iterable[str | os.PathLike[str]], verb: str) -> str:
    schemes = set()
    for path in paths:
        if not isinstance(path, str | os.PathLike) or not is_object_url(path):
            raise ConfigError(
                f"{verb}: storage_options are for s3://, gs:// and az:// URLs, and {str(path)!r} "
                "is none; leave them out"
            )
        schemes.add(split_url(path)[0].partition(":")[0])
    if len(schemes) > 1:
        raise ConfigError(
            f"{verb}: storage_options are for one kind of store, and these paths are in "
            f"{', '.join(sorted(schemes))}; read them apart, then .union them"
        )
    return schemes.pop() if schemes else "s3"


def _named(given: Mapping[str, object], scheme: str, verb: str) -> dict[str, str]:
    """The values by the names of obstore."""
    ours = {alias: name for name, others in NAMES[scheme].items() for alias in (name, *others)}
    found: dict[str, str] = {}
    by: dict[str, str] = {}
    for name, value in given.items():
        if (known := ours.get(str(name).lower())) is None:
            near = nearest(str(name), ours)
            hint = f"did you mean {near!r}? they are" if near else "they are"
            shown = sorted((others or (name,))[0] for name, others in NAMES[scheme].items())
            raise ConfigError(
                f"{verb}: storage_options of {scheme}:// have no {name!r}; {hint}: {listed(shown)}"
            )
        if known in by:
            raise ConfigError(
                f"{verb}: storage_options have {by[known]} and {name}, which are one; leave one out"
            )
        by[known] = str(name)
        if value is not None:
            found[known] = _text(known, str(name), value, verb)
    return found


def _text(known: str, name: str, value: object, verb: str) -> str:
    """A value as it travels; no message holds it."""
    is_flag = _FLAGS.fullmatch(known) is not None
    text = str(value).lower() if isinstance(value, bool) else value
    if isinstance(text, str) and is_flag and text.lower() in ("true", "false"):
        return text.lower()
    if is_flag or not isinstance(text, str) or isinstance(value, bool) or not text.strip():
        words = "True or False" if is_flag else "a text that is not empty"
        raise ConfigError(f"{verb}: {name} in storage_options must be {words}")
    return text


def _content(path: str, verb: str) -> str:
    """What the file of a service account holds."""
    try:
        text = Path(path).expanduser().read_text()
        known = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{verb}: the file of a service account in storage_options can't be read: "
            f"{type(error).__name__}; is {path} the JSON file with its key?"
        ) from None
    if not isinstance(known, dict) or "private_key" not in known:
        raise ConfigError(f"{verb}: {path} in storage_options has no key of a service account")
    return text
