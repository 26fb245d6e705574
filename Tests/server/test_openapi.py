"""The OpenAPI document: valid, and with exactly the routes that the server answers."""

import re

import pytest
import requests
import yaml
from conftest import ROOT

METHODS = ["get", "put", "post", "delete", "patch", "head", "options"]
VALUES = {"id": "00000000-0000-4000-8000-000000000000", "session": "absent", "upload": "absent", "name": "absent.mov", "key": "tks_absent", "path": "a", "project": "absent"}


@pytest.fixture(scope="module")
def document():
    return yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())


def test_references_lead_somewhere(document):
    def walk(value):
        if isinstance(value, dict):
            if "$ref" in value:
                found = document
                for part in value["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(document)
    assert document["openapi"].startswith("3.1")
    for path, item in document["paths"].items():
        named = set(re.findall(r"{(\w+)}", path))
        for method in set(item) & set(METHODS):
            given = [*item.get("parameters", []), *item[method].get("parameters", [])]
            assert named == {entry["name"] for entry in given if entry.get("in") == "path"}, (method, path)
            assert item[method]["responses"], (method, path)


def test_every_route_of_the_document_is_answered(document, server):
    """Not by the router's bare 404, which has no body."""
    for path, item in document["paths"].items():
        address = re.sub(r"{(\w+)}", lambda match: VALUES[match[1]], path)
        for method in set(item) & {"get", "head", "delete"}:
            done = requests.request(method, server.url + address, headers={"Tus-Resumable": "1.0.0"}, timeout=30)
            if done.status_code in (101, 426):
                continue
            documented = {str(code) for code in item[method]["responses"]}
            assert str(done.status_code) in documented, (method, path, done.status_code, documented)
            if done.status_code == 404 and method != "head":
                assert done.content, (method, path)


def test_other_methods_are_not_answered(document, server):
    for path, item in document["paths"].items():
        address = re.sub(r"{(\w+)}", lambda match: VALUES[match[1]], path)
        for method in {"patch", "put"} - set(item):
            assert requests.request(method, server.url + address, headers={"Tus-Resumable": "1.0.0"}, timeout=30).status_code in (400, 404, 405, 426), (method, path)
