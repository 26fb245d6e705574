"""What a take costs is in proportion to its bytes: sparse files, and images and videos that are made to be decoded for hours."""

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from command import BINARY, measured
from outputs import manifest, take
from scans import chunk
from system import processor_seconds, until

TERABYTE = 1 << 40
TINY = ["--seconds", 0.2, "--size", "64x48"]


@pytest.fixture(scope="module")
def originals(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("originals")
    takeset.simulate(root / "v1", *TINY, "--depth-size", "16x12")
    takeset.simulate(root / "v2", *TINY, "--variant", "v2")
    takeset("simulate", "realitycam-bundle", "--output", root / "bundle", *TINY, check=0)
    takeset("simulate", "stray-scanner", "--output", root / "scan", *TINY, "--depth-size", "16x12", check=0)
    shutil.make_archive(root / "zipped", "zip", root / "v2")
    subprocess.run(["tar", "-cf", root / "tarred.tar", "-C", root, "v2"], check=True)
    return root


SPARSE = [
    ("v1", "poses.json"), ("v1", "metadata.json"), ("v1", "rgb/000004.jpg"), ("v1", "depth/000002.bin"), ("v2", "encoders.json"), ("bundle", "metadata.json"),
    ("bundle", "video.mp4"), ("bundle", "depth.gz"), ("bundle", "hash_chain.json"), ("scan", "rgb.mp4"), ("scan", "odometry.csv"), ("scan", "depth/000002.png"),
    ("zipped.zip", ""), ("tarred.tar", ""),
]


@pytest.mark.parametrize("name, file", SPARSE)
def test_a_sparse_file_holds_nothing_up(takeset, originals, tmp_path, name, file):
    """A file of a terabyte, without blocks on the disk, is refused by its size; the other take is written."""
    takes = tmp_path / "takes"
    takes.mkdir()
    shutil.copytree(originals / "v2", takes / "good")
    if file:
        shutil.copytree(originals / name, takes / name)
        found = takes / name / file
    else:
        found = shutil.copy(originals / name, takes / name)
    assert found.exists()
    os.truncate(found, TERABYTE)
    code, _, seconds = measured(BINARY, "run", takes, "--output", tmp_path / "out", timeout=300)
    assert code == 3 and seconds < 20
    assert take(tmp_path / "out", "good")["outcome"] == "written"
    failed = next(t for t in manifest(tmp_path / "out")["record"]["takes"] if t["id"] != "good")
    assert failed["outcome"] == "failed" and ("limit" in failed["reason"] or "GiB" in failed["reason"]), failed["reason"]
    for command in ["inspect", takes], ["plan", takes]:
        assert measured(BINARY, *command, timeout=300)[0] in (0, 3)


def test_a_signal_ends_a_digest(takeset, originals, tmp_path):
    """Of a file that is as large as a video may be: the bytes are read, and reading ends at once."""
    take = shutil.copytree(originals / "scan", tmp_path / "takes/scan")
    os.truncate(take / "rgb.mp4", 60 << 30)
    process = subprocess.Popen([BINARY, "run", tmp_path / "takes", "--output", tmp_path / "out", "--isolate", "never"], stderr=subprocess.PIPE, text=True)
    def position():
        """How far it has read the video from its start to its end: other descriptors of it, which seek, may be open besides."""
        found = [0]
        for link in os.listdir(f"/proc/{process.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                if os.path.realpath(f"/proc/{process.pid}/fd/{link}").endswith("rgb.mp4"):
                    found.append(int(Path(f"/proc/{process.pid}/fdinfo/{link}").read_text().split()[1]))
        return max(found)

    until(lambda: position() > 1 << 30, "reading")
    process.send_signal(signal.SIGSTOP)
    used, done = processor_seconds(process.pid), max(position(), 1 << 30) / (60 << 30)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    errors = process.stderr.read()
    _, status, total = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 143, errors
    # Far less than the rest of the file would cost.
    assert total.ru_utime + total.ru_stime - used < used / done / 4


# Images


def gray_png(width, height, beyond):
    """A gray PNG of 16 bits whose compressed data go on for many zeros after the last row."""
    packer = zlib.compressobj(9)
    rows = b"".join(b"\0" + b"\3\xe8" * width for _ in range(height))
    data = packer.compress(rows)
    for _ in range(beyond >> 20):
        data += packer.compress(bytes(1 << 20))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)) + chunk(b"IDAT", data + packer.flush()) + chunk(b"IEND", b"")


@pytest.mark.slow
def test_nothing_is_inflated_that_no_row_needs(takeset, originals, tmp_path):
    scan = shutil.copytree(originals / "scan", tmp_path / "takes/scan")
    maps = sorted((scan / "depth").iterdir())
    bomb = gray_png(16, 12, 1 << 30)
    for path in maps[1:]:
        path.write_bytes(bomb)
    code, _, seconds = measured(BINARY, "run", scan, "--output", tmp_path / "out", timeout=300)
    assert seconds < 5 and code in (0, 3)
    found = take(tmp_path / "out", "scan")
    assert "compressed data" in str(found["findings"]) + str(found["reason"])


# Videos


def still_video(path, size, frames):
    """A video that shows one image: whatever follows the first frame is skipped by the encoder."""
    subprocess.run(
        ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"color=gray:s={size}:r=30", "-frames:v", str(frames), "-c:v", "libx264", "-preset", "ultrafast", "-g", "100000", "-pix_fmt",
         "yuv420p", "-y", path], check=True)
    return path


@pytest.mark.slow
def test_a_video_out_of_proportion_is_refused(takeset, tmp_path):
    """9,000 frames of 1280x720 in some 400 kB are 25 GB of images."""
    path = still_video(tmp_path / "video_1763892620.mov", "1280x720", 9000)
    assert path.stat().st_size < 1_500_000
    code, _, seconds = measured(BINARY, "run", path, "--output", tmp_path / "out", timeout=300)
    entry = manifest(tmp_path / "out")["record"]["takes"][0]
    assert code == 3 and seconds < 20 and "max-video-ratio" in entry["reason"], entry["reason"]
    (tmp_path / "p.yaml").write_text("version: 1\nreader: {name: slow-motion-video, max-video-ratio: 10000000}\ntransforms: [{align: {}}, {decimate: {every: 4500}}]\n")
    assert takeset("plan", path, "--pipeline", tmp_path / "p.yaml").returncode == 0


def test_a_short_still_video_is_read(takeset, tmp_path):
    """Whatever the proportion, 4 GiB of images are no burden."""
    path = still_video(tmp_path / "video_1763892620.mov", "320x240", 300)
    assert 300 * 320 * 240 * 3 / path.stat().st_size > 1000
    takeset.convert(path, output=tmp_path / "out")
