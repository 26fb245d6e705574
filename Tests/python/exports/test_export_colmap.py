"""Scenes as COLMAP's text models: cameras, poses, files, points, against the dataset; and read by pycolmap."""

import numpy as np
import pytest
from outputs import demos
from PIL import Image
from scene_exports import TAKES, SceneExports
from scene_oracle import colors, export, files, opencv, positions, read_colmap, read_ply, record

PIPELINES = ["default", "opencv", "ros", "body", "z up", "rotated", "cropped"]


@pytest.fixture(scope="module")
def exported(takeset, tmp_path_factory):
    return SceneExports(takeset, "colmap", tmp_path_factory.mktemp("colmap"))


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_poses_are_world_to_camera(exported, take, pipeline):
    dataset, output = exported(pipeline)
    _, images, points = read_colmap(output / take)
    expected = np.linalg.inv(opencv(demos(dataset)[take][0]))
    assert list(images) == [f"{row:06d}.png" for row in range(len(expected))] and points == []
    assert np.abs(np.array([matrix for matrix, _ in images.values()]) - expected).max() < 1e-6


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_camera_for_each_set_of_intrinsics(exported, take, pipeline):
    dataset, output = exported(pipeline)
    demo, meta = demos(dataset)[take]
    cameras, images, _ = read_colmap(output / take)
    stored = meta["intrinsics"][:]
    assert len(cameras) == len(np.unique(stored, axis=0)) == {"scan": len(stored), "session": 1}[take]
    assert list(cameras) == list(range(1, len(cameras) + 1))
    for (_, number), four, image in zip(images.values(), stored, demo["obs/camera_image"]):
        model, width, height, parameters = cameras[number]
        assert model == "PINHOLE" and (height, width) == image.shape[:2]
        assert parameters == four.tolist()


@pytest.mark.parametrize("take", TAKES)
def test_images_are_equal_and_all_there(exported, take):
    dataset, output = exported("default")
    stored = demos(dataset)[take][0]["obs/camera_image"]
    assert set(files(output / take)) == {f"images/{row:06d}.png" for row in range(len(stored))} | {
        f"sparse/0/{name}.txt" for name in ("cameras", "images", "points3D")}
    for row, pixels in enumerate(stored):
        assert np.array_equal(np.array(Image.open(output / f"{take}/images/{row:06d}.png")), pixels)


# Options


def test_points_are_those_of_the_point_cloud(exported, takeset, tmp_path):
    dataset, output = exported("default", "--points", 0.05)
    export(takeset, dataset, "ply", tmp_path / "ply", "--voxel", 0.05)
    for take in TAKES:
        points, expected = read_colmap(output / take)[2], read_ply(tmp_path / f"ply/{take}.ply")
        numbers = np.array(points, "f8")
        assert numbers[:, 0].tolist() == list(range(1, len(expected) + 1)) and len(expected) > 500
        assert np.array_equal(numbers[:, 1:4].astype("f4"), positions(expected).astype("f4"))
        assert np.array_equal(numbers[:, 4:7], colors(expected)) and (numbers[:, 7] == -1).all() and numbers.shape[1] == 8
    assert record(output)["clouds"] == record(tmp_path / "ply")["clouds"]


# Read by COLMAP itself


@pytest.mark.loaders
def test_pycolmap_reads_it(exported):
    pycolmap = pytest.importorskip("pycolmap")
    dataset, output = exported("default", "--points", 0.05)
    for take in TAKES:
        demo, meta = demos(dataset)[take]
        found = pycolmap.Reconstruction(output / take / "sparse/0")
        poses, cameras = opencv(demo), meta["intrinsics"][:]
        assert found.num_images() == len(poses) and found.num_points3D() == len(read_colmap(output / take)[2])
        for image in found.images.values():
            row = int(image.name.split(".")[0])
            assert np.abs(image.cam_from_world().matrix() - np.linalg.inv(poses[row])[:3]).max() < 1e-6
            assert np.array_equal(image.camera.params, cameras[row]) and image.camera.model_name == "PINHOLE"
            # The pixel of a point in the world, by COLMAP's own projection.
            x, y, z, _ = [0.3, -0.2, 2, 1]
            fx, fy, cx, cy = cameras[row].astype("f8")
            pixel = image.project_point((poses[row] @ [x, y, z, 1])[:3])
            assert np.abs(pixel - [fx * x / z + cx, fy * y / z + cy]).max() < 1e-3
