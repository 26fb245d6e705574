"""Workers on other machines: `takeset-server work`, which is killed and loses nothing."""

import hashlib
import json
import shutil
import signal
import subprocess

import pytest
import requests
from conftest import BINARY, TAKESET, bytes_below
from proxies import Gate
from queued import bundle, connect, delete, evidence, fake, files_below, finished, merged, queue, row, running, script, simulate
from test_keys import add, bearer

QUICK, PATIENT = ("--worker-silence", 4), ("--worker-silence", 3600)


@pytest.fixture
def workers(tmp_path):
    """Starts workers, which end with the test: workers(server, "--jobs", 2)."""
    found = []

    def start(server, *options, key=None, takeset=TAKESET, scratch=None):
        command = [BINARY, "work", "--to", server.url, "--takeset", takeset, "--scratch", scratch or tmp_path / f"scratch{len(found)}", *options]
        log = (tmp_path / f"worker{len(found)}.log").open("wb")
        process = subprocess.Popen([*map(str, command), *(["--key", key] if key else [])], stdout=log, stderr=log)
        process.log = tmp_path / f"worker{len(found)}.log"
        found.append(process)
        return process

    yield start
    for process in found:
        if process.poll() is None:
            process.kill()
            process.wait()


def ended(process, seconds=300):
    process.wait(timeout=seconds)
    return process.returncode, process.log.read_text()


def ask(server, **options):
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return server.post("/api/v1/work", json={"worker": "test", "version": version}, **options)


def test_what_a_restored_server_lacks_is_made_again_by_workers(start, workers, tmp_path):
    """A server that converts nothing itself, after its conversions were lost."""
    server = start(*PATIENT, "--require-key")
    key = add(server.data, "--power", "work")
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    worker = workers(server, key=key)
    assert finished(server, capture)["status"] == "complete"
    server.stop()
    shutil.rmtree(server.data / "conversions")
    shutil.rmtree(server.data / "datasets")
    server.start()
    server.until(lambda: "1 conversions are missing and are made again" in server.log.read_text())
    server.until(lambda: row(server.data, capture)["status"] == "complete")
    merged(server, capture)
    assert worker.poll() is None


def test_a_worker_converts_as_the_server_does(start, workers, tmp_path):
    """A session, a bundle, a damaged one, and what is no take: each result is the same as at home."""
    server = start(*PATIENT)
    sources = {
        "session": {name: path for name, path in files_below(simulate("stack-session", tmp_path / "s", "--seconds", "0.3", "--variant", "v2")).items() if name != "truth.json"},
        "video": bundle(tmp_path / "b"),
        "broken": bundle(tmp_path / "c") | {"hash_chain.json": b"{}"},
        "text": {"notes.txt": b"nothing to see"},
    }
    kinds = {"session": "session", "video": "video", "broken": "video", "text": "session"}
    there = {name: queue(server.data, kinds[name], files) for name, files in sources.items()}
    code, words = ended(workers(server, "--until-idle", "--name", "node12"))
    assert code == 0, words
    away = {name: finished(server, capture) for name, capture in there.items()}
    home = start(conversions=1)
    here = {name: queue(home.data, kinds[name], files) for name, files in sources.items()}
    for name, capture in here.items():
        found = finished(home, capture)
        same = {key: away[name][key] for key in ("status", "rows", "seconds", "badge", "state", "attempts")}
        assert same == {key: found[key] for key in same}, name
        assert (away[name]["reason"] or "").replace(there[name], "") == (found["reason"] or "").replace(capture, ""), name
        if found["evidence"]:
            taken = [json.dumps(evidence(one)).replace(there[name], "").replace(capture, "") for one in (away[name], found)]
            assert taken[0] == taken[1]
        for image in ("thumbnail.jpg", "overlay.jpg", "preview/preview.json"):
            paths = [root.data / "conversions" / id / image for root, id in ((server, there[name]), (home, capture))]
            assert paths[0].exists() == paths[1].exists(), (name, image)
    assert [away[name]["status"] for name in sources] == ["complete", "complete", "rejected", "quarantined"]
    merged(server, there["session"], there["video"])
    assert f"capture {there['video']}: the worker node12 converts it" in server.log.read_text()
    assert list(tmp_path.glob("scratch0/*")) == []
    server.until(lambda: not list((server.data / "conversions/.work").iterdir()))


def test_a_place_of_a_worker_stays_while_another_one_is_busy(start, workers, tmp_path):
    """With --until-idle: a capture may come back, or another one arrive."""
    gate, command = tmp_path / "gate", tmp_path / "takeset"
    command.write_text(f'#!/bin/sh\nwhile [ "$1" = run ] && ! [ -e {gate} ]; do sleep 0.1; done\nexec {TAKESET} "$@"\n')
    command.chmod(0o755)
    server = start(*PATIENT)
    first = queue(server.data, "video", bundle(tmp_path / "a"))
    worker = workers(server, "--jobs", 2, "--until-idle", takeset=command)
    idle = 'hb_requests_total{http_request_method="POST",http_response_status_code="204",http_route="/api/v1/work"}'
    server.until(lambda: idle in server.get("/metrics").text and row(server.data, first)["state"] == "running")
    second = queue(server.data, "video", bundle(tmp_path / "b", "--seed", 2))
    server.until(lambda: row(server.data, second)["state"] == "running")
    assert row(server.data, first)["state"] == "running" and worker.poll() is None
    gate.touch()
    assert ended(worker)[0] == 0 and [found["status"] for found in finished(server, first, second)] == ["complete"] * 2


def test_workers_that_are_killed_lose_nothing(start, workers, tmp_path):
    """So is the server. Every capture is in the dataset once in the end."""
    server = start(*QUICK, "--conversion-attempts", 1)
    captures = [queue(server.data, "video", bundle(tmp_path / f"b{number}", "--seed", number)) for number in range(8)]
    shared, kills = tmp_path / "shared", 0
    shared.mkdir()
    for number in range(8):
        before = {*shared.iterdir()}
        process = workers(server, "--jobs", 2, "--until-idle", scratch=shared)

        def fetched():
            """Bytes of this worker, in its own folder."""
            return sum(bytes_below(folder) for folder in {*shared.iterdir()} - before)

        # At each turn it has come a little further.
        server.until(lambda: process.poll() is not None or fetched() > 3000 * number)
        kills += process.poll() is None
        process.kill()
        process.wait()
        if number % 3 == 1:
            server.restart()
    assert kills >= 4, kills
    # What a killed worker left is removed by the next one.
    process = workers(server, "--jobs", 2, scratch=tmp_path / "shared")
    rows = finished(server, *captures)
    assert [found["status"] for found in rows] == ["complete"] * 8 and {found["attempts"] for found in rows} == {1}
    merged(server, *captures)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 143
    assert list((tmp_path / "shared").iterdir()) == []
    server.until(lambda: not list((server.data / "conversions/.work").iterdir()))
    assert running(str(tmp_path / "shared")) == []


def test_a_silent_worker_loses_its_capture(start, workers, tmp_path):
    server = start("--worker-silence", 20)
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    slow = workers(server, "--name", "slow", takeset=fake(tmp_path, "takeset", "sleep 600"))
    server.until(lambda: row(server.data, capture)["state"] == "running")
    assert " by slow</td>" in server.get("/jobs").text
    first = server.until(lambda: row(server.data, capture)["expiresAt"])
    server.until(lambda: row(server.data, capture)["expiresAt"] > first)  # it is heard of
    assert row(server.data, capture)["state"] == "running" and ask(server).status_code == 204
    slow.send_signal(signal.SIGSTOP)
    with connect(server.data) as database:
        database.execute("UPDATE conversion SET expiresAt = 1")
    server.until(lambda: "the worker slow fell silent; it waits again" in server.log.read_text())
    assert ended(workers(server, "--until-idle"))[0] == 0 and finished(server, capture)["status"] == "complete"
    slow.send_signal(signal.SIGCONT)
    server.until(lambda: "somebody else converts it now" in slow.log.read_text())
    merged(server, capture)


def test_a_capture_that_ends_its_workers_is_given_up(start, tmp_path):
    server = start(*QUICK)
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    for number in range(10):
        assert row(server.data, capture)["status"] == "processing"
        assert ask(server).json()["data"]["capture"] == capture
        with connect(server.data) as database:
            database.execute("UPDATE conversion SET expiresAt = 1")
        server.until(lambda number=number: server.log.read_text().count("fell silent") == number + 1)
    found = row(server.data, capture)
    assert (found["status"], found["state"], found["reason"]) == ("failed", "done", "10 workers in a row fell silent while they converted it.")
    assert ask(server).status_code == 204


def test_what_comes_too_late_changes_nothing(start, tmp_path):
    server = start(*PATIENT)
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    lease = ask(server).json()["data"]["lease"]
    at = f"{server.url}/api/v1/work/{lease}"
    assert requests.put(f"{at}/result/dataset/manifest.json", data=b"{}", timeout=300).status_code == 204
    with connect(server.data) as database:
        database.execute("UPDATE conversion SET expiresAt = 1")
    server.until(lambda: row(server.data, capture)["state"] == "waiting")
    done = {"result": {"outcome": "unknown", "reason": "", "detail": "", "isFinal": False, "folder": ""}, "files": {}}
    for answer in (
            requests.post(f"{at}/alive", timeout=300), requests.put(f"{at}/result/dataset/manifest.json", data=b"{}", timeout=300), requests.delete(at, timeout=300),
            requests.get(f"{at}/files/video.mp4", timeout=300), requests.post(f"{at}/done", json=done, timeout=300)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "LEASE_ENDED")
    assert row(server.data, capture)["status"] == "processing"
    # The folder of the lease goes soon after the lease.
    server.until(lambda: not list((server.data / "conversions/.work").iterdir()))
    # A capture that was deleted is nobody's, either.
    lease = ask(server).json()["data"]["lease"]
    delete(server.data, capture)
    assert requests.post(f"{server.url}/api/v1/work/{lease}/alive", timeout=300).status_code == 410


def test_a_capture_without_files_goes_to_no_worker(start):
    server = start(*PATIENT)
    capture = queue(server.data, "session", {})
    assert ask(server).status_code == 204
    found = row(server.data, capture)
    assert (found["status"], found["reason"]) == ("failed", "Its files are no longer kept.")
    assert not list((server.data / "conversions/.work").iterdir())


def test_results_have_only_names_that_conversions_write(start, tmp_path):
    server = start(*PATIENT)
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    lease = ask(server).json()["data"]["lease"]
    at = f"{server.url}/api/v1/work/{lease}"
    for name in ("dataset/%2e%2e/%2e%2e/x", "..%2f..%2fx", "%2fetc%2fx", "other.txt", "dataset/.hidden", "dataset", "dataset/a%00b", "thumbnail.jpg/x"):
        answer = requests.put(f"{at}/result/{name}", data=b"x", timeout=300)
        assert answer.status_code in (400, 404), name
    wrong = requests.put(f"{at}/result/dataset/a", data=b"x", headers={"X-Content-SHA256": "0" * 64}, timeout=300)
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "CHECKSUM_MISMATCH")
    done = {"result": {"outcome": "converted", "reason": "", "detail": "", "isFinal": False, "folder": ""}, "files": {"dataset/a": 1}}
    answer = requests.post(f"{at}/done", json=done, timeout=300)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "FILES_MISSING")
    # A result without a manifest is a failed attempt, and the capture is kept.
    assert requests.post(f"{at}/done", json=done | {"files": {}}, timeout=300).status_code == 204
    found = row(server.data, capture)
    assert (found["state"], found["attempts"], found["status"]) == ("waiting", 1, "processing") and "no manifest" in found["lastError"]


def test_a_worker_gives_back_what_it_cannot_do(start, workers, tmp_path):
    server = start(*PATIENT)
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    worker = workers(server, takeset=fake(tmp_path, "takeset", "sleep 600"))
    server.until(lambda: row(server.data, capture)["state"] == "running")
    worker.send_signal(signal.SIGTERM)
    assert ended(worker)[0] == 143 and row(server.data, capture)["state"] == "waiting"
    assert row(server.data, capture)["attempts"] == 0
    # A converter that crashes is an attempt.
    crashing = workers(server, takeset=fake(tmp_path, "crashing", "kill -SEGV $$"))
    server.until(lambda: row(server.data, capture)["attempts"] >= 1)
    crashing.kill()
    assert "signal 11" in row(server.data, capture)["lastError"]


def test_a_worker_that_ends_while_it_is_given_a_capture_gives_it_back(start, workers, tmp_path):
    """The server has its question and has not answered yet."""
    server = start(*PATIENT)
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    line = Gate(server.port, 1)
    line.opened.set()
    server.process.send_signal(signal.SIGSTOP)
    worker = workers(line)
    assert line.reached.wait(300)
    worker.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGCONT)
    assert ended(worker)[0] == 143
    found = row(server.data, capture)
    assert (found["state"], found["attempts"]) == ("waiting", 0)
    line.close()


def test_a_result_that_is_refused_is_a_failed_attempt(start, workers, tmp_path):
    """It ends no worker."""
    server = start(*PATIENT, "--conversion-attempts", 1)
    capture = queue(server.data, "video", bundle(tmp_path / "b"))
    hidden = fake(tmp_path, "hidden", f"'{TAKESET}' \"$@\"; code=$?; echo x > result/dataset/.hidden; exit $code")
    worker = workers(server, takeset=hidden)
    found = finished(server, capture)
    assert (found["status"], found["reason"]) == ("failed", "Its conversion could not be delivered.") and "no file of this name" in found["lastError"]
    assert worker.poll() is None


def test_somebody_elses_capture_comes_before_a_strangers(start, workers, tmp_path):
    server = start(*QUICK)
    stranger = queue(server.data, "video", bundle(tmp_path / "b"), stranger=True)
    worker = workers(server, takeset=script(tmp_path / "takeset", f"#!/bin/sh\ncase \"$*\" in *run*{stranger}*) sleep 600;; esac\nexec '{TAKESET}' \"$@\"\n"))
    server.until(lambda: row(server.data, stranger)["state"] == "running")
    other = queue(server.data, "video", bundle(tmp_path / "c", "--seed", 2))
    assert finished(server, other)["status"] == "complete"
    assert worker.poll() is None


def test_only_keys_for_workers_get_work(start, workers, tmp_path):
    server = start("--require-key", *PATIENT)
    keys = {power: add(server.data, "--power", power) for power in ("all", "read", "upload", "work")}
    capture = queue(server.data, "video", bundle(tmp_path / "b"), project="kitchen")
    assert [ask(server, headers=bearer(keys[power])).status_code for power in ("all", "read", "upload")] == [403] * 3
    assert ask(server).status_code == 401
    for path in ("/", f"/api/v1/captures/{capture}", "/metrics"):
        assert server.get(path, headers=bearer(keys["work"])).status_code == 403
    code, words = ended(workers(server, "--until-idle", key=keys["read"]))
    assert code == 77 and "The API key is for reading only" in words
    assert ended(workers(server, "--until-idle", key=keys["work"]))[0] == 0
    assert finished(server, capture)["status"] == "complete"
    # Pages make none.
    form = {"name": "a", "power": "work", "days": ""}
    assert server.post("/keys", data=form, headers=bearer(keys["all"])).status_code == 400


def test_a_worker_of_another_version_gets_nothing(start, tmp_path):
    server = start()
    queue(server.data, "video", bundle(tmp_path / "b"))
    answer = server.post("/api/v1/work", json={"worker": "old", "version": "0.2.0"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "OTHER_VERSION")
    assert server.post("/api/v1/work", data=b"nothing").status_code == 400


def test_files_arrive_as_they_were_sent(start, tmp_path):
    server = start(*PATIENT)
    files = {"dir with space/ü%41.bin": b"one" * 1000, "metadata.json": b"{}"}
    capture = queue(server.data, "session", files)
    work = ask(server).json()["data"]
    assert work["capture"] == capture and work["seconds"] == 3600 and "keys" not in work
    for file in work["files"]:
        got = server.get(f"/api/v1/work/{work['lease']}/files/{requests.utils.quote(file['name'])}")
        assert got.content == files[file["name"]] and hashlib.sha256(got.content).hexdigest() == file["sha256"]
        assert file["place"] == f"{capture}/{file['name']}"
    assert server.get(f"/api/v1/work/{work['lease']}/files/other").status_code == 404


def test_mistakes_of_the_command(start, workers, tmp_path):
    server = start()
    assert ended(workers(server, "--jobs", "0"))[0] == 64
    for options, code, words in ((["--to", "ftp://x"], 64, "expected the server's address"), (["--to", "http://127.0.0.1:1", "--ca-cert", tmp_path / "none"], 1, "expected a PEM file")):
        done = subprocess.run([*map(str, [BINARY, "work", "--until-idle", "--scratch", tmp_path / "s", *options])], capture_output=True, text=True, timeout=300)
        assert done.returncode == code and words in done.stderr, done.stderr
