"""`takeset upload`: what it finds and sends, its exit codes and its queue. Faults of the way are in test_upload_faults.py."""

import io
import os
import re
import ssl
import tarfile
import threading
import time
import zipfile

import pytest
import uploads
from certificates import certificate
from conftest import free_port
from system import shown_on_terminal
from tus_stub import Fault, TusStub
from uploads import bundle, digest, movie, random_bytes, session


def contents(folder):
    return {str(path.relative_to(folder.parent)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unpacked(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}


def test_finds_every_kind_of_capture_and_sends_its_bytes(stub, client, tmp_path):
    root = tmp_path / "in"
    folders = [session(root / "deep/er"), bundle(root)]
    video = movie(root)
    with zipfile.ZipFile(root / "session_2.zip", "w") as archive:
        archive.writestr("poses.json", "{}")
    (root / "notes.txt").write_text("no capture")
    (root / ".hidden.mov").write_bytes(b"no capture")
    (root / "elsewhere").symlink_to(tmp_path)

    done = client.send(stub, root)

    assert done.returncode == 0, done.stderr
    sent = {upload["metadata"]["filename"]: upload for upload in stub.uploads.values()}
    kinds = {name: upload["metadata"]["kind"] for name, upload in sent.items()}
    assert kinds == {"session_1.tar": "session", "bundle_1.tar": "bundle", "video_1771446000.mov": "movie", "session_2.zip": "session"}
    assert stub.kept("video_1771446000.mov") == video.read_bytes()
    assert stub.kept("session_2.zip") == (root / "session_2.zip").read_bytes()
    for folder in folders:
        assert unpacked(stub.kept(folder.name + ".tar")) == contents(folder)
    for upload in sent.values():
        assert upload["metadata"]["sha256"] == digest(bytes(upload["data"]))
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert {(state, capture) for state, capture, _ in lines} == {("uploaded", upload["capture"]) for upload in sent.values()}
    assert contents(root / "deep/er/session_1"), "nothing is deleted"


def test_a_copy_of_a_folder_gives_the_same_tar(stub, client, tmp_path):
    for place in ("one", "two"):
        os.utime(session(tmp_path / place) / "poses.json", (1, len(place) * 1000))
    assert client.send(stub, tmp_path / "one", tmp_path / "two").returncode == 0
    digests = {upload["metadata"]["sha256"] for upload in stub.uploads.values()}
    assert len(stub.uploads) == 2 and len(digests) == 1


def test_names_of_any_length_and_script_are_kept(stub, client, tmp_path):
    root = session(tmp_path)
    deep = root / ("a" * 90) / ("b" * 90) / ("c" * 90)
    deep.mkdir(parents=True)
    (deep / "d.bin").write_bytes(b"1")
    (root / ("e" * 200)).write_bytes(b"2")
    (root / "Messung \u00e4\u6e2c.bin").write_bytes(b"3" * 513)
    (root / "empty").write_bytes(b"")
    assert client.send(stub, root).returncode == 0
    assert unpacked(stub.kept("session_1.tar")) == contents(root)


def test_an_empty_movie_is_sent(stub, client, tmp_path):
    done = client.send(stub, movie(tmp_path, count=0))
    assert done.returncode == 0, done.stderr
    assert stub.kept("video_1771446000.mov") == b""


@pytest.mark.parametrize("kind", ["link", "pipe", "latin1"])
def test_a_folder_that_cannot_be_sent_whole_is_refused(stub, client, tmp_path, kind):
    root = session(tmp_path)
    if kind == "link":
        (root / "rgb/000009.jpg").symlink_to("/etc/hostname")
    elif kind == "pipe":
        os.mkfifo(root / "rgb/000009.jpg")
    else:
        open(os.fsencode(root) + b"/\xe4.jpg", "wb").close()
    done = client.send(stub, root, movie(tmp_path / "other"))
    assert done.returncode == 3
    assert {"link": "is a link", "pipe": "neither a file nor a folder", "latin1": "not UTF-8"}[kind] in done.stderr
    assert [upload["metadata"]["kind"] for upload in stub.uploads.values()] == ["movie"]


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["--to", "ftp://h"], 64, "expected the server's address"),
        (["--to", "http://u:p@h"], 64, "expected the server's address"),
        (["x.mov"], 64, "--to"),
        (["--to", "http://h", "--jobs", "0"], 64, "--jobs"),
        (["--to", "http://h", "--limit-rate", "fast"], 64, "--limit-rate fast"),
        (["--to", "http://h", "--no-such"], 64, "--no-such"),
        (["--to", "http://h", "nowhere"], 1, "nowhere: No such file"),
        (["--to", "http://h", "--watch", "nowhere"], 1, "no such folder"),
    ],
)
def test_mistakes_are_sentences(client, arguments, code, words):
    done = client.run(*arguments)
    assert done.returncode == code
    assert words in done.stderr


def test_a_path_without_captures_and_a_file_that_is_none(client, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("words")
    for name, words in {"empty": "no capture in it", "notes.txt": "it is no capture"}.items():
        done = client.run(tmp_path / name, "--to", "http://h")
        assert done.returncode == 1 and words in done.stderr


# The queue


def test_what_was_uploaded_is_not_sent_again_unless_it_changed(stub, client, tmp_path):
    path = movie(tmp_path)
    assert client.send(stub, path).returncode == 0
    again = client.send(stub, path)
    assert again.returncode == 0 and "uploaded before" in again.stderr
    assert len(stub.of("POST")) == 1
    path.write_bytes(random_bytes(1000, 9))
    assert client.send(stub, path).returncode == 0
    assert len(stub.of("POST")) == 2
    assert client.send(stub, path, "--again").returncode == 0
    assert len(stub.of("POST")) == 3


def test_the_queue_goes_on_without_paths(stub, client, tmp_path):
    path = movie(tmp_path)
    down = f"http://127.0.0.1:{free_port()}"
    first = client.run(path, "--to", down, *uploads.QUICK, "--max-attempts", "1")
    assert first.returncode == 3 and "no server answers" in first.stderr
    assert client.items()[path.name]["state"] == "failed"
    # Another server has a queue of its own.
    assert client.send(stub).returncode == 0 and not stub.uploads
    assert client.send(stub, path).returncode == 0
    assert len(client.run("--list").stdout.splitlines()) == 2


def test_a_failed_capture_waits_for_a_person(stub, client, tmp_path):
    path = movie(tmp_path)
    stub.fault("POST", Fault(status=400, body=b'{"error":{"message":"No\\u001b[31m"}}'))
    failed = client.send(stub, path)
    assert failed.returncode == 3 and "answered 400: No [31m" in failed.stderr
    assert client.send(stub).returncode == 0 and len(stub.of("POST")) == 1
    assert client.send(stub, "--retry-failed").returncode == 0
    assert client.items()[path.name]["state"] == "uploaded"


def test_413_is_final_and_the_others_go_on(stub, client, tmp_path):
    large, small = movie(tmp_path, "video_1.mov", 100_000), movie(tmp_path, "video_2.mov", 10_000)
    stub.fault("POST", Fault(status=413))
    done = client.send(stub, large, small, "--jobs", "1")
    assert done.returncode == 3
    assert "video_1.mov: failed: it is larger than the server takes" in done.stderr
    assert {name: item["state"] for name, item in client.items().items()} == {"video_1.mov": "failed", "video_2.mov": "uploaded"}
    assert len(stub.of("POST")) == 2


def test_the_server_says_its_limit_first(client, tmp_path):
    stub = TusStub(max_size=1000)
    done = client.send(stub, movie(tmp_path, count=1001))
    stub.close()
    assert done.returncode == 3 and "takes at most 1.0 kB" in done.stderr
    assert not stub.of("POST")


def test_401_pauses_the_queue_until_there_is_a_key(client, tmp_path):
    stub = TusStub(key="tks_right")
    path = movie(tmp_path)
    for key in ([], ["--key", "tks_wrong"]):
        done = client.send(stub, path, *key)
        assert done.returncode == 77
        assert "An API key is needed" in done.stderr and "--key" in done.stderr and "tks_" not in done.stderr
        assert client.items()[path.name]["state"] == "paused"
    assert client.send(stub, environment={"TAKESET_KEY": "tks_right"}).returncode == 0
    stub.close()
    assert client.items()[path.name]["state"] == "uploaded"
    assert b"tks_" not in b"".join(file.read_bytes() for file in client.state.parent.iterdir()), "keys are not kept"


def test_several_at_a_time(stub, client, tmp_path):
    gate = threading.Event()
    stub.fault("PATCH", *[Fault(hold=gate)] * 3)
    for number in range(6):
        movie(tmp_path / "in", f"video_{number}.mov", 1000, number)
    process = client.start(tmp_path / "in", "--to", stub.url, *uploads.QUICK)
    stub.wait_until(lambda: len(stub.of("PATCH")) == 3)
    gate.set()
    process.communicate(timeout=300)
    assert process.returncode == 0 and stub.most_active == 3
    for number in range(6):
        movie(tmp_path / "in2", f"video_{number}.mov", 1000, 10 + number)
    stub.most_active = 0
    assert client.send(stub, tmp_path / "in2", "--jobs", "1").returncode == 0
    assert stub.most_active == 1


def test_two_uploaders_share_a_queue_and_send_nothing_twice(stub, client, tmp_path):
    stub.pause = 0.02
    for number in range(12):
        movie(tmp_path / "in", f"video_{number}.mov", 2000, number)
    running = [client.start(tmp_path / "in", "--to", stub.url, *uploads.QUICK) for _ in range(2)]
    for process in running:
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert out.count("uploaded\t") == 12
    assert len(stub.of("POST")) == 12
    assert sum(request.body_bytes for request in stub.of("PATCH")) == 12 * 2000


def test_several_uploaders_make_the_queue_at_the_same_moment(tmp_path):
    for turn in range(40):
        client = uploads.Client(tmp_path / str(turn))
        running = [client.start("--list") for _ in range(4)]
        for process in running:
            out, errors = process.communicate(timeout=300)
            assert (process.returncode, errors) == (0, "")


# What it says


def on_a_terminal(command, environment):
    """What a run that ends well says there."""
    code, said = shown_on_terminal(command, env=environment)
    assert code == 0, said
    return said


def test_progress_on_a_terminal_is_one_line(stub, client, tmp_path):
    path = movie(tmp_path, count=6_000_000)
    stub.pause = 0.4
    text = on_a_terminal(client.command(path, "--to", stub.url, "--limit-rate", "4M"), client.environment())
    assert "\r\x1b[K1 under way, " in text and " left, " in text and "/s, about " in text


def test_the_rate_is_of_what_this_run_sends(stub, client, tmp_path):
    """What the server had before counts neither for the rate nor for the time left."""
    path = movie(tmp_path, count=6_000_000)
    stub.fault("PATCH", *[Fault()] * 2, Fault(status=400))
    assert client.send(stub, path).returncode == 3 and len(stub.kept(path.name)) > 3_000_000
    before = len(stub.of("PATCH"))
    said = on_a_terminal(client.command("--to", stub.url, "--retry-failed", "--limit-rate", "500k"), client.environment())
    rates = [float(number) * {"k": 1e3, "M": 1e6}.get(unit, 1) for number, unit in re.findall(r"([0-9.]+) ([kM]?)B/s", said)]
    assert "resumes at" in said and len(rates) >= 4, said
    sent = stub.of("PATCH")[before:]
    true = sum(request.body_bytes for request in sent[:-1]) / (sent[-1].time - sent[0].time)
    assert all(rate < 1.6e6 for rate in rates) and 0.5 * true < rates[-1] < 2 * true, (rates, true)


def test_in_a_log_progress_is_a_line_now_and_then(stub, client, tmp_path):
    began = time.monotonic()
    done = client.send(stub, movie(tmp_path, count=6_000_000), "--limit-rate", "500k", timeout=300)
    took = time.monotonic() - began
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if " under way, " in line]
    assert 1 <= len(lines) <= took / 10 + 1
    rate = re.fullmatch(r"1 under way, [0-9.]+ [kM]?B left, ([0-9.]+) kB/s, about \d+ s", lines[0])[1]
    assert 0 < float(rate) < 620 and "\x1b" not in done.stderr


def test_quiet_says_nothing_but_problems(stub, client, tmp_path):
    stub.fault("POST", Fault(status=503))
    done = client.send(stub, movie(tmp_path), "--quiet")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [line for line in done.stderr.splitlines() if "answered 503" in line] != []


# Keys do not go elsewhere


def test_a_redirect_is_not_followed(stub, client, tmp_path):
    other = TusStub()
    stub.fault("POST", Fault(status=301, headers={"Location": other.url + "/files"}))
    done = client.send(stub, movie(tmp_path), "--key", "tks_secret")
    other.close()
    assert done.returncode == 1 and f"redirects to {other.url}" in done.stderr
    assert not other.requests and [item["state"] for item in client.items().values()] == ["pending"]


def test_a_location_on_another_host_stays_on_this_server(stub, client, tmp_path):
    other = TusStub()
    stub.location = other.url + "/files/{}"
    done = client.send(stub, movie(tmp_path), "--key", "tks_secret")
    other.close()
    assert done.returncode == 0, done.stderr
    assert not other.requests and len(stub.of("PATCH")) > 0


def test_a_certificate_that_this_machine_does_not_trust_ends_it(client, tmp_path):
    stub = TusStub(tls=own_tls(tmp_path))
    done = client.send(stub, movie(tmp_path), "--key", "tks_secret")
    stub.close()
    assert done.returncode == 1 and "the queue waits: this machine does not trust the server's certificate; --ca-cert names one of your own" in done.stderr
    assert not stub.requests and [item["state"] for item in client.items().values()] == ["pending"]


def test_a_certificate_of_ones_own_is_trusted_where_it_is_named(client, tmp_path):
    stub = TusStub(tls=own_tls(tmp_path))
    video, folder = movie(tmp_path / "in"), session(tmp_path / "in")
    done = client.send(stub, tmp_path / "in", "--key", "tks_secret", "--ca-cert", tmp_path / "cert.pem")
    stub.close()
    assert done.returncode == 0, done.stderr
    assert stub.kept(video.name) == video.read_bytes() and unpacked(stub.kept(folder.name + ".tar")) == contents(folder)
    assert {request.headers["authorization"] for request in stub.requests} == {"Bearer tks_secret"}


def test_another_certificate_than_the_named_one_is_not_trusted(client, tmp_path):
    stub = TusStub(tls=own_tls(tmp_path))
    (tmp_path / "other").mkdir()
    certificate(tmp_path / "other")
    done = client.send(stub, movie(tmp_path), "--key", "tks_secret", "--ca-cert", tmp_path / "other/cert.pem")
    by_name = client.run(tmp_path, "--to", stub.url.replace("127.0.0.1", "localhost"), "--ca-cert", tmp_path / "cert.pem")
    stub.close()
    for ended, named in (done, "other/cert.pem"), (by_name, "cert.pem"):
        assert ended.returncode == 1 and f"nor {tmp_path / named} trusts the server's certificate for that name" in ended.stderr
    assert not stub.requests and {item["state"] for item in client.items().values()} == {"pending"}


@pytest.mark.parametrize("name, fault", [
    ("503", {"status": 503}), ("409", {"status": 409}), ("cut", {"cut_after": 300_000}), ("lost", {"lose_answer": True}), ("late", {"hold": threading.Event()})])
def test_with_a_certificate_of_ones_own_it_goes_on_after_a_fault(client, tmp_path, name, fault):
    stub = TusStub(tls=own_tls(tmp_path))
    stub.fault("PATCH", Fault(**fault))
    video = movie(tmp_path / "in")
    done = client.send(stub, video, "--ca-cert", tmp_path / "cert.pem", "--timeout", "2")
    stub.close()
    assert done.returncode == 0, done.stderr
    assert stub.kept(video.name) == video.read_bytes()


def test_with_a_certificate_of_ones_own_no_answer_is_followed_or_misread(client, tmp_path):
    stub = TusStub(tls=own_tls(tmp_path), key="tks_secret")
    done = client.send(stub, movie(tmp_path / "in"), "--ca-cert", tmp_path / "cert.pem", "--key", "wrong")
    assert done.returncode == 77, done.stderr
    stub.fault("POST", Fault(status=301, headers={"Location": "https://elsewhere.invalid/files"}))
    done = client.send(stub, "--ca-cert", tmp_path / "cert.pem", "--key", "tks_secret", tmp_path / "in")
    stub.close()
    assert done.returncode == 1 and "redirects to https://elsewhere.invalid" in done.stderr
    done = client.send(stub, "--ca-cert", tmp_path / "cert.pem", "--key", "tks_secret", "--max-attempts", "2")
    assert done.returncode == 3 and "no server answers there" in done.stderr
    (tmp_path / "empty.pem").write_text("")
    for path in (tmp_path / "empty.pem", tmp_path / "none.pem"):
        done = client.send(stub, "--ca-cert", path)
        assert done.returncode == 64 and "expected a PEM file with certificates" in done.stderr


def own_tls(folder):
    """What a server with a certificate of its own needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder)[:2])
    return context
