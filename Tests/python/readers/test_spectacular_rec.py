"""Recordings of Spectacular Rec."""

import json
import shutil

import numpy as np
import pytest
from images import frame_code
from outputs import codes, finding, traces
from phone_takes import Takes, absolute, converted, quirks, rotated_videos, truth, zipped
from PIL import Image


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"recording_1": []} | quirks("constant-intrinsics", "fine-depth", "poses", "cut-line+no-depth") | WRONG
    found["rotated"] = rotated_videos
    found["drift"] = ["--quirk", "constant-rate", with_times(lambda time, number: time + 0.02 * number)]
    found["gaps"] = ["--quirk", "constant-rate", with_times(lambda time, number: time + (number > 9) / 30 + (number > 20) / 30)]
    found |= {f"without {missing}": without(missing) for missing in MISSING} | {"no accelerations": without_accelerations}
    return Takes(takeset, tmp_path_factory.mktemp("spectacular"), "spectacular-rec", ["--seconds", 1, "--size", "96x72"], found)


def lines(folder):
    return [json.loads(line) for line in (folder / "data.jsonl").read_text().splitlines()]


def put(folder, found):
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, found)) + "\n")


def with_times(change):
    """A change of a take: of the times of its frames, by their times and numbers."""
    return lambda take: put(take, [dict(line, time=change(line["time"], line["number"])) if "frames" in line else line for line in lines(take)])


def listed(folder):
    """Times in nanoseconds by number of the frame."""
    return {line["number"]: round(line["time"] * 1e9) for line in lines(folder) if "frames" in line}


def test_a_frame_of_the_video_has_the_time_of_its_number(takes):
    recording, entry, demo, meta = takes["recording_1"]
    times = listed(recording)
    numbers = list(range(len(truth(recording)[1])))
    assert entry["reader"] == "spectacular-rec" and entry["variant"] == "rgbd" and "pose" not in demo["obs"]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == numbers == meta["source_index"][:].tolist()
    assert np.abs(absolute(meta) - [times[n] for n in numbers]).max() <= 1
    for number in numbers:
        assert np.array_equal(demo["obs/camera_depth"][number, ..., 0], np.asarray(Image.open(recording / f"frames2/{number:08}.png")))
    focal = {line["number"]: line["frames"][0]["cameraParameters"]["focalLengthX"] for line in lines(recording) if "frames" in line}
    assert meta["intrinsics"][:, 0].tolist() == pytest.approx([focal[n] for n in numbers], rel=1e-6)


def test_the_imu_has_accelerations_at_the_times_of_the_gyroscope(takes):
    recording, _, _, meta = takes["recording_1"]
    found = lines(recording)

    def sensor(name):
        rows = [(line["time"], *line["sensor"]["values"]) for line in found if line.get("sensor", {}).get("type") == name]
        return np.array(sorted(rows))

    one, other = sensor("accelerometer"), sensor("gyroscope")
    inside = other[(other[:, 0] >= one[0, 0]) & (other[:, 0] <= one[-1, 0])]
    imu, stamps = np.concatenate([meta["imu/accel"][:], meta["imu/gyro"][:]], 1), absolute(meta, "imu/timestamp_ns")
    assert len(imu) == len(inside) > 80 and np.abs(stamps - np.round(inside[:, 0] * 1e9)).max() <= 200
    expected = np.stack([np.interp(inside[:, 0], one[:, 0], one[:, axis]) for axis in (1, 2, 3)], 1)
    assert np.abs(imu[:, :3] - expected).max() < 1e-4 and np.abs(imu[:, 3:] - inside[:, 1:]).max() < 1e-6
    assert 8 < np.median(np.linalg.norm(imu[:, :3], axis=1)) < 12


def test_a_video_of_a_constant_rate_is_paired_by_number(takes):
    """The sensor's times run away from those of the video."""
    source, _, demo, meta = takes["drift"]
    times = listed(source)
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist() == sorted(times)
    assert np.abs(absolute(meta) - [times[n] for n in sorted(times)]).max() < 200


def test_a_gap_of_the_sensor_shifts_no_image(takes):
    source, _, demo, meta = takes["gaps"]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist() == sorted(listed(source))


MISSING = [{0}, {7}, {3, 7, 12}, {29}]


def without(missing):
    return lambda take: put(take, [line for line in lines(take) if line.get("number") not in missing])


@pytest.mark.parametrize("missing", MISSING)
def test_frames_without_a_time_are_no_rows(takes, missing):
    _, entry, demo, meta = takes[f"without {missing}"]
    assert finding(entry, "movie-count-mismatch") and finding(entry, "depth-orphaned")["count"] == len(missing)
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist()
    assert meta["source_index"][:].tolist() == sorted(set(listed(takes.inputs / "recording_1")) - missing)


def test_intrinsics_of_the_calibration_are_scaled_to_the_video(takes):
    source, entry, _, meta = takes["constant-intrinsics"]
    camera = json.loads((source / "calibration.json").read_text())["cameras"][0]
    assert finding(entry, "intrinsics-scaled") and camera["imageWidth"] == 192
    assert np.ravel(meta["intrinsics"][:])[:4].tolist() == pytest.approx([camera["focalLengthX"] / 2, camera["focalLengthY"] / 2, 48, 36], rel=1e-6)


def test_the_scale_of_depth_is_that_of_the_frames(takes):
    source, _, demo, _ = takes["fine-depth"]
    stored = np.asarray(Image.open(source / "frames2/00000003.png"))
    assert demo["obs/camera_depth"].attrs["unit"] == "m" and np.abs(demo["obs/camera_depth"][3, ..., 0] - stored * 0.00025).max() < 1e-6 and stored.any()


def test_poses_of_an_unknown_body_are_not_read_and_places_are_withheld(takes):
    _, entry, demo, _ = takes["poses"]
    assert "pose" not in demo["obs"] and entry["details"]["poses_not_read"] == ["arkit"] and finding(entry, "location-removed")
    assert traces(takes.output, "47.4", "latitude") == []


def test_an_archive_with_a_table_of_the_same_name_is_left_to_others(takeset, tmp_path):
    takeset("simulate", "stray-scanner", "--seconds", 0.5, "--size", "64x48", "--depth-size", "16x12", "--output", tmp_path / "scan", check=0)
    (tmp_path / "scan/data.jsonl").write_text("{}\n")
    entry, _, _ = converted(takeset, tmp_path, zipped(tmp_path / "scan", tmp_path / "scan.zip"))
    assert entry["reader"] == "stray-scanner" and "format-ambiguous" not in codes(entry)


def test_names_of_poses_are_the_same_in_every_run(takeset, takes, tmp_path):
    source = shutil.copytree(takes.inputs / "recording_1", tmp_path / "in")
    with (source / "data.jsonl").open("a") as file:
        file.write(json.dumps({"time": 1} | {f"{letter}{n}": {"position": 1} for n in range(5) for letter in "qwerty"}) + "\n")
    found = []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        found.append(converted(takeset, tmp_path / str(number), source)[0]["details"]["poses_not_read"])
    assert found == [found[0]] * 4 and found[0] == sorted(found[0]) and len(found[0]) == 10


def without_accelerations(take):
    put(take, [line for line in lines(take) if line.get("sensor", {}).get("type") != "accelerometer"])


def test_sensors_that_never_meet_are_a_finding(takes):
    _, entry, _, meta = takes["no accelerations"]
    assert finding(entry, "imu-unusable") and "imu" not in meta


def test_a_cut_line_is_skipped_and_depth_may_be_absent(takes):
    _, entry, demo, _ = takes["cut-line+no-depth"]
    assert finding(entry, "poses-unreadable")["count"] == 1 and entry["variant"] == "rgb" and "camera_depth" not in demo["obs"]


WRONG = {
    "no frames": (lambda take: (take / "data.jsonl").write_text("{}\n"), "no-frames", "no line has frames"),
    "no text": (lambda take: (take / "data.jsonl").write_bytes(b"\xff\x00" * 100), "no-frames", "no line has frames"),
    "Matroska": (lambda take: (take / "data.mov").rename(take / "data.mkv"), "format-unsupported", "-c copy data.mp4"),
    "empty video": (lambda take: (take / "data.mov").write_bytes(b""), "file-empty", ""),
}


def test_recordings_that_cannot_be_read_fail_with_a_sentence(takes):
    takes.fail()


def test_a_display_matrix_is_ignored_and_told(takes):
    (_, entry, demo, _), (_, plain, other, _) = takes["rotated"], takes["recording_1"]
    assert np.array_equal(demo["obs/camera_image"][:], other["obs/camera_image"][:]) and "rotation-ignored" not in codes(plain)
    assert "90" in finding(entry, "rotation-ignored")["message"]
