"""Recordings of OpenCamera Sensors."""

import shutil
import subprocess

import numpy as np
import pytest
from images import frame_code
from outputs import finding
from phone_takes import absolute, converted, problem, truth

STEM = "VID_20260218_202000"


def simulated(takeset, output, *arguments):
    takeset("simulate", "opencamera-sensors", "--seconds", 1, "--size", "128x72", "--output", output, *arguments, check=0)
    return output


@pytest.fixture(scope="module")
def recording(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("opencamera") / "OpenCamera")


def table(folder, name):
    (path,) = folder.rglob(f"*_{name}.csv")
    return path


def test_frames_have_the_times_of_the_sensor(takeset, recording, tmp_path):
    entry, demo, meta = converted(takeset, tmp_path, recording)
    times = np.loadtxt(table(recording, "timestamps"), dtype=np.int64)
    assert entry["reader"] == "opencamera-sensors" and entry["id"] == STEM and set(demo["obs"]) == {"camera_image"}
    assert absolute(meta).tolist() == times.tolist() and meta["timestamp_ns"].attrs["clock"] == "device-uptime"
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(len(times))) == meta["source_index"][:].tolist()
    assert finding(entry, "intrinsics-absent") and sorted(one["path"] for one in entry["inputs"]) == [
        f"20260218_202000/{STEM}_{name}.csv" for name in ("accel", "gyro", "timestamps")] + [f"{STEM}.mp4"]


def test_the_imu_has_accelerations_at_the_times_of_the_gyroscope(takeset, recording, tmp_path):
    _, _, meta = converted(takeset, tmp_path, recording)
    one, other = (np.loadtxt(table(recording, name), delimiter=",") for name in ("accel", "gyro"))
    inside = other[(other[:, 3] >= one[0, 3]) & (other[:, 3] <= one[-1, 3])]
    imu = np.concatenate([meta["imu/accel"][:], meta["imu/gyro"][:]], 1)
    expected = np.stack([np.interp(inside[:, 3], one[:, 3], one[:, axis]) for axis in range(3)], 1)
    assert len(imu) == len(inside) > 80 and absolute(meta, "imu/timestamp_ns").tolist() == inside[:, 3].astype(np.int64).tolist()
    assert np.abs(imu[:, :3] - expected).max() < 1e-4 and np.abs(imu[:, 3:] - inside[:, :3]).max() < 1e-6
    assert truth(recording)[1].max() > 0.9e9


def test_a_frame_that_the_video_lacks_is_no_row(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "skipped-frame")
    entry, demo, meta = converted(takeset, tmp_path, source)
    times = np.loadtxt(table(source, "timestamps"), dtype=np.int64)
    assert 3 not in meta["source_index"][:] and absolute(meta).tolist() == np.delete(times, 3).tolist()
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == meta["source_index"][:].tolist()
    assert finding(entry, "movie-count-mismatch") and "poses" not in finding(entry, "image-missing")["message"]


def test_tables_may_be_next_to_the_video_and_videos_upright(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "flat", "--quirk", "portrait")
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert entry["reader"] == "opencamera-sensors" and demo["obs/camera_image"].shape[1:3] == (128, 72)
    assert [frame_code(np.rot90(image)) for image in demo["obs/camera_image"][:3]] == [0, 1, 2]


def test_without_an_accelerometer_there_is_no_imu(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "in", "--quirk", "no-accelerometer")
    entry, _, meta = converted(takeset, tmp_path, source)
    assert finding(entry, "imu-unusable") and "imu" not in meta


def test_a_folder_of_recordings_and_other_videos_has_a_take_for_each(takeset, recording, tmp_path):
    source = shutil.copytree(recording, tmp_path / "in")
    shutil.copy(source / f"{STEM}.mp4", source / "VID_20260218_203000.mp4")
    done = takeset("inspect", source)
    assert done.returncode == 0 and "opencamera-sensors" in done.stdout and "slow-motion-video" in done.stdout, done.stdout + done.stderr


def test_a_video_that_was_encoded_again_at_a_constant_rate_keeps_the_times_of_the_sensor(takeset, recording, tmp_path):
    source = shutil.copytree(recording, tmp_path / "in")
    path = source / f"{STEM}.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-r", "24", "-i", recording / path.name, "-r", "24", "-y", path], check=True)
    _, demo, meta = converted(takeset, tmp_path, source)
    times = np.loadtxt(table(source, "timestamps"), dtype=np.int64)
    assert absolute(meta).tolist() == times.tolist() and [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(len(times)))


@pytest.mark.parametrize("text, code", [("", "times-missing"), ("timestamp\n", "times-missing"), ("a\nb\nc\n", "times-missing"), ("5\n" * 30, "too-few-times")])
def test_recordings_without_times_fail_with_a_sentence(takeset, recording, tmp_path, text, code):
    source = shutil.copytree(recording, tmp_path / "in")
    table(source, "timestamps").write_text(text)
    assert problem(converted(takeset, tmp_path, source, check=3))["code"] == code


def test_more_times_than_a_video_may_have_frames_are_refused(takeset, recording, tmp_path):
    source = shutil.copytree(recording, tmp_path / "in")
    table(source, "timestamps").write_text("".join(f"{n}\n" for n in range(1, 45_000)))
    assert problem(converted(takeset, tmp_path, source, check=3))["code"] == "limit"
