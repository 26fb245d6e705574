"""`takeset upload` asks whether what it uploaded earlier is still there, before it says so."""

import pytest
import requests
import uploads
from devices import add_key
from tus_stub import Fault
from uploads import movie


def captures(server, key=None):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return [item["capture_id"] for item in server.get("/api/v1/captures", headers=headers).json()["data"]]


def test_what_the_server_lost_is_sent_again(server, client, tmp_path):
    path = movie(tmp_path / "in", count=100_000)
    assert client.send(server, path).returncode == 0
    (first,) = captures(server)
    again = client.send(server, path)
    assert again.returncode == 0 and f"it was uploaded before; capture {first}" in again.stderr
    assert requests.delete(f"{server.url}/api/v1/captures/{first}", timeout=300).status_code == 204
    again = client.send(server, path)
    assert again.returncode == 0 and "the server has it no longer; it is sent again" in again.stderr
    (second,) = captures(server)
    assert second != first and client.items()[path.name]["capture_id"] == second


def test_each_project_gets_what_is_sent_with_its_key(start, client, tmp_path):
    server = start("--require-key")
    keys = [add_key(server, "--project", project, "--power", "upload") for project in ("kitchen", "garage")]
    readers = [add_key(server, "--project", project, "--power", "read") for project in ("kitchen", "garage")]
    path = movie(tmp_path / "in", count=100_000)
    for key in (keys[0], keys[0], keys[1], keys[1]):
        assert client.send(server, path, "--key", key).returncode == 0
    found = [captures(server, key) for key in readers]
    assert [len(ids) for ids in found] == [1, 1] and found[0] != found[1]
    # A key for uploads learns that, and nothing else.
    for key in (keys[0], readers[0]):
        assert requests.head(f"{server.url}/api/v1/captures/{found[0][0]}", headers={"Authorization": f"Bearer {key}"}, timeout=300).status_code == 200
    assert server.get(f"/api/v1/captures/{found[0][0]}", headers={"Authorization": f"Bearer {keys[0]}"}).status_code == 403
    refused = client.send(server, path, "--key", "tks_wrong")
    assert refused.returncode == 77 and "API key" in refused.stderr
    assert client.send(server, path, "--key", keys[1]).returncode == 0


@pytest.mark.parametrize("fault, code", [(Fault(status=503), 0), (Fault(status=403), 3), (Fault(status=401), 77)])
def test_an_answer_that_is_neither_yes_nor_no_is_no_success(stub, client, tmp_path, fault, code):
    path = movie(tmp_path / "in", count=1000)
    assert client.send(stub, path).returncode == 0
    stub.fault("HEAD", fault)
    assert client.send(stub, path).returncode == code
    assert len(stub.of("POST")) == 1
    assert client.send(stub, path).returncode == 0 and len(stub.of("POST")) == 1


def test_a_server_that_is_away_is_no_success(stub, client, tmp_path):
    path = movie(tmp_path / "in", count=1000)
    assert client.send(stub, path).returncode == 0
    stub.close()
    assert client.run(path, "--to", stub.url, *uploads.QUICK, "--max-attempts", "2").returncode == 3
