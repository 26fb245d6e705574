"""Formats that are known and not read: each says what to use instead, and no reader guesses."""

import json

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


def test_a_known_format_says_what_to_use_instead(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    for name, (make, _) in FOREIGN.items():
        make(tmp_path / "in" / name)
    (tmp_path / "in/plain.mp4").write_bytes(video_file(count=20))  # without a camera at its end it is a video
    takeset.simulate(tmp_path / "in/good", "--seconds", 0.3, "--size", "64x48", "--depth-size", "8x6")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    failed = {entry["id"]: entry for entry in manifest(tmp_path / "out")["record"]["takes"] if entry["outcome"] == "failed"}
    inspected = takeset("inspect", tmp_path / "in")
    assert len(failed) == len(FOREIGN) and list(demos(tmp_path / "out")) == ["good", "plain"]
    for name, (_, words) in FOREIGN.items():
        entry = failed[name]
        assert entry["findings"][0]["code"] == "format-unsupported" and words in entry["reason"] and entry.get("reader") is None
        assert words in inspected.stdout + inspected.stderr
