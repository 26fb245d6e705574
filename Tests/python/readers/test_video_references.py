"""Videos whose index says that the data is in another file: no other file is opened, also not by a decoder in the command's own process."""

import struct
import subprocess

import pytest
from command import BINARY
from conversions import failed_with
from outputs import manifest
from videos import box, video_file, with_reference


def alias(path):
    """An alias record of the Macintosh that leads to an absolute path: volume, name, and the path with colons."""
    def text(value, length):
        return bytes([len(value)]) + value.ljust(length, b"\0")

    words = b"disk" + str(path).encode().replace(b"/", b":")
    words += b"\0" * (len(words) % 2)
    head = bytes(10) + text(b"disk", 27) + bytes(12) + text(path.name.encode(), 63) + bytes(16) + struct.pack(">HH", 0, 0) + bytes(16)
    return head + struct.pack(">HH", 2, len(words)) + words + struct.pack(">Hh", 0xFFFF, 0)


def reference_movie(path):
    """A movie that is nothing but a reference to another one."""
    url = f"file://{path}\0".encode()
    reference = box("rdrf", struct.pack(">I4sI", 0, b"url ", len(url)) + url)
    return box("ftyp", b"qt  " + bytes(4) + b"qt  ") + box("moov", box("rmra", box("rmda", reference)))


REFERENCES = {
    "alias": ("movie-external-data", lambda path: with_reference("alis", alias(path))),
    "url": ("movie-external-data", lambda path: with_reference("url ", f"file://{path}\0".encode())),
    "relative": ("movie-external-data", lambda path: with_reference("url ", path.name.encode() + b"\0")),
    "server": ("movie-external-data", lambda path: with_reference("url ", b"http://127.0.0.1:9/" + path.name.encode() + b"\0")),
    "name": ("movie-external-data", lambda path: with_reference("urn ", b"secret\0" + str(path).encode() + b"\0")),
    "movie": ("no-video", reference_movie),
}


def opened(log, *command):
    """What a command does with files and sockets."""
    strace = ["strace", "-f", "-s", "300", "-e", "trace=open,openat,openat2,stat,lstat,newfstatat,statx,access,faccessat2,socket,connect", "-o", log]
    subprocess.run([*map(str, [*strace, *command])], capture_output=True, timeout=300)
    return log.read_text()


@pytest.mark.parametrize("kind", REFERENCES)
def test_data_in_another_file_is_never_looked_for(tmp_path, kind):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.mov").write_bytes(video_file(count=6))
    (tmp_path / "takes").mkdir()
    code, make = REFERENCES[kind]
    (tmp_path / "takes/bad.mov").write_bytes(make(elsewhere / "secret.mov"))
    (tmp_path / "takes/good.mov").write_bytes(video_file(count=6))
    command = [BINARY, "run", tmp_path / "takes", "--output", tmp_path / "out", "--isolate", "never"]
    calls = opened(tmp_path / "log", *command)
    assert "bad.mov" in calls and "secret" not in calls and "elsewhere" not in calls and "AF_INET" not in calls
    entries = {entry["id"]: entry for entry in manifest(tmp_path / "out")["record"]["takes"]}
    failed_with(entries["bad"], code, "bad.mov")
    assert entries["good"]["outcome"] == "written"


def test_another_program_follows_such_an_alias(tmp_path):
    """So that the test above can fail: FFmpeg opens the other file if it is told to."""
    (tmp_path / "secret.mov").write_bytes(video_file(count=6))
    (tmp_path / "bad.mov").write_bytes(with_reference("alis", alias(tmp_path / "secret.mov")))
    ffprobe = ["ffprobe", "-v", "error", "-enable_drefs", "1", "-use_absolute_path", "1", "-show_frames", tmp_path / "bad.mov"]
    assert "secret.mov" in opened(tmp_path / "log", *ffprobe)
