"""Stray Scanner: which folders and archives are scans, which variant they are, and which of their files are read."""

import hashlib

from conversions import failed_with, pipeline
from outputs import demos, input_digest, manifest, record, take
from scan_checks import convert, scan_codes
from scans import depth_map, png, session


def test_variants_are_detected_from_the_files(takeset, tmp_path):
    root = tmp_path / "in"
    session(times="time").write(root / "both")
    session().write(root / "depth")
    session(times="time", maps=False).write(root / "movie")
    takeset.convert(root, output=tmp_path / "out")
    obs = {name: list(demo["obs"]) for name, (demo, _) in demos(tmp_path / "out").items()}
    depth, image = ["camera_depth", "camera_depth_confidence", "camera_depth_valid"], ["camera_image"]
    assert obs == {"both": [*depth, *image, "pose"], "depth": [*depth, "pose"], "movie": [*image, "pose"]}
    assert [take(tmp_path / "out", name)["variant"] for name in ("both", "depth", "movie")] == ["rgbd", "depth-only", "rgb-only"]
    assert all(scan_codes(entry) == [] for entry in manifest(tmp_path / "out")["record"]["takes"])


def test_what_makes_a_directory_a_take(takeset, tmp_path):
    found = session(times="time")
    files = found.files()
    for name, marker in ("movie", "rgb.mp4"), ("matrix", "camera_matrix.csv"), ("maps", "depth/000003.png"):
        for file in "odometry.csv", marker:
            (tmp_path / "in/deep" / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in/deep" / name / file).write_bytes(files[file])
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=None)
    takes = manifest(tmp_path / "out")["record"]["takes"]
    assert [(t["id"], t["reader"]) for t in takes] == [(name, "stray-scanner") for name in ("maps", "matrix", "movie")]
    # Poses alone may give no episode, but then there is a reason.
    assert takes[0]["outcome"] == takes[2]["outcome"] == "written" and (takes[1]["outcome"] == "written" or takes[1]["reason"])
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/odometry.csv").write_bytes(files["odometry.csv"])
    done = takeset.convert(tmp_path / "alone", output=tmp_path / "none", check=64)
    assert "the directory holds no take" in done.stderr


def test_the_reader_can_be_named(takeset, tmp_path):
    entry, _, _ = convert(takeset, tmp_path, session(), pipeline(tmp_path, reader={"name": "stray-scanner"}))
    assert entry["outcome"] == "written"
    assert "stray-scanner (reader)" in takeset("steps", "stray-scanner", check=0).stdout


def test_inputs_have_their_roles_and_other_files_are_listed_as_ignored(takeset, tmp_path):
    found = session(count=18, times="time")
    found.others = {"notes.txt": b"a note", "viz/000000.png": png(depth_map(0, (8, 8)))}
    entry, _, _ = convert(takeset, tmp_path, found)
    files = {name: data for name, data in found.files().items() if name not in found.others}
    roles = {
        "odometry.csv": "poses", "camera_matrix.csv": "calibration", "imu.csv": "imu", "rgb.mp4": "movie", "depth": "depth",
        "confidence": "confidence"
    }
    assert {i["path"]: i["role"] for i in entry["inputs"]} == {name: roles[name.split("/")[0]] for name in files}
    assert all(i["bytes"] == len(files[i["path"]]) and i["sha256"] == hashlib.sha256(files[i["path"]]).hexdigest() for i in entry["inputs"])
    assert entry["input_sha256"] == input_digest(files)
    assert entry["details"]["ignored"] == ["notes.txt", "viz/"]


def test_links_are_not_followed(takeset, tmp_path):
    directory = session().write(tmp_path / "capture")
    (directory / "depth/000003.png").rename(tmp_path / "elsewhere")
    (directory / "depth/000003.png").symlink_to(tmp_path / "elsewhere")
    takeset.convert(directory, output=tmp_path / "out", check=3)
    failed_with(record(tmp_path / "out"), "not-a-regular-file", "depth/000003.png")
