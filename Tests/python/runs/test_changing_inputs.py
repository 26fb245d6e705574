"""Inputs that change while they are read: a written take is of one version."""

import hashlib
import os
import shutil
import signal
import struct

import pytest
from command import BINARY
from images import numbers
from outputs import demos, manifest
from stack_sessions import jpeg, v2, write
from system import calls, stopped
from videos import BT709, ENCODERS, made, yuv_image

pytestmark = pytest.mark.slow


def rewritten(path, data):
    """Other bytes in the same file, with the time of modification that it had."""
    before = path.stat()
    assert before.st_size == len(data)
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def same_length(files):
    """JPEGs with a comment that makes them as long as the longest."""
    longest = max(map(len, files)) + 4
    return [data[:2] + struct.pack(">BBH", 0xFF, 0xFE, longest - len(data) - 2) + b" " * (longest - len(data) - 4) + data[2:] for data in files]


def one_version(entry, demo, versions, shown):
    """The only version of which a written take has images and digests; `shown` gives the version of an image's number."""
    seen = {shown(number) for number in numbers(demo["obs/camera_image"][:])}
    assert len(seen) == 1, "pictures of two versions"
    (version,) = seen
    digests = {i["path"]: i["sha256"] for i in entry["inputs"]}
    expected = {path: hashlib.sha256(data).hexdigest() for path, data in versions[version].items()}
    assert {path: digests[path] for path in expected} == expected, "digests of another version"
    return version


def disturbed(takeset, failing_look, tmp_path, path, versions, shown, kind, share):
    """Runs that are stopped at one call of a kind while a take is rewritten; the number of them that failed."""
    arguments = ["run", path, "--output", tmp_path / "out", "--isolate", "never", "--jobs", "1"]
    count = calls(takeset, failing_look, kind, path, *arguments)

    def place(version):
        for name, data in versions[version].items():
            rewritten(path / name if path.is_dir() else path, data)

    failed, tried = 0, [round(1 + (count - 1) * k / share) for k in range(share + 1)]
    assert len(set(tried)) > 5
    for number in tried:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        place(0)
        process = stopped([BINARY, *arguments], failing_look, kind, path, number)
        assert process.returncode is None
        place(1)
        process.send_signal(signal.SIGCONT)
        code = process.wait(timeout=300)
        (entry,) = manifest(tmp_path / "out")["record"]["takes"]
        if entry["outcome"] == "written":
            assert code == 0
            one_version(entry, demos(tmp_path / "out")[entry["id"]][0], versions, shown)
        else:
            assert code == 3 and entry["findings"][-1]["code"] == "changed-while-reading", (number, count, entry["findings"])
            failed += 1
        takeset(*arguments, check=0)
        (entry,) = manifest(tmp_path / "out")["record"]["takes"]
        assert entry["outcome"] == "written"
        assert one_version(entry, demos(tmp_path / "out")[entry["id"]][0], versions, shown) == 1
    return failed


def test_a_session_that_is_rewritten_while_it_is_read_is_never_of_two_versions(takeset, failing_look, tmp_path):
    session = v2(60)
    files = same_length([jpeg(number) for number in [*range(60), *range(1000, 1060)]])
    session.rgb = dict(enumerate(files[:60]))
    write(tmp_path / "session", session.contents())
    versions = [{f"rgb/{n:06d}.jpg": data for n, data in enumerate(half)} for half in (files[:60], files[60:])]
    assert disturbed(takeset, failing_look, tmp_path, tmp_path / "session", versions, lambda number: int(number >= 1000), "open", 12) > 0


def test_a_video_that_is_rewritten_while_it_is_read_is_never_of_two_versions(takeset, failing_look, tmp_path):
    arguments = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "320x240", "-r", 60, "-i", "-", *ENCODERS["h264"], "-g", 15, "-threads", 1, *BT709]
    pair = [made(".mp4", *arguments, contents=b"".join(yuv_image(first + k, 320, 240) for k in range(120))) for first in (0, 1000)]
    longest = max(map(len, pair)) + 8
    pair = [data + struct.pack(">I4s", longest - len(data), b"free") + bytes(longest - len(data) - 8) for data in pair]
    (tmp_path / "pour.mp4").write_bytes(pair[0])
    versions = [{"pour.mp4": data} for data in pair]
    assert disturbed(takeset, failing_look, tmp_path, tmp_path / "pour.mp4", versions, lambda number: int(number >= 1000), "pread", 12) > 0
