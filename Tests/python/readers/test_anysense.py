"""Takes of AnySense."""

import shutil

import numpy as np
import pytest
from images import frame_code
from outputs import finding
from phone_takes import absolute, converted, matrices, problem, truth
from system import share

START = 1_771_446_000_123


def simulated(takeset, output, *arguments):
    takeset("simulate", "anysense", "--seconds", 0.7, "--size", "144x192", "--output", output, *arguments, check=0)
    return output


@pytest.fixture(scope="module")
def grasp(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("anysense") / "2026-02-18-20_20_00")


def maps(folder):
    """The maps in portrait, by their time in milliseconds."""
    files = sorted(folder.glob("Depth_Images_*/*.bin"), key=lambda path: int(path.stem))
    return {int(path.stem): np.rot90(np.fromfile(path, "<f4").reshape(192, 256), -1) for path in files}


def poses(folder):
    (path,) = folder.glob("AR_Pose_*.txt")
    return path


@pytest.mark.slow
def test_everything_is_in_the_orientation_of_the_portrait_image(takeset, grasp, tmp_path):
    entry, demo, meta = converted(takeset, tmp_path, grasp)
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


def test_depth_agrees_with_the_poses(takeset, grasp, tmp_path):
    """Points of a map, moved by the poses into another row's camera, are where that row's map has them: within millimeters, with the focal length
    that the simulation has, and not if the map is turned."""
    _, demo, _ = converted(takeset, tmp_path, grasp)
    world = matrices(demo["obs/pose"][:])
    depth = demo["obs/camera_depth"][..., 0]

    def median(turn):
        found = []
        for row in (0, 3, 5):
            one, other = (np.rot90(depth[n], turn) for n in (row, row + 12))
            height, width = one.shape
            v, u = np.mgrid[:height:4, :width:4]
            z = one[v, u]
            points = np.stack([(u + 0.5 - width / 2) / 144 * z, -(v + 0.5 - height / 2) / 144 * z, -z, np.ones_like(z)], -1)[z > 0]
            moved = points @ (np.linalg.inv(world[row + 12]) @ world[row]).T
            ahead = -moved[:, 2]
            x, y = (144 * moved[:, 0] / ahead + width / 2).astype(int), (-144 * moved[:, 1] / ahead + height / 2).astype(int)
            inside = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (ahead > 0)
            seen = other[y[inside], x[inside]]
            found.append(np.median(np.abs(seen - ahead[inside])[seen > 0]))
        return max(found)

    assert median(0) < 0.01 and min(median(turn) for turn in (1, 2, 3)) > 0.03


def test_a_frame_that_the_video_lacks_shifts_nothing(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "take", "--quirk", "skipped-frame")
    entry, demo, meta = converted(takeset, tmp_path, source)
    expected, _ = truth(source)
    kept = [number for number in range(len(expected)) if number != 3]
    assert meta["source_index"][:].tolist() == kept and [frame_code(image) for image in demo["obs/camera_image"][:]] == kept
    assert np.abs(matrices(demo["obs/pose"][:]) - expected[kept]).max() < 1e-5 and finding(entry, "movie-count-mismatch")


def test_a_cut_line_costs_its_frame(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "take", "--quirk", "cut-line")
    entry, _, meta = converted(takeset, tmp_path, source)
    assert len(meta["source_index"]) == len(truth(source)[0]) - 1 and finding(entry, "pose-unusable")["count"] == 1


def test_a_take_without_depth(takeset, tmp_path):
    source = simulated(takeset, tmp_path / "take", "--quirk", "no-depth")
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert entry["variant"] == "rgb" and "camera_depth" not in demo["obs"]


def test_a_map_of_another_size_is_masked(takeset, grasp, tmp_path):
    source = shutil.copytree(grasp, tmp_path / "take")
    path = sorted(source.glob("Depth_Images_*/*.bin"))[2]
    path.write_bytes(path.read_bytes()[:1000])
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert finding(entry, "depth-wrong-size")["count"] == 1 and not demo["obs/camera_depth"][2].any()


@pytest.mark.parametrize("text, code", [("", "no-frames"), ("hello\n", "no-frames"), ('"<1771446000123>" ,1,2\n' * 30, "")])
def test_wrong_poses_fail_with_a_sentence(takeset, grasp, tmp_path, text, code):
    source = shutil.copytree(grasp, tmp_path / "take")
    poses(source).write_text(text)
    found = problem(converted(takeset, tmp_path, source, check=3))
    assert (found["code"] == code or not code) and len(found["message"]) > 10


def test_other_times_fail_with_a_sentence(takeset, grasp, tmp_path):
    source = shutil.copytree(grasp, tmp_path / "take")
    lines = poses(source).read_text().splitlines()
    poses(source).write_text("\n".join(f'"<{START + 5000 * n}>"' + line.split('"')[2] for n, line in enumerate(lines)) + "\n")
    found = problem(converted(takeset, tmp_path, source, check=3))
    assert found["code"] in ("too-few-images", "no-frames")


def test_times_beyond_all_numbers_are_skipped(takeset, grasp, tmp_path):
    source = shutil.copytree(grasp, tmp_path / "take")
    path = poses(source)
    path.write_text('"<99999999999999>" ,0,0,0,1,0,0,0\n' + path.read_text())
    (folder,) = source.glob("Depth_Images_*")
    (folder / "99999999999999.bin").write_bytes(bytes(4 * 192 * 256))
    entry, demo, _ = converted(takeset, tmp_path, source)
    assert finding(entry, "poses-unreadable")["count"] == 1 and len(demo["obs/pose"]) == len(truth(grasp)[0])


@pytest.mark.parametrize("late", [0, 1, 5])
def test_a_late_line_shifts_nothing(takeset, grasp, tmp_path, late):
    """Times are those of writing: one may be late by most of a period."""
    source = shutil.copytree(grasp, tmp_path / "take")
    lines = poses(source).read_text().splitlines()
    stamp = int(lines[late].split(">")[0].split("<")[1])
    lines[late] = lines[late].replace(str(stamp), str(stamp + 15))
    poses(source).write_text("\n".join(lines) + "\n")
    _, demo, meta = converted(takeset, tmp_path, source)
    numbers = meta["source_index"][:]
    assert len(numbers) >= len(lines) - 1 and [frame_code(image) for image in demo["obs/camera_image"][:]] == numbers.tolist()
    assert np.abs(matrices(demo["obs/pose"][:]) - truth(grasp)[0][numbers]).max() < 1e-5


def test_two_takes_in_a_folder_are_refused(takeset, grasp, tmp_path):
    source = shutil.copytree(grasp, tmp_path / "take")
    shutil.copy(poses(source), source / "AR_Pose_2026-02-18-20_30_00.txt")
    assert "2 tables" in problem(converted(takeset, tmp_path, source, check=3))["message"]


@pytest.mark.slow
def test_damaged_files_harm_nothing_else(takeset, tmp_path):
    """Takes with damaged poses, depth or video."""
    chance = np.random.default_rng(1)
    source = tmp_path / "source"
    takeset("simulate", "anysense", "--seconds", 0.2, "--size", "48x64", "--output", source, check=0)
    files = [path for path in sorted(source.rglob("*.*")) if path.is_file() and path.name != "truth.json"]
    for number in range(share(1000)):
        for path in files:
            if path.suffix == ".bin" and path != files[0] and number % 10:
                continue
            data = bytearray(path.read_bytes())
            if number % 100 and chance.random() < 0.4:
                for _ in range(3):
                    data[chance.integers(len(data))] = chance.integers(256)
                if chance.random() < 0.2:
                    del data[chance.integers(len(data)) :]
            target = tmp_path / f"in/t{number:04}" / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", "--progress", "none")
    assert done.returncode == 3, done.stderr[-2000:]
    assert takeset("verify", tmp_path / "out").returncode == 0
