"""Scenes for nerfstudio: what its data parser demands, cameras, images and depth against the dataset."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from geometry_oracle import Runs, steps_file
from outputs import demos
from PIL import Image
from scene_exports import TAKES, SceneExports
from scene_oracle import FLIP, between, export, lost, meters, nearest_pixels, opencv, positions, read_ply, record, times
from stack_sessions import v3_slam

UP = np.array([[0.0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])  # x' y' z' = z x y
PIPELINES = ["default", "plain", "opencv", "ros", "body", "z up", "from the first frame", "rotated", "cropped"]


@pytest.fixture(scope="module")
def exported(takeset, tmp_path_factory):
    return SceneExports(takeset, "nerfstudio", tmp_path_factory.mktemp("nerfstudio"))


@pytest.fixture(scope="module")
def runs(exported):
    return exported.runs


def transforms(output, take):
    return json.loads((output / take / "transforms.json").read_text())


def rows(found):
    return [int(Path(frame["file_path"]).stem) for frame in found["frames"]]


def parsed(folder):
    """What nerfstudio's parser takes from a folder: frames sorted by path, intrinsics of the file or of each frame, all of one kind."""
    meta = json.loads((folder / "transforms.json").read_text())
    frames = sorted(meta["frames"], key=lambda frame: folder / frame["file_path"])
    found = {}
    for key in "fl_x", "fl_y", "cx", "cy", "h", "w":
        found[key] = [float(meta[key])] * len(frames) if key in meta else [float(frame[key]) for frame in frames]
    assert meta["camera_model"] in ("OPENCV", "PINHOLE") and all(meta.get(key, 0) == 0 for key in ("k1", "k2", "k3", "k4", "p1", "p2"))
    depth = [frame["depth_file_path"] for frame in frames if "depth_file_path" in frame]
    assert len(depth) in (0, len(frames)) and not any(key.endswith("_filenames") for key in meta)
    for frame in frames:
        assert np.array(frame["transform_matrix"]).shape == (4, 4)
        assert (folder / frame["file_path"]).is_file() and (not depth or (folder / frame["depth_file_path"]).is_file())
    return meta, frames, found, depth


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline", [*PIPELINES, "resampled"])
def test_it_is_what_the_parser_demands(exported, take, pipeline):
    dataset, output = exported(pipeline)
    meta, frames, cameras, depth = parsed(output / take)
    # In the order of rows, and of times.
    assert [frame["file_path"] for frame in frames] == [frame["file_path"] for frame in meta["frames"]]
    assert (np.diff([frame["timestamp_ns"] for frame in frames]) > 0).all()
    size = {Image.open(output / take / frame["file_path"]).size for frame in frames}
    assert size == {(int(cameras["w"][0]), int(cameras["h"][0]))} and len(set(cameras["w"])) == len(set(cameras["h"])) == 1
    assert len(depth) == len(frames) and meta["depth_unit_scale_factor"] == 0.001
    # One set of intrinsics stands at the top too, for programs that know no other.
    assert ("fl_x" in meta) == (take == "session")


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_cameras_are_those_of_the_rows(exported, take, pipeline):
    dataset, output = exported(pipeline)
    demo, meta = demos(dataset)[take]
    found = transforms(output, take)
    assert rows(found) == list(range(len(demo["obs/pose"])))
    world = demo["obs/pose"].attrs["world_axes"]
    upright = world.startswith("y up")
    if upright:
        assert np.vstack([found["applied_transform"], [0, 0, 0, 1]]).tolist() == UP.tolist()
    assert ("applied_transform" in found) == upright == (pipeline not in ("z up", "from the first frame"))
    assert found.get("orientation_override") == (None if pipeline == "from the first frame" else "none")
    expected = (UP if upright else np.eye(4)) @ opencv(demo) @ FLIP
    matrices = np.array([frame["transform_matrix"] for frame in found["frames"]])
    assert np.abs(matrices - expected).max() < 1e-6 and np.abs(np.linalg.det(matrices[:, :3, :3]) - 1).max() < 1e-9
    cameras = np.array([[frame[key] for key in ("fl_x", "fl_y", "cx", "cy")] for frame in found["frames"]])
    assert np.array_equal(cameras, meta["intrinsics"][:])
    assert [frame["timestamp_ns"] for frame in found["frames"]] == times(meta)[0].tolist()


@pytest.mark.parametrize("take", TAKES)
def test_resampled_images_have_the_cameras_of_their_own_time(exported, take):
    dataset, output = exported("resampled")
    demo, meta = demos(dataset)[take]
    found = transforms(output, take)
    delay = meta["streams/camera_image/dt_ns"][:]
    assert np.abs(delay).max() > 1_000_000
    expected = between(meta, opencv(demo), meta["timestamp_ns"][:] + delay)
    known = np.flatnonzero(np.isfinite(expected).all((1, 2)))
    assert rows(found) == known.tolist() and len(known) > 8
    matrix = np.array([frame["transform_matrix"] for frame in found["frames"]])
    assert np.abs(matrix - UP @ expected[known] @ FLIP).max() < 1e-6
    # They differ from those of the rows, which a slip would give.
    assert np.abs(matrix - UP @ opencv(demo)[known] @ FLIP).max() > 1e-4
    assert [frame["timestamp_ns"] for frame in found["frames"]] == (times(meta)[0] + delay)[known].tolist()
    left = len(expected) - len(known)
    words = f"{take}: {left} of {len(expected)} rows have no pose at the time of their image and are left out."
    assert (words in lost(output, take)) == (left > 0)


# Images and depth


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline", ["default", "plain", "rotated", "cropped"])
def test_images_are_equal(exported, take, pipeline):
    dataset, output = exported(pipeline)
    stored = demos(dataset)[take][0]["obs/camera_image"]
    for row, frame in enumerate(transforms(output, take)["frames"]):
        assert frame["file_path"] == f"images/{row:06d}.png"
        assert np.array_equal(np.array(Image.open(output / take / frame["file_path"])), stored[row])


def test_jpeg_loses_what_its_quality_says(exported):
    """Less at a higher quality; as much as Pillow's encoder at the same one."""
    error = {}
    for quality in 60, 95:
        dataset, output = exported("default", "--image", "jpeg", "--quality", quality)
        stored = demos(dataset)["scan"][0]["obs/camera_image"]
        mine, other = [], []
        for row, frame in enumerate(transforms(output, "scan")["frames"]):
            assert frame["file_path"] == f"images/{row:06d}.jpg"
            with Image.open(output / "scan" / frame["file_path"]) as image:
                assert image.format == "JPEG"
                mine.append(np.mean((np.array(image, "f8") - stored[row]) ** 2))
            buffer = io.BytesIO()
            Image.fromarray(stored[row]).save(buffer, "JPEG", quality=quality)
            other.append(np.mean((np.array(Image.open(buffer), "f8") - stored[row]) ** 2))
        error[quality] = np.mean(mine)
        assert np.mean(mine) < 1.2 * np.mean(other)
    assert error[95] < error[60]


@pytest.mark.parametrize("encoding, suffix", [("jpeg-source", "jpg"), ("png", "png")])
def test_stored_files_keep_their_bytes(runs, takeset, tmp_path, encoding, suffix):
    arguments = steps_file(tmp_path, writer={"image": encoding})
    takeset.convert(runs.inputs / "session", output=tmp_path / "dataset", arguments=arguments)
    export(takeset, tmp_path / "dataset", "nerfstudio", tmp_path / "out", "--image", "jpeg" if suffix == "png" else "png")
    stored = demos(tmp_path / "dataset")["session"][0]["obs/camera_image"]
    frames = parsed(tmp_path / "out/session")[1]
    assert [frame["file_path"] for frame in frames] == [f"images/{row:06d}.{suffix}" for row in range(len(stored))]
    for row, frame in enumerate(frames):
        data = (tmp_path / "out/session" / frame["file_path"]).read_bytes()
        assert data == stored[row].tobytes()
        if encoding == "jpeg-source":
            assert data == (runs.inputs / f"session/rgb/{row:06d}.jpg").read_bytes()


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline", ["default", "plain", "rotated"])
def test_depth_is_within_half_a_millimeter(exported, take, pipeline):
    """On its own grid, which has the image's field of view."""
    dataset, output = exported(pipeline)
    demo = demos(dataset)[take][0]
    stored, valid = meters(demo), demo["obs/camera_depth_valid"][..., 0] == 1
    for row, frame in enumerate(transforms(output, take)["frames"]):
        assert frame["depth_file_path"] == f"depth/{row:06d}.png"
        with Image.open(output / take / frame["depth_file_path"]) as image:
            assert image.mode == "I;16" and image.size == stored.shape[:0:-1]
            found = np.array(image)
        assert np.abs(found * 1e-3 - stored[row])[valid[row]].max() <= 0.000501
        assert not found[~valid[row]].any() and (found[valid[row]] > 0).all()
        if demo["obs/camera_depth"].attrs["unit"] == "mm":
            assert np.array_equal(found, demo["obs/camera_depth"][row, ..., 0])


@pytest.mark.parametrize("take", TAKES)
def test_depth_of_another_field_of_view_is_put_on_the_images_grid(exported, take):
    """A crop takes whole pixels of each grid, so depth maps extend beyond the image, and enlarging them to it would shift them."""
    dataset, output = exported("cropped")
    demo = demos(dataset)[take][0]
    image, depth = demo["obs/camera_image"], demo["obs/camera_depth"]
    y, x = nearest_pixels(image, depth)
    assert (y >= 0).all() and (x >= 0).all()
    for row, frame in enumerate(transforms(output, take)["frames"]):
        found = np.array(Image.open(output / take / frame["depth_file_path"]))
        assert np.abs(found * 1e-3 - meters(demo)[row][y, x]).max() <= 0.000501
    # Enlarging would have given others.
    height, width = image.shape[1:3]
    plain = meters(demo)[0][np.arange(height)[:, None] * depth.shape[1] // height, np.arange(width) * depth.shape[2] // width]
    assert (np.abs(plain - meters(demo)[0][y, x]) > 1e-3).mean() > 0.01


def test_depth_maps_of_other_moments_are_said(exported):
    dataset, output = exported("plain")
    delay = demos(dataset)["session"][1]["streams/camera_depth/dt_ns"][:]
    worst = round(np.abs(delay).max() / 1e5) / 10
    assert lost(output, "session") == [f"session: {(delay != 0).sum()} depth maps were taken up to {worst:g} ms before or after their image."]
    assert lost(output, "scan") == []


def test_frames_without_a_depth_map_have_an_unknown_one(runs, takeset, tmp_path):
    """The format has depth for all frames or for none."""
    steps = tmp_path / "p.yaml"
    steps.write_text("version: 1\ntransforms: [{align: {tolerance: 0}}]\n")
    takeset.convert(runs.inputs / "session", output=tmp_path / "dataset", arguments=["--pipeline", steps])
    export(takeset, tmp_path / "dataset", "nerfstudio", tmp_path / "out")
    demo, meta = demos(tmp_path / "dataset")["session"]
    missing = meta["streams/camera_depth/valid"][:] == 0
    assert 0 < missing.sum() < len(missing)
    for row, frame in enumerate(parsed(tmp_path / "out/session")[1]):
        assert np.array(Image.open(tmp_path / "out/session" / frame["depth_file_path"])).any() == (not missing[row])
    (words,) = lost(tmp_path / "out", "session")
    assert words.startswith(f"session: {missing.sum()} of {len(missing)} frames have no depth map")


# Options


def test_every_nth_row(exported):
    _, whole = exported("default")
    _, output = exported("default", "--every", 4)
    for take in TAKES:
        every, kept = transforms(whole, take), transforms(output, take)
        assert kept["frames"] == every["frames"][::4] and {**kept, "frames": 0} == {**every, "frames": 0}
        assert len(list((output / take / "images").iterdir())) == len(list((output / take / "depth").iterdir())) == len(kept["frames"])


def test_points_are_in_the_world_that_is_saved(exported, runs, takeset, tmp_path):
    dataset, output = exported("default", "--points", 0.05)
    export(takeset, dataset, "ply", tmp_path / "ply", "--voxel", 0.05)
    for take in TAKES:
        assert transforms(output, take)["ply_file_path"] == "points.ply"
        found, expected = read_ply(output / take / "points.ply"), read_ply(tmp_path / f"ply/{take}.ply")
        assert np.array_equal(positions(found), positions(expected)[:, [2, 0, 1]]) and len(found) > 500
        assert np.array_equal(found["red"], expected["red"])
    assert record(output)["clouds"]["scan"]["points"] == len(read_ply(output / "scan/points.ply"))


# Takes without depth


def test_poses_in_a_world_of_unknown_scale(takeset, tmp_path):
    """SLAM's world has no up and no scale, and there is no depth."""
    dataset = Runs(takeset, tmp_path, {"slam": v3_slam()}).output()
    export(takeset, dataset, "nerfstudio", tmp_path / "out")
    meta, frames, _, depth = parsed(tmp_path / "out/slam")
    assert depth == [] and not {"applied_transform", "orientation_override", "depth_unit_scale_factor", "ply_file_path"} & set(meta)
    expected = opencv(demos(dataset)["slam"][0]) @ FLIP
    assert np.abs(np.array([frame["transform_matrix"] for frame in frames]) - expected).max() < 1e-6


# Read by nerfstudio itself


@pytest.mark.loaders
def test_nerfstudio_reads_it(exported):
    """Its cameras are those of the rows in meters, if poses are neither centered nor scaled; points are where the cameras see them."""
    parser = pytest.importorskip("nerfstudio.data.dataparsers.nerfstudio_dataparser", exc_type=ImportError)
    _, output = exported("default", "--points", 0.05)
    for take in TAKES:
        config = parser.NerfstudioDataParserConfig(data=output / take, auto_scale_poses=False, center_method="none", load_3D_points=True)
        found = config.setup().get_dataparser_outputs(split="train")
        frames = {frame["file_path"]: frame for frame in transforms(output, take)["frames"]}
        names = [str(path.relative_to(output / take)) for path in found.image_filenames]
        assert names == sorted(names) and len(names) >= 0.8 * len(frames)
        poses = np.array([frames[name]["transform_matrix"] for name in names])
        assert np.abs(found.cameras.camera_to_worlds.numpy() - poses[:, :3]).max() < 1e-6
        assert np.abs(found.cameras.fx.numpy()[:, 0] - [frames[name]["fl_x"] for name in names]).max() < 1e-4
        assert [path.name for path in found.metadata["depth_filenames"]] == [Path(name).name for name in names]
        assert np.abs(found.dataparser_transform.numpy() - UP[:3]).max() < 1e-6 and found.dataparser_scale == 1
        points, colors = found.metadata["points3D_xyz"].numpy(), found.metadata["points3D_rgb"].numpy().astype(int)
        x, y, z, _ = np.linalg.inv(poses[0]) @ np.c_[points, np.ones(len(points))].T
        camera = found.cameras
        u = camera.fx[0].item() * x / -z + camera.cx[0].item()
        v = camera.fy[0].item() * -y / -z + camera.cy[0].item()
        seen = (z < -0.1) & (u >= 0) & (v >= 0) & (u < camera.width[0].item()) & (v < camera.height[0].item())
        with Image.open(found.image_filenames[0]) as image:
            pixels = np.array(image).astype(int)[v[seen].astype(int), u[seen].astype(int)]
        assert seen.mean() > 0.5 and np.median(np.abs(pixels - colors[seen])) < 10
