"""The OpenAPI document: valid, with exactly the routes that the server answers, and with schemas that its answers have."""

import re
import subprocess

import pytest
import requests
import yaml
from bundles import APP
from conftest import BINARY, ROOT, TAKESET
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV31SpecValidator
from phone import Phone, capture, error
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from resumable import MOVIE, SESSION, Tus, zipped

METHODS = ["get", "put", "post", "delete", "patch", "head", "options"]
VALUES = {"id": "00000000-0000-4000-8000-000000000000", "session": "absent", "upload": "absent", "name": "absent.mov", "key": "tks_absent", "path": "a", "project": "absent", "link": "absent"}


@pytest.fixture(scope="module")
def document():
    return yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())


def test_the_document_is_valid(document):
    errors = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in OpenAPIV31SpecValidator(document).iter_errors()]
    assert errors == []
    assert document["openapi"].startswith("3.1")
    for path, item in document["paths"].items():
        named = set(re.findall(r"{(\w+)}", path))
        for method in set(item) & set(METHODS):
            given = [*item.get("parameters", []), *item[method].get("parameters", [])]
            assert named == {entry["name"] for entry in given if entry.get("in") == "path"}, (method, path)


def test_versions_agree(document):
    said = {subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.split(" (")[0].split()[-1]
            for command in (BINARY, TAKESET)}  # fmt: skip
    assert said == {document["info"]["version"]}


def test_every_route_of_the_document_is_answered_and_no_other_method(document, server):
    """Not by the router's bare 404, which has no body."""
    for path, item in document["paths"].items():
        address = server.url + re.sub(r"{(\w+)}", lambda match: VALUES[match[1]], path)
        for method in {"patch", "put"} - set(item):
            refused = requests.request(method, address, headers={"Tus-Resumable": "1.0.0"}, timeout=300)
            assert refused.status_code in (400, 404, 405, 426), (method, path)
        for method in set(item) & {"get", "head", "delete"}:
            done = requests.request(method, address, headers={"Tus-Resumable": "1.0.0"}, timeout=300, allow_redirects=False)
            if done.status_code in (101, 426):
                continue
            documented = {str(code) for code in item[method]["responses"]}
            assert str(done.status_code) in documented, (method, path, done.status_code, documented)
            if done.status_code == 404 and method != "head":
                assert done.content, (method, path)


class Checked:
    """Requests whose answers must be as the document says: status, media type and, for JSON, the schema."""

    def __init__(self, document, server):
        self.document, self.server, self.seen = document, server, set()
        self.registry = Registry().with_resource("urn:document", Resource(contents=document, specification=DRAFT202012))

    def __call__(self, method, template, status, data=None, query="", headers=None, **values):
        address = self.server.url + re.sub(r"{(\w+)}", lambda match: values[match[1]], template) + query
        return self.check(requests.request(method, address, data=data, headers=headers, timeout=300), method, template, status)

    def check(self, answer, method, template, status):
        assert answer.status_code == status, (method, template, answer.status_code, answer.text[:300])
        pointer = ["paths", template, method.lower(), "responses", str(status)]
        found = self.document
        for part in pointer:
            found = found[part]
        if "$ref" in found:
            pointer = found["$ref"].removeprefix("#/").split("/")
            found = self.document["components"]["responses"][pointer[-1]]
        kind = answer.headers.get("Content-Type", "").split(";")[0]
        if method != "HEAD" and answer.content:
            assert kind in found.get("content", {}), (method, template, status, kind)
        if kind == "application/json" and method != "HEAD":
            pointer += ["content", kind, "schema"]
            place = "urn:document#/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in pointer)
            validator = Draft202012Validator({"$ref": place}, registry=self.registry, format_checker=FormatChecker())
            errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(answer.json())]
            assert errors == [], (method, template, status, errors, answer.text[:500])
        self.seen.add((method, template, status))
        return answer


def test_answers_have_the_schemas_of_the_document(document, start):
    server = start("--videos-per-hour", 2, "--app-id", APP)
    ask = Checked(document, server)
    phone = Phone(server)
    video = "/api/v1/captures/video"
    sent = phone.send(capture(1))
    ask.check(sent, "POST", video, 202)
    ask.check(phone.send(capture(2), "s0"), "POST", video, 202)
    # What a stranger has sent does not count against the phone.
    ask.check(phone.send(capture(4)), "POST", video, 202)
    ask.check(phone.send(capture(3)), "POST", video, 429)
    ask.check(phone.send(capture(3), timestamp=1), "POST", video, 401)
    ask.check(Phone(server, 9, level=None).send(capture(3)), "POST", video, 404)
    ask("POST", video, 401, data=b"x")

    session = zipped(SESSION)
    ask("PUT", "/api/v1/sessions/{session}", 201, data=session, session="kitchen.zip")
    ask("PUT", "/api/v1/sessions/{session}", 200, data=session, session="kitchen.zip")
    ask("PUT", "/api/v1/sessions/{session}", 409, data=zipped(SESSION[:1]), session="kitchen.zip")
    ask("PUT", "/api/v1/sessions/{session}", 404, data=session, session="kitchen.rar")
    ask("PUT", "/api/v1/sessions/{session}", 422, data=b"no archive", session="other.zip")
    ask("PUT", "/api/v1/sessions/{session}", 400, data=session, session="third.zip", headers={"X-Content-SHA256": "0" * 64})
    files = "/api/v1/sessions/{session}/files/{path}"
    ask("PUT", files, 201, data=b"{}", session="folder", path="metadata.json")
    ask("PUT", files, 200, data=b"{}", session="folder", path="metadata.json")
    ask("PUT", files, 409, data=b"[]", session="folder", path="metadata.json")
    ask("PUT", files, 400, data=b"[]", session="folder", path="a%5Cb")
    ask("GET", "/api/v1/sessions/{session}", 200, session="folder")
    ask("POST", "/api/v1/sessions/{session}/complete", 409, data=b'[{"name":"poses.json"}]', session="folder")
    ask("POST", "/api/v1/sessions/{session}/complete", 400, data=b"{", session="folder")
    ask("POST", "/api/v1/sessions/{session}/complete", 201, session="folder")
    ask("POST", "/api/v1/sessions/{session}/complete", 200, session="folder")
    ask("DELETE", "/api/v1/sessions/{session}", 409, session="folder")
    ask("GET", "/api/v1/sessions/{session}", 404, session="none")

    movie = ask("POST", "/upload", 200, data=MOVIE, headers={"Content-Type": "video/quicktime"}).json()
    ask("POST", "/upload", 400, data=b"")
    ask("GET", "/videos", 200)
    name = movie["path"].rsplit("/", 1)[-1]
    ask("HEAD", "/uploads/{name}", 200, name=name)
    ask("GET", "/uploads/{name}", 200, name=name)
    ask("GET", "/uploads/{name}", 206, name=name, headers={"Range": "bytes=0-3"})
    ask("GET", "/uploads/{name}", 416, name=name, headers={"Range": "bytes=99999999-"})
    ask("GET", "/status", 200)
    ask("POST", "/control/start", 200)
    ask("POST", "/control/stop", 200)

    tus = Tus(server)
    place = tus.create(len(MOVIE) + 1)
    ask("HEAD", "/files/{upload}", 200, upload=place.rsplit("/", 1)[-1], headers={"Tus-Resumable": "1.0.0"})
    ask("PATCH", "/files/{upload}", 409, upload=place.rsplit("/", 1)[-1], data=b"x",
        headers={"Tus-Resumable": "1.0.0", "Upload-Offset": "3", "Content-Type": "application/offset+octet-stream"})  # fmt: skip
    ask("DELETE", "/files/{upload}", 204, upload=place.rsplit("/", 1)[-1], headers={"Tus-Resumable": "1.0.0"})
    ask("POST", "/files", 412, headers={"Tus-Resumable": "0.2.2", "Upload-Length": "1"})

    page = ask("GET", "/api/v1/captures", 200, query="?limit=2").json()
    assert page["meta"]["next"]
    ask("GET", "/api/v1/captures", 200, query="?limit=1000&status=processing")
    ask("GET", "/api/v1/captures", 400, query="?limit=x")
    for entry in ask("GET", "/api/v1/captures", 200).json()["data"]:
        ask("GET", "/api/v1/captures/{id}", 200, id=entry["capture_id"])
        ask("GET", "/verify/{id}", 200, id=entry["capture_id"])
    ask("GET", "/api/v1/captures/{id}", 404, id=VALUES["id"])
    ask("GET", "/captures/{id}/files/{name}", 200, id=sent.json()["data"]["capture_id"], name="video.mp4")
    ask("DELETE", "/api/v1/captures/{id}", 204, id=sent.json()["data"]["capture_id"])
    ask("DELETE", "/api/v1/captures/{id}", 404, id=sent.json()["data"]["capture_id"])

    ask("GET", "/api/v1/devices", 200)
    ask("GET", "/api/v1/devices", 200, query="?limit=1")
    ask("GET", "/api/v1/devices/challenge", 200)
    ask("POST", "/api/v1/devices/register", 400, data=b"{}")
    for path in "/", "/devices", "/live", "/datasets", "/server", "/health", "/metrics", "/favicon.ico":
        ask("GET", path, 200)
    assert len(ask.seen) > 50


def test_answers_without_a_key_have_the_schemas_of_the_document(document, start):
    ask = Checked(document, start("--require-key"))
    for path, item in document["paths"].items():
        for method in set(item) & {"get", "put", "post", "delete"}:
            if "401" in item[method]["responses"] and not path.startswith(("/api/v1/devices/", "/api/v1/captures/video", "/k/", "/camera", "/viewer", "/upload")):
                refused = ask(method.upper(), path, 401, data=b"x" if method in ("put", "post") else None, **VALUES)
                assert error(refused) == (401, "KEY_REQUIRED")
    assert len(ask.seen) > 12
