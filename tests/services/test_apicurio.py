"""The schema registry that tests start."""

from __future__ import annotations

import json
import urllib.request

from tests.services.apicurio import Apicurio


def asked(url: str, body: object = None) -> object:
    """What the registry answers to a GET, or a POST with a body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_a_schema_is_kept_until_the_registry_ends() -> None:
    text = '{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}'
    with Apicurio() as registry:
        found = asked(f"{registry.url}/subjects/topic-value/versions", {"schema": text})
        assert isinstance(found, dict)
        again = asked(f"{registry.url}/schemas/ids/{found['id']}")
        assert isinstance(again, dict)
        assert json.loads(again["schema"])["fields"] == [{"name": "a", "type": "long"}]
        assert asked(f"{registry.url}/subjects") == ["topic-value"]
        registry.kill()
        registry.start()
        assert asked(f"{registry.url}/subjects") == []
        folder = registry.folder
    assert not folder.exists()
