"""Recordings of Spectacular Rec."""

import json
import shutil

import numpy as np
import pytest
from images import frame_code
from outputs import codes, finding, traces
from phone_takes import absolute, converted, problem, truth, zipped
from PIL import Image
from system import share


def simulated(takeset, output, *arguments):
    takeset("simulate", "spectacular-rec", "--seconds", 1, "--size", "96x72", "--output", output, *arguments, check=0)
    return output


@pytest.fixture(scope="module")
def recording(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("spectacular") / "recording_1")


def lines(folder):
    return [json.loads(line) for line in (folder / "data.jsonl").read_text().splitlines()]


def listed(folder):
    """Times in nanoseconds by number of the frame."""
    return {line["number"]: round(line["time"] * 1e9) for line in lines(folder) if "frames" in line}


def test_a_frame_of_the_video_has_the_time_of_its_number(takeset, recording, tmp_path):
    entry, demo, meta = converted(takeset, tmp_path, recording)
    times = listed(recording)
    numbers = list(range(len(truth(recording)[1])))
    assert entry["reader"] == "spectacular-rec" and entry["variant"] == "rgbd" and "pose" not in demo["obs"]
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == numbers == meta["source_index"][:].tolist()
    assert np.abs(absolute(meta) - [times[n] for n in numbers]).max() <= 1
    for number in numbers:
        assert np.array_equal(demo["obs/camera_depth"][number, ..., 0], np.asarray(Image.open(recording / f"frames2/{number:08}.png")))
    focal = {line["number"]: line["frames"][0]["cameraParameters"]["focalLengthX"] for line in lines(recording) if "frames" in line}
    assert meta["intrinsics"][:, 0].tolist() == pytest.approx([focal[n] for n in numbers], rel=1e-6)


def test_the_imu_has_accelerations_at_the_times_of_the_gyroscope(takeset, recording, tmp_path):
    _, _, meta = converted(takeset, tmp_path, recording)
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


def test_a_video_of_a_constant_rate_is_paired_by_number(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "constant-rate")
    path, times = source / "data.jsonl", listed(source)
    # The sensor's times run away from those of the video.
    changed = [dict(line, time=line["time"] + 0.02 * line["number"]) if "frames" in line else line for line in lines(source)]
    path.write_text("\n".join(json.dumps(line) for line in changed) + "\n")
    _, demo, meta = converted(takeset, tmp_path, source)
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist() == sorted(times)
    assert np.abs(absolute(meta) - [times[n] + 20_000_000 * n for n in sorted(times)]).max() < 200


@pytest.mark.parametrize("missing", [{0}, {7}, {3, 7, 12}, {29}])
def test_frames_without_a_time_are_no_rows(takeset, recording, tmp_path, missing):
    source = shutil.copytree(recording, tmp_path / "in")
    path = source / "data.jsonl"
    kept = [line for line in lines(source) if line.get("number") not in missing]
    path.write_text("\n".join(json.dumps(line) for line in kept) + "\n")
    entry, demo, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "movie-count-mismatch") and finding(entry, "depth-orphaned")["count"] == len(missing)
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist()
    assert meta["source_index"][:].tolist() == sorted(set(listed(recording)) - missing)


def test_intrinsics_of_the_calibration_are_scaled_to_the_video(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "constant-intrinsics")
    entry, _, meta = converted(takeset, tmp_path, source)
    camera = json.loads((source / "calibration.json").read_text())["cameras"][0]
    assert finding(entry, "intrinsics-scaled") and camera["imageWidth"] == 192
    assert np.ravel(meta["intrinsics"][:])[:4].tolist() == pytest.approx([camera["focalLengthX"] / 2, camera["focalLengthY"] / 2, 48, 36], rel=1e-6)


def test_the_scale_of_depth_is_that_of_the_frames(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "fine-depth")
    _, demo, _ = converted(takeset, tmp_path, source)
    stored = np.asarray(Image.open(source / "frames2/00000003.png"))
    assert demo["obs/camera_depth"].attrs["unit"] == "m" and np.abs(demo["obs/camera_depth"][3, ..., 0] - stored * 0.00025).max() < 1e-6 and stored.any()


def test_poses_of_an_unknown_body_are_not_read_and_places_are_withheld(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "poses")
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert "pose" not in demo["obs"] and entry["details"]["poses_not_read"] == ["arkit"] and finding(entry, "location-removed")
    assert traces(tmp_path / "out", "47.4", "latitude") == []


def test_a_gap_of_the_sensor_shifts_no_image(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "constant-rate")
    path = source / "data.jsonl"
    changed = [dict(line, time=line["time"] + (line["number"] > 9) / 30 + (line["number"] > 20) / 30) if "frames" in line else line for line in lines(source)]
    path.write_text("\n".join(json.dumps(line) for line in changed) + "\n")
    _, demo, meta = converted(takeset, tmp_path, source)
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist() == sorted(listed(source))


def test_an_archive_with_a_table_of_the_same_name_is_left_to_others(takeset, recording, tmp_path):
    takeset("simulate", "stray-scanner", "--seconds", 0.5, "--size", "64x48", "--depth-size", "16x12", "--output", tmp_path / "scan", check=0)
    (tmp_path / "scan/data.jsonl").write_text("{}\n")
    entry, _, _ = converted(takeset, tmp_path, zipped(tmp_path / "scan", tmp_path / "scan.zip"))
    assert entry["reader"] == "stray-scanner" and "format-ambiguous" not in codes(entry)


def test_names_of_poses_are_the_same_in_every_run(takeset, recording, tmp_path):
    source = shutil.copytree(recording, tmp_path / "in")
    with (source / "data.jsonl").open("a") as file:
        file.write(json.dumps({"time": 1} | {f"{letter}{n}": {"position": 1} for n in range(5) for letter in "qwerty"}) + "\n")
    found = []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        found.append(converted(takeset, tmp_path / str(number), source)[0]["details"]["poses_not_read"])
    assert found == [found[0]] * 4 and found[0] == sorted(found[0]) and len(found[0]) == 10


def test_sensors_that_never_meet_are_a_finding(takeset, recording, tmp_path):
    source = shutil.copytree(recording, tmp_path / "in")
    kept = [line for line in lines(source) if line.get("sensor", {}).get("type") != "accelerometer"]
    (source / "data.jsonl").write_text("\n".join(map(json.dumps, kept)) + "\n")
    entry, _, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "imu-unusable") and "imu" not in meta


def test_a_cut_line_is_skipped_and_depth_may_be_absent(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "cut-line", "--quirk", "no-depth")
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert finding(entry, "poses-unreadable")["count"] == 1 and entry["variant"] == "rgb" and "camera_depth" not in demo["obs"]


@pytest.mark.parametrize("change, code, words", [
    (lambda s: (s / "data.jsonl").write_text("{}\n"), "no-frames", "no line has frames"),
    (lambda s: (s / "data.jsonl").write_bytes(b"\xff\x00" * 100), "no-frames", "no line has frames"),
    (lambda s: (s / "data.mov").rename(s / "data.mkv"), "format-unsupported", "-c copy data.mp4"),
    (lambda s: (s / "data.mov").write_bytes(b""), "file-empty", ""),
])
def test_recordings_that_cannot_be_read_fail_with_a_sentence(takeset, recording, tmp_path, change, code, words):
    source = shutil.copytree(recording, tmp_path / "in")
    change(source)
    found = problem(converted(takeset, tmp_path, source, check=3))
    assert found["code"] == code and words in found["message"], found


@pytest.mark.slow
def test_damaged_lines_harm_nothing_else(takeset, recording, tmp_path):
    """Five hundred recordings with damaged lines and calibrations."""
    chance = np.random.default_rng(2)
    for number in range(share(500)):
        folder = tmp_path / f"in/{number:04}"
        folder.mkdir(parents=True)
        (folder / "data.mov").hardlink_to(recording / "data.mov")
        for name in ("data.jsonl", "calibration.json"):
            data = bytearray((recording / name).read_bytes())
            if number % 100:
                for _ in range(chance.integers(1, 40)):
                    data[chance.integers(len(data))] = chance.integers(256)
            (folder / name).write_bytes(data)
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", "--progress", "none")
    assert done.returncode in (0, 3), done.stderr[-2000:]
    assert takeset("verify", tmp_path / "out").returncode == 0
