"""Formats that are known and not read: each says what to use instead, and no reader guesses."""

import json

import pytest
from outputs import demos, manifest
from videos import video_file


def hue_video(root):
    root.write_bytes(video_file(count=20) + b'{"intrinsicMatrix":[600,0,0,0,600,0,320,240,1],"rangeOfEncodedDepth":[0,3]}')


def scannetpp(root):
    root.mkdir()
    (root / "rgb.mkv").write_bytes(b"\x1a\x45\xdf\xa3" + bytes(100))
    (root / "depth.bin").write_bytes(bytes(100))
    (root / "pose_intrinsic_imu.json").write_text(json.dumps({"0": {"pose": [1], "timestamp": 0.1}}))


def sens(root):
    root.write_bytes(b"\4\0\0\0" + bytes(200))


FOREIGN = {"hue.mp4": (hue_video, "export the recording as EXR + JPG sequence"), "iphone": (scannetpp, "transforms-json"), "scene0000.sens": (sens, "transforms.json")}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_known_format_says_what_to_use_instead(takeset, tmp_path, name):
    make, words = FOREIGN[name]
    (tmp_path / "in").mkdir()
    make(tmp_path / "in" / name)
    takeset.simulate(tmp_path / "in/good", "--seconds", 0.3, "--size", "64x48", "--depth-size", "8x6")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    (entry,) = [take for take in manifest(tmp_path / "out")["record"]["takes"] if take["outcome"] == "failed"]
    assert entry["findings"][0]["code"] == "format-unsupported" and words in entry["reason"] and entry.get("reader") is None
    assert list(demos(tmp_path / "out")) == ["good"]
    inspected = takeset("inspect", tmp_path / "in")
    assert words in inspected.stdout + inspected.stderr


def test_a_video_without_a_camera_at_its_end_is_a_video(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/plain.mp4").write_bytes(video_file(count=20))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    assert list(demos(tmp_path / "out")) == ["plain"]
