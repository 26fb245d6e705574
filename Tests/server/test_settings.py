"""Settings from flags, environment and file, and mistakes of an operator, who is told by a sentence."""

import os
import subprocess

import pytest
import yaml
from conftest import BINARY, free_port


def run(*arguments, environment=None):
    return subprocess.run(
        [BINARY, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=300, env={**os.environ, **(environment or {})})


def settings(*arguments, environment=None):
    ended = run("--data", "d", *arguments, "--print-config", environment=environment)
    assert ended.returncode == 0, ended.stderr
    return yaml.safe_load(ended.stdout)


def test_flags_come_before_the_environment_and_that_before_the_file(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("policy: strict\nreserve: 1\nconnections: 7\napp-id: FILE.a\n")
    environment = {"TAKESET_SERVER_RESERVE": "2", "TAKESET_SERVER_CONNECTIONS": "8", "TAKESET_SERVER_APP_ID": "ENV.a,ENV.b"}
    found = settings("--config", file, "--connections", 9, environment=environment)
    assert (found["policy"], found["reserve"], found["connections"], found["app-id"]) == ("strict", 2, 9, "ENV.a,ENV.b")
    assert settings("--app-id", "FLAG.a", environment=environment)["app-id"] == "FLAG.a"


def test_what_is_printed_is_a_file_of_the_same_settings(tmp_path):
    options = ["--base-url", "https://a.example:8443/b", "--trusted-proxy", "0:0::1", "--listen", "[::1]:80", "--pipeline", "a: \"b\" # c\\"]
    printed = run("--data", "d", *options, "--print-config").stdout
    assert yaml.safe_load(printed)["trusted-proxy"] == "::1"
    file = tmp_path / "settings.yaml"
    file.write_text(printed)
    assert run("--config", file, "--print-config").stdout == printed


def test_settings_are_printed_without_a_data_folder_and_mistakes_lead_to_them():
    printed = run("--print-config")
    assert printed.returncode == 0 and yaml.safe_load(printed.stdout)["data"] is None
    for options in ([], ["--data", "d", "--polcy", "strict"], ["--data", "d", "--log-level", "loud"]):
        refused = run(*options)
        assert refused.returncode == 64 and "takeset-server serve --help" in refused.stderr, refused.stderr


def test_only_the_owner_writes_the_data_and_strangers_read_nothing(start):
    server = start()
    assert server.get("/api/v1/devices/challenge").status_code == 200
    files = sorted(path for path in server.data.iterdir() if path.is_file())
    assert {"server.sqlite", "server.sqlite-wal", "server.sqlite-shm", "server.lock"} <= {path.name for path in files}
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o640"}
    server.kill()
    # Those of an earlier version are narrowed.
    for path in files:
        path.chmod(0o644)
    start(data=server.data)
    assert {oct(path.stat().st_mode & 0o777) for path in server.data.glob("server.sqlite*")} == {"0o640"}


def test_a_server_that_cannot_start_says_why(tmp_path, server):
    (tmp_path / "file").write_text("")
    for options, words in [
        (["--data", tmp_path / "a", "--listen", f"127.0.0.1:{server.port}"], f"cannot listen on 127.0.0.1:{server.port}: Address already in use"),
        (["--data", tmp_path / "b", "--listen", "nowhere.invalid:80"], "cannot listen on nowhere.invalid: there is no such host"),
        (["--data", tmp_path / "c", "--listen", "8080"], "expected an address and a port"),
        (["--data", tmp_path / "file", "--listen", "127.0.0.1:0"], f"{tmp_path}/file"),
        (["--data", "/proc/none", "--listen", "127.0.0.1:0"], "/proc/none"),
    ]:
        ended = run(*options)
        assert ended.returncode == 1 and ended.stderr.count("\n") == 1, ended.stderr
        assert ended.stderr.startswith("error: ") and words in ended.stderr and "NSPOSIX" not in ended.stderr, ended.stderr


def test_a_folder_has_one_server(server, start):
    """A second one would remove what the first is about to accept."""
    arriving = server.data / "staging/arriving"
    arriving.mkdir()
    ended = run("--data", server.data, "--listen", f"127.0.0.1:{free_port()}")
    assert (ended.returncode, ended.stderr) == (1, f"error: --data {server.data}: another server uses it\n")
    assert arriving.exists() and server.get("/health").ok
    server.kill()
    assert start(data=server.data).get("/health").ok


@pytest.mark.parametrize("camera, status", [("127.0.0.1", 200), ("[::1]", 200), ("0.0.0.0", 401)])
def test_keys_are_needed_where_others_can_connect_to_either_address(start, camera, status):
    assert start("--camera-listen", f"{camera}:{free_port()}").get("/api/v1/captures").status_code == status
