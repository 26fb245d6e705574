"""Takes of iPhUMI."""

import json
import shutil

import numpy as np
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, demos, finding, manifest, traces
from phone_takes import Takes, absolute, broken, edited, quirks, rotated_videos, truth
from videos import ffmpeg

START = 1_771_446_000_123_000_000


def maps(folder):
    return np.fromfile(folder / f"{folder.name}_depth.raw", "<f2").reshape(-1, 192, 256)


def without_the_first_poses(found):
    found["poseTimes"], found["poseTransforms"] = found["poseTimes"][2:], found["poseTransforms"][2:]


def with_sound(folder):
    """One channel of 48 kHz in the main video, as a contact microphone gives it."""
    path = folder / f"{folder.name}_rgb.mp4"
    ffmpeg("-i", path, "-f", "lavfi", "-i", "sine=sample_rate=48000:duration=0.6", "-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", "aac",
           "-video_track_timescale", 10_000, "-f", "mp4", folder / "sound")  # fmt: skip
    (folder / "sound").rename(path)


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"pour_1": []} | quirks("skipped-frames", "cut-depth", "no-wide", "no-depth") | WRONG
    found["rotated"] = rotated_videos
    found["later poses"] = edited("{}.json", without_the_first_poses)
    found["ten flags"] = edited("{}.json", lambda found: found.update(depthFrameIsRepeat=found["depthFrameIsRepeat"][:10]))
    found["flags of text"] = edited("{}.json", lambda found: found.update(depthFrameIsRepeat=["no"] * len(found["depthTimes"])))
    found["flags 0 and 1"] = edited("{}.json", lambda found: found.update(depthFrameIsRepeat=[int(one) for one in found["depthFrameIsRepeat"]]))
    found["a depth time less"] = edited("{}.json", lambda found: found["depthTimes"].pop(3))
    found["a task less"] = edited("{}.json", lambda found: found.update(taskNames=["pour", "stir"], taskStartTimestamps=[0]))
    found["with sound"] = with_sound
    found["no wide times"] = edited("{}.json", lambda found: found.update(ultrawideRGBTimes=[""] * len(found["rgbTimes"])))
    return Takes(takeset, tmp_path_factory.mktemp("iphumi"), "iphumi", ["--seconds", 0.7, "--size", "192x144"], found)


def test_images_poses_and_depth_are_the_truth(takes):
    pour, entry, demo, meta = takes["pour_1"]
    expected, times = truth(pour)
    count = len(expected)
    assert entry["reader"] == "iphumi" and entry["variant"] == "rgbd" and entry["id"] == "pour_1"
    assert meta["source_index"][:].tolist() == list(range(count)) and meta["timestamp_ns"].attrs["clock"] == "phone-unix"
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(count))
    # The video's times are in tenths of a millisecond, those of the list in whole ones; together they are exact to a third of one.
    assert np.abs(np.diff(meta["timestamp_ns"][:]) - np.diff(times)).max() <= 100_000 and np.abs(absolute(meta) - START - times).max() < 700_000
    stored = maps(pour).astype("<f4")
    assert np.array_equal(demo["obs/camera_depth"][..., 0], np.where(stored > 0, stored, 0))
    assert meta["intrinsics"][0].tolist() == pytest.approx([144, 144, 96, 72])
    assert meta["camera_depth_intrinsics"][0].tolist() == pytest.approx([192, 192, 128, 96])


def test_a_repeated_map_keeps_its_values_and_is_not_valid_as_a_new_one(takeset, takes):
    _, _, demo, meta = takes["pour_1"]
    valid = meta["streams/camera_depth/valid"][:]
    assert valid.tolist() == [1 - row % 2 for row in range(len(valid))]
    assert np.array_equal(demo["obs/camera_depth"][1], demo["obs/camera_depth"][0]) and demo["obs/camera_depth_valid"][1].any()
    assert takeset("verify", takes.output).returncode == 0


def test_the_ultra_wide_camera_is_a_second_image(takes):
    _, _, demo, meta = takes["pour_1"]
    images, numbers = demo["obs/ultrawide_image"], meta["streams/ultrawide_image/source_index"][:]
    assert images.shape[1:] == (480, 640, 3) and set(numbers.tolist()) <= set(range(0, 42, 6)) | {-1}
    for row in 0, 12, 30:
        assert frame_code(images[row]) == row == numbers[row]
    assert meta["ultrawide_image_intrinsics"][0].tolist() == pytest.approx([300, 300, 320, 240])


def test_frames_that_the_video_skipped_shift_nothing(takes):
    source, entry, demo, meta = takes["skipped-frames"]
    expected, _ = truth(source)
    kept = [number for number in range(len(expected)) if number not in (3, 9)]
    assert meta["source_index"][:].tolist() == kept and [frame_code(image) for image in demo["obs/camera_image"][:]] == kept
    assert np.abs(matrices(demo["obs/pose"][:]) - expected[kept]).max() < 1e-5
    assert finding(entry, "movie-count-mismatch") and finding(entry, "image-missing")["count"] == 2
    assert np.array_equal(demo["obs/camera_depth"][3, ..., 0], maps(source).astype("<f4")[4])


def test_poses_at_other_times_are_matched_by_time(takes):
    source, entry, demo, meta = takes["later poses"]
    expected, _ = truth(source)
    assert meta["source_index"][:].tolist() == list(range(2, len(expected)))
    assert np.abs(matrices(demo["obs/pose"][:]) - expected[2:]).max() < 1e-5 and finding(entry, "pose-unusable")["count"] == 2


def test_a_cut_depth_file_loses_the_maps_that_are_not_there(takes):
    _, entry, demo, meta = takes["cut-depth"]
    count = len(demo["obs/pose"])
    assert finding(entry, "depth-trailing-bytes") and "depth-count-mismatch" in codes(entry)
    valid = meta["streams/camera_depth/source_index"][:]
    assert valid[: count - 2].tolist() == list(range(count - 2)) and (valid[count - 2 :] <= count - 3).all()


@pytest.mark.parametrize("name", ["ten flags", "flags of text"])
def test_without_usable_flags_no_map_is_a_new_measurement(takes, name):
    _, entry, demo, meta = takes[name]
    found = finding(entry, "count-mismatch")
    assert found["field"] == ".depthFrameIsRepeat" and not meta["streams/camera_depth/valid"][:].any() and demo["obs/camera_depth_valid"][:].any()


def test_flags_of_0_and_1_are_truth_values(takes):
    sound, meta = takes["pour_1"][3], takes["flags 0 and 1"][3]
    assert np.array_equal(meta["streams/camera_depth/valid"][:], sound["streams/camera_depth/valid"][:])


def test_maps_without_a_time_are_those_of_nobody(takes):
    _, entry, demo, _ = takes["a depth time less"]
    assert finding(entry, "depth-count-mismatch") and "camera_depth" not in demo["obs"] and entry["variant"] == "rgb"


def test_tasks_of_other_numbers_than_their_times_are_reported(takes):
    assert "taskNames has 2" in finding(takes["a task less"][1], "count-mismatch")["message"]


@pytest.mark.parametrize("quirk, missing", [("no-wide", "ultrawide_image"), ("no-depth", "camera_depth")])
def test_what_is_not_there_is_absent(takes, quirk, missing):
    _, entry, demo, _ = takes[quirk]
    assert missing not in demo["obs"] and entry["variant"] == ("rgb" if quirk == "no-depth" else "rgbd")


def test_the_phones_of_a_session_are_takes_of_their_own(takeset, takes, tmp_path):
    """A tree of processed takes has a file for each phone, in a folder for each session; their videos are no takes."""
    folder = tmp_path / "in/session_7"
    folder.mkdir(parents=True)
    for side in "left", "right":
        for path in (takes.inputs / "pour_1").glob("pour_1*"):
            shutil.copy(path, folder / path.name.replace("pour_1", side))
        (folder / f"{side}_depthpreview.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(12))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    assert sorted(demos(tmp_path / "out")) == ["session_7-left", "session_7-right"]


def test_a_calibration_of_the_gripper_is_no_episode(takeset, takes, tmp_path):
    shutil.copytree(takes.inputs / "pour_1", tmp_path / "in/pour_1")
    folder = tmp_path / "in/2026-02-18T20-23-54_a1_kitchen_grippercalibration_left"
    folder.mkdir()
    shutil.copy(takes.inputs / "pour_1/pour_1_ultrawidergb.mp4", folder / f"{folder.name}_ultrawidergb.mp4")
    times = ["2026-02-18T20:23:54.000Z"] * 3000  # what it is stands after 64 KiB
    described = {"ultrawideRGBTimes": times, "formatVersion": "v1", "type": "gripper_calibration", "side": "left", "hasRGB": False}
    (folder / f"{folder.name}.json").write_text(json.dumps(described))
    # A demonstration without its video is none.
    other = tmp_path / "in/lost"
    shutil.copytree(takes.inputs / "pour_1", other, ignore=shutil.ignore_patterns("*_rgb.mp4"))
    for path in other.glob("pour_1*"):
        path.rename(other / path.name.replace("pour_1", "lost"))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    entries = {one["id"]: one for one in manifest(tmp_path / "out")["record"]["takes"]}
    assert list(demos(tmp_path / "out")) == ["pour_1"] and entries.keys() == {"pour_1", folder.name, "lost"}
    assert entries[folder.name]["outcome"] == "rejected" and entries[folder.name]["reason"].startswith("calibration: ")
    assert entries["lost"]["outcome"] == "failed" and "there is no _rgb.mp4 next to it" in entries["lost"]["reason"]


def test_sound_is_a_fact_of_the_record(takes):
    _, entry, demo, _ = takes["with sound"]
    assert entry["details"]["sound"] == {"camera_image": [{"codec": "aac", "sample_rate_hz": 48000, "channels": 1}]}
    assert np.array_equal(demo["obs/camera_image"][:], takes["pour_1"][2]["obs/camera_image"][:]) and "sound" not in takes["pour_1"][1]["details"]


def test_what_names_the_phone_is_not_kept(takes):
    _, entry, _, _ = takes["pour_1"]
    assert entry["details"]["side"] == "right" and entry["details"]["taskNames"] == ["pour"]
    assert traces(takes.output, "Somebody", "00008120") == []


def test_the_order_of_the_inputs_does_not_matter(takeset, takes, tmp_path):
    """A shell may name the video before the file that it belongs to."""
    files = sorted((takes.inputs / "pour_1").glob("pour_1*"), reverse=True)
    takeset.convert(*files, output=tmp_path / "out", check=0)
    assert list(demos(tmp_path / "out")) == ["pour_1"]


def test_a_video_with_a_json_of_somebody_else_is_a_video(takeset, takes, tmp_path):
    (tmp_path / "in").mkdir()
    shutil.copy(takes.inputs / "pour_1/pour_1_rgb.mp4", tmp_path / "in/clip_rgb.mp4")
    (tmp_path / "in/clip.json").write_text('{"title": "a clip"}')
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0)
    assert list(demos(tmp_path / "out")) == ["clip_rgb"]


def test_an_ultra_wide_video_of_other_times_is_left_out(takes):
    source, entry, demo, _ = takes["no wide times"]
    assert "ultrawide_image" not in demo["obs"] and finding(entry, "movie-unusable")["file"] == f"{source.name}_ultrawidergb.mp4"


WRONG = broken("{}.json") | {
    "no poses": (edited("{}.json", lambda f: f.pop("poseTransforms")), "json-type", "the key is missing"),
    "a pose less": (edited("{}.json", lambda f: f["poseTransforms"].pop(20)), "count-mismatch", "poseTimes"),
    "a time less": (edited("{}.json", lambda f: f["poseTimes"].pop(0)), "count-mismatch", "poses and"),
    "no times": (edited("{}.json", lambda f: f.pop("rgbTimes")), "json-type", "the key is missing"),
    "poses of nine": (edited("{}.json", lambda f: f.update(poseTransforms=[[[1, 0, 0]] * 3] * len(f["poseTimes"]))), "too-few-poses", "unusable"),
    "empty times": (edited("{}.json", lambda f: f.update(rgbTimes=[""] * len(f["rgbTimes"]))), "no-frames", ""),
    "other times": (edited("{}.json", lambda f: f.update(rgbTimes=["2020-01-01T00:00:00.000Z"] * len(f["rgbTimes"]))), "movie-times-differ", ""),
    "text": (edited("{}.json", lambda f: f.update(poseTransforms="none")), "json-type", "expected a list"),
}


def test_wrong_takes_fail_with_a_sentence(takes):
    takes.fail()


def test_a_display_matrix_is_ignored_and_told(takes):
    (_, entry, demo, _), (_, plain, other, _) = takes["rotated"], takes["pour_1"]
    assert np.array_equal(demo["obs/camera_image"][:], other["obs/camera_image"][:]) and "rotation-ignored" not in codes(plain)
    told = [found for found in entry["findings"] if found["code"] == "rotation-ignored"]
    assert [found["file"] for found in told] == ["rotated_rgb.mp4", "rotated_ultrawidergb.mp4"] and all("90" in found["message"] for found in told)
