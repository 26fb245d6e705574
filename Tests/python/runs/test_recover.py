"""takeset recover: recordings that a killed app has left, written here byte for byte after the format's description."""

import hashlib
import errno
import json
import os
import random
import resource
import shutil
import signal
import struct
import zlib

import numpy as np
import pytest
from command import BINARY
from images import frame_code
from outputs import demos, record, take
from session_faults import tree
from system import calls, failing, limited, share, spread, stopped
from videos import box, boxes, ffmpeg, yuv_image

SIZE, DEPTH, RATE, EVERY = (96, 72), (16, 12), 30, 15


def entry(kind, payload):
    head = struct.pack("<IB", len(payload), kind) + payload
    return head + struct.pack("<I", zlib.crc32(head))


def movie(root, count):
    """The initialization and the segments of half a second of a movie whose image n carries the number n."""
    pixels = b"".join(yuv_image(n, *SIZE) for n in range(count))
    raw = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{SIZE[0]}x{SIZE[1]}", "-r", RATE, "-i", "-"]
    coded = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-g", EVERY, "-keyint_min", EVERY, "-sc_threshold", 0, "-bf", 0, "-crf", 10, "-colorspace", "bt709"]
    ffmpeg(*raw, *coded, "-movflags", "frag_keyframe+empty_moov+default_base_moof", root / "whole.mp4", contents=pixels)
    parts = [(kind.encode(), box(kind, payload)) for kind, payload in boxes((root / "whole.mp4").read_bytes())]
    start = b"".join(data for kind, data in parts if kind in (b"ftyp", b"moov"))
    moofs, mdats = ([data for kind, data in parts if kind == wanted] for wanted in (b"moof", b"mdat"))
    assert len(moofs) == len(mdats) == -(-count // EVERY)
    segments = [moof + mdat for moof, mdat in zip(moofs, mdats)]
    return [start + segments[0]] + segments[1:]


class Recorded:
    """The files of a recording of `count` frames, and its journal's entries."""

    def __init__(self, root, count=80):
        self.count, self.segments = count, movie(root, count)
        self.depth = [np.full(DEPTH[::-1], 0.5 + n / 100, "<f4") for n in range(0, count, 3)]
        self.hashes, last, end, written, maps = [], b"", 0, 0, 0
        self.entries = []
        for n in range(count):
            time = n / RATE
            last = hashlib.sha256(b"pixels %d" % n + struct.pack("<d", time) + last).digest()
            self.hashes.append(last)
            self.entries.append(entry(1, struct.pack("<Id", n, time) + last))
            if n % 3 == 0:
                data = self.depth[n // 3].tobytes()
                maps += len(data)
                self.entries.append(entry(2, struct.pack("<IQ", n, maps) + hashlib.sha256(data).digest()))
            if n % EVERY == EVERY - 1 or n == count - 1:
                data = self.segments[written]
                end, written = end + len(data), written + 1
                self.entries.append(entry(3, struct.pack("<QI", end, n + 1) + hashlib.sha256(data).digest()))
        self.entries.insert(5, entry(99, b"of a later version"))
        self.entries.append(entry(8, struct.pack("<dI", count / RATE, count)))

    def write(self, folder, entries=None, extra=b""):
        folder.mkdir(parents=True)
        about = {"attestationLevel": "unverified", "clockStart": 81234.5, "codec": "h264", "depthHeight": DEPTH[1], "depthWidth": DEPTH[0],
                 "deviceModel": "iPhone", "height": SIZE[1], "startedAt": 1_771_446_000_123, "version": 1, "width": SIZE[0]}
        (folder / "recording.json").write_text(json.dumps(about))
        (folder / "video.mp4").write_bytes(b"".join(self.segments) + extra)
        (folder / "depth.raw").write_bytes(b"".join(one.tobytes() for one in self.depth))
        (folder / "journal").write_bytes(b"".join(self.entries if entries is None else entries))
        return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return Recorded(tmp_path_factory.mktemp("recorded"))


def recovered(takeset, path, *arguments, check=0):
    return json.loads(takeset("recover", path, "--json", *arguments, check=check).stdout)["recordings"]


def test_a_stopped_recording_is_complete_and_converts(takeset, recorded, tmp_path):
    recorded.write(tmp_path / "in/take_1.recording")
    assert takeset("recover", tmp_path / "in", check=0).stdout == f"{tmp_path}/in/take_1.recording: complete\n"
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    found, (demo, meta) = take(tmp_path / "out", "take_1"), demos(tmp_path / "out")["take_1"]
    assert found["reader"] == "realitycam-bundle" and [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(recorded.count))
    depth, rows = demo["obs/camera_depth"][..., 0], meta["streams/camera_depth/source_index"][:]
    for row, number in enumerate(rows):
        if number >= 0:
            assert (depth[row] == recorded.depth[number]).all()
    chain = json.loads((tmp_path / "in/take_1/hash_chain.json").read_text())
    assert chain["frame_count"] == recorded.count and len(chain["frame_hashes"]) == recorded.count
    assert takeset("recover", tmp_path / "in", check=0).stderr == "nothing to recover\n"
    assert [path.name for path in sorted((tmp_path / "in").iterdir())] == ["take_1", "take_1.recording.recovered"]
    assert recovered(takeset, tmp_path / "in", "--discard") == [] and [path.name for path in (tmp_path / "in").iterdir()] == ["take_1"]


def test_a_recording_cut_anywhere_converts_and_claims_what_is_there(takeset, recorded, tmp_path):
    journal = b"".join(recorded.entries)
    chance = random.Random(1)
    cuts = sorted({0, len(journal) - 1, *(chance.randrange(len(journal)) for _ in range(38))})
    expected = {}
    for number, cut in enumerate(cuts):
        recorded.write(tmp_path / f"in/cut_{number:02}.recording", [journal[:cut]], extra=b"half a segment"[: number % 15])
        whole, at = 0, 0
        for one in recorded.entries:
            at += len(one)
            if at <= cut and one[4] == 3:
                whole = struct.unpack_from("<QI", one, 5)[1]
        expected[f"cut_{number:02}"] = whole
    found = {one["id"]: one for one in recovered(takeset, tmp_path / "in")}
    assert {name: one["frames"] for name, one in found.items()} == expected
    assert all(one["outcome"] == ("partial" if one["frames"] else "nothing") and one["verified_frames"] == 0 for one in found.values())
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    for name, (demo, _) in demos(tmp_path / "out").items():
        assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(expected[name]))
        assert json.loads((tmp_path / f"in/{name}/metadata.json").read_text())["is_partial"] is True
    assert set(demos(tmp_path / "out")) == {name for name, frames in expected.items() if frames}


@pytest.mark.slow
@pytest.mark.parametrize("is_of_the_recorder, tries", [(False, 40), (True, share(100))], ids=["written here", "of the recorder"])
def test_a_killed_recovery_is_repeated_with_the_same_bytes(takeset, recorded, failing_look, tmp_path, is_of_the_recorder, tries):
    if is_of_the_recorder:
        arguments = ["--output", tmp_path / "a/take", "--size", "96x72", "--depth-size", "16x12", "--seconds", "15"]
        process = stopped([BINARY, "simulate", "realitycam-bundle", *arguments], failing_look, "write", tmp_path / "a/take.recording/journal", 300)
        process.kill()
        process.wait()
    else:
        recorded.write(tmp_path / "a/take.recording", recorded.entries[:-20])
    recovered(takeset, tmp_path / "a")
    once = tree(tmp_path / "a/take")
    copy = tmp_path / "counted"
    shutil.copytree(tmp_path / "a/take.recording.recovered", copy / "take.recording")
    count = calls(takeset, failing_look, "change", copy, "recover", copy)
    for number in spread(tries, count):
        root = tmp_path / f"k{number}"
        shutil.copytree(tmp_path / "a/take.recording.recovered", root / "take.recording")
        for turn in range(3):
            process = stopped([BINARY, "recover", root], failing_look, "change", root, number + turn)
            process.kill()
            process.wait()
        takeset("recover", root, check=0)
        assert tree(root / "take") == once and sorted(os.listdir(root)) == ["take", "take.recording.recovered"]


def test_run_and_inspect_name_the_command(takeset, recorded, tmp_path):
    recorded.write(tmp_path / "in/take.recording")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    reason = record(tmp_path / "out")["reason"]
    assert "takeset recover" in reason and "takeset recover" in takeset("inspect", tmp_path / "in", check=3).stdout
    # What is kept is no take.
    takeset("recover", tmp_path / "in", check=0)
    takeset.convert(tmp_path / "in", output=tmp_path / "new", check=0)
    assert set(demos(tmp_path / "new")) == {"take"}


def test_what_has_the_name_stays_and_the_original_too(takeset, recorded, tmp_path):
    recorded.write(tmp_path / "in/take.recording")
    (tmp_path / "in/take").mkdir()
    (tmp_path / "in/take/notes.txt").write_text("mine")
    before = tree(tmp_path / "in")
    (found,) = recovered(takeset, tmp_path / "in", check=1)
    assert found["outcome"] == "failed" and "something already" in found["reason"] and tree(tmp_path / "in") == before


def test_a_disk_that_is_full_leaves_the_original(takeset, recorded, tmp_path):
    recorded.write(tmp_path / "in/take.recording")
    before = tree(tmp_path / "in")
    done = takeset("recover", tmp_path / "in", preexec_fn=limited(resource.RLIMIT_FSIZE, 5000))
    assert done.returncode == 1 and "File too large" in done.stdout and tree(tmp_path / "in") == before


def test_exit_codes(takeset, recorded, tmp_path):
    assert takeset("recover", tmp_path / "nowhere").returncode == 1
    assert takeset("recover").returncode == 64
    (tmp_path / "empty").mkdir()
    assert takeset("recover", tmp_path / "empty").returncode == 0
    recorded.write(tmp_path / "in/good.recording")
    bad = recorded.write(tmp_path / "in/bad.recording")
    (bad / "recording.json").write_text("{")
    found = {one["id"]: one["outcome"] for one in recovered(takeset, tmp_path / "in", check=3)}
    assert found == {"bad": "failed", "good": "complete"} and (bad / "journal").exists()


@pytest.mark.slow
def test_flips_claim_nothing_that_is_not_there(takeset, recorded, tmp_path):
    chance = random.Random(3)
    parts = {"journal": b"".join(recorded.entries), "video.mp4": b"".join(recorded.segments), "depth.raw": b"".join(one.tobytes() for one in recorded.depth)}
    count = share(1000)
    for number in range(count):
        folder = recorded.write(tmp_path / f"in/flip_{number:04}.recording")
        name = chance.choice(list(parts))
        data = bytearray(parts[name])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (folder / name).write_bytes(data)
    found = recovered(takeset, tmp_path / "in")
    assert len(found) == count and all(one["frames"] % EVERY == 0 or one["frames"] == recorded.count for one in found)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    for name, (demo, _) in demos(tmp_path / "out").items():
        assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(len(demo["obs/camera_image"])))


def test_a_failing_disk_is_never_a_recording_of_nothing(takeset, recorded, failing_look, tmp_path):
    """--discard would then remove all of it."""
    folder = recorded.write(tmp_path / "in/take.recording")
    before = tree(tmp_path / "in")
    for name in "video.mp4", "depth.raw", "journal", "recording.json":
        for kind in "open", "pread":
            for code in (errno.EIO, errno.EMFILE, errno.EACCES) if kind == "open" else (errno.EIO,):
                failure = failing(failing_look, "parent", kind, folder / name, 1, code)
                done = takeset("recover", tmp_path / "in", "--discard", "--json", env=failure, check=3)
                (found,) = json.loads(done.stdout)["recordings"]
                assert found["outcome"] == "failed" and f"{name}: cannot be {'opened' if kind == 'open' else 'read'}" in found["reason"], found
                assert os.strerror(code) in found["reason"] and tree(tmp_path / "in") == before
    assert recovered(takeset, tmp_path / "in")[0]["outcome"] == "complete"


def test_of_two_recoveries_at_once_one_works(takeset, recorded, failing_look, tmp_path):
    """The other one comes before each change of the first."""
    recorded.write(tmp_path / "a/take.recording")
    recovered(takeset, tmp_path / "a")
    expected = tree(tmp_path / "a/take")
    for number in range(1, 16):
        root = tmp_path / f"{number}"
        recorded.write(root / "take.recording")
        first = stopped([BINARY, "recover", root], failing_look, "change", root, number)
        second = takeset("recover", root)
        if first.returncode is None:
            first.send_signal(signal.SIGCONT)
        codes = [first.wait(), second.returncode]
        assert 0 in codes and tree(root / "take") == expected, (codes, second.stderr)


def test_nothing_of_a_recording_is_uploaded_by_its_name(takeset, recorded, tmp_path):
    for name in ["take.recording.recovered", "broken.recording"]:
        folder = recorded.write(tmp_path / name)
        (folder / "recording.json").write_text("{")
        for path in [folder, f"{folder}/", folder / "video.mp4"]:
            done = takeset("upload", path, "--to", "http://127.0.0.1:9", "--delete-after-upload", "--state", tmp_path / "queue.sqlite", "--max-attempts", 1)
            assert done.returncode == 1 and "nothing of it is sent" in done.stderr and (folder / "video.mp4").exists(), done.stderr
    # What is not recovered is not on the server.
    done = takeset("upload", tmp_path, "--to", "http://127.0.0.1:9", "--state", tmp_path / "queue.sqlite", "--max-attempts", 1)
    assert done.returncode != 0 and "broken.recording: not recovered" in done.stderr
