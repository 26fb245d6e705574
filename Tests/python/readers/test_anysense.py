"""Takes of AnySense."""

import shutil

import numpy as np
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, finding
from phone_takes import Takes, absolute, quirks, rotated_videos, truth

START = 1_771_446_000_123


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    found = {"2026-02-18-20_20_00": [], "other size": cut_map, "beyond all numbers": with_times_beyond_all_numbers}
    found["rotated"] = rotated_videos
    found |= quirks("skipped-frame", "cut-line", "no-depth") | {f"late {number}": with_late_line(number) for number in LATE} | WRONG
    return Takes(takeset, tmp_path_factory.mktemp("anysense"), "anysense", ["--seconds", 0.7, "--size", "144x192"], found)


def maps(folder):
    """The maps in portrait, by their time in milliseconds."""
    files = sorted(folder.glob("Depth_Images_*/*.bin"), key=lambda path: int(path.stem))
    return {int(path.stem): np.rot90(np.fromfile(path, "<f4").reshape(192, 256), -1) for path in files}


def poses(folder):
    (path,) = folder.glob("AR_Pose_*.txt")
    return path


@pytest.mark.slow
def test_everything_is_in_the_orientation_of_the_portrait_image(takes):
    grasp, entry, demo, meta = takes["2026-02-18-20_20_00"]
    expected, times = truth(grasp)
    count = len(expected)
    assert entry["reader"] == "anysense" and entry["variant"] == "rgbd" and entry["id"] == "2026-02-18-20_20_00"
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(count)) and demo["obs/camera_image"].shape[1:] == (192, 144, 3)
    # The truth is that of the portrait camera.
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5
    for row, one in enumerate(maps(grasp).values()):
        assert demo["obs/camera_depth"].shape[1:3] == (256, 192) and np.array_equal(demo["obs/camera_depth"][row, ..., 0], one)
    assert np.abs(absolute(meta) - START * 1_000_000 - times).max() < 3_000_000 and meta["timestamp_ns"].attrs["clock"] == "phone-unix"
    assert finding(entry, "intrinsics-absent") and "intrinsics" not in meta
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y up, z back"


def test_a_frame_that_the_video_lacks_shifts_nothing(takes):
    source, entry, demo, meta = takes["skipped-frame"]
    expected, _ = truth(source)
    kept = [number for number in range(len(expected)) if number != 3]
    assert meta["source_index"][:].tolist() == kept and [frame_code(image) for image in demo["obs/camera_image"][:]] == kept
    assert np.abs(matrices(demo["obs/pose"][:]) - expected[kept]).max() < 1e-5 and finding(entry, "movie-count-mismatch")


def test_a_cut_line_costs_its_frame(takes):
    source, entry, _, meta = takes["cut-line"]
    assert len(meta["source_index"]) == len(truth(source)[0]) - 1 and finding(entry, "pose-unusable")["count"] == 1


def test_a_take_without_depth(takes):
    _, entry, demo, _ = takes["no-depth"]
    assert entry["variant"] == "rgb" and "camera_depth" not in demo["obs"]


def cut_map(take):
    path = sorted(take.glob("Depth_Images_*/*.bin"))[2]
    path.write_bytes(path.read_bytes()[:1000])


def test_a_map_of_another_size_is_masked(takes):
    _, entry, demo, _ = takes["other size"]
    assert finding(entry, "depth-wrong-size")["count"] == 1 and not demo["obs/camera_depth"][2].any()


def with_other_times(take):
    lines = poses(take).read_text().splitlines()
    poses(take).write_text("\n".join(f'"<{START + 5000 * n}>"' + line.split('"')[2] for n, line in enumerate(lines)) + "\n")


WRONG = {
    "empty": (lambda take: poses(take).write_text(""), "no-frames", ""),
    "a word": (lambda take: poses(take).write_text("hello\n"), "no-frames", ""),
    "three numbers": (lambda take: poses(take).write_text('"<1771446000123>" ,1,2\n' * 30), "movie-times-differ", ""),
    "other times": (with_other_times, "movie-times-differ", ""),
    "two takes": (lambda take: shutil.copy(poses(take), take / "AR_Pose_2026-02-18-20_30_00.txt"), "video-ambiguous", "2 tables"),
}


def test_wrong_takes_fail_with_a_sentence(takes):
    takes.fail()


def with_times_beyond_all_numbers(take):
    path = poses(take)
    path.write_text('"<99999999999999>" ,0,0,0,1,0,0,0\n' + path.read_text())
    (folder,) = take.glob("Depth_Images_*")
    (folder / "99999999999999.bin").write_bytes(bytes(4 * 192 * 256))


def test_times_beyond_all_numbers_are_skipped(takes):
    source, entry, demo, _ = takes["beyond all numbers"]
    assert finding(entry, "poses-unreadable")["count"] == 1 and len(demo["obs/pose"]) == len(truth(source)[0])


LATE = [0, 1, 5]


def with_late_line(number):
    """Times are those of writing: one may be late by most of a period."""
    def change(take):
        lines = poses(take).read_text().splitlines()
        stamp = int(lines[number].split(">")[0].split("<")[1])
        lines[number] = lines[number].replace(str(stamp), str(stamp + 15))
        poses(take).write_text("\n".join(lines) + "\n")

    return change


@pytest.mark.parametrize("late", LATE)
def test_a_late_line_shifts_nothing(takes, late):
    source, _, demo, meta = takes[f"late {late}"]
    expected, numbers = truth(source)[0], meta["source_index"][:]
    assert len(numbers) >= len(expected) - 1 and [frame_code(image) for image in demo["obs/camera_image"][:]] == numbers.tolist()
    assert np.abs(matrices(demo["obs/pose"][:]) - expected[numbers]).max() < 1e-5


def test_a_display_matrix_is_ignored_and_told(takes):
    (_, entry, demo, _), (_, plain, other, _) = takes["rotated"], takes["2026-02-18-20_20_00"]
    assert np.array_equal(demo["obs/camera_image"][:], other["obs/camera_image"][:]) and "rotation-ignored" not in codes(plain)
    assert "90" in finding(entry, "rotation-ignored")["message"]
