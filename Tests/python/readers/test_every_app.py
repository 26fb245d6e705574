"""What holds for takes of every app: bytes that do not depend on threads, points that stay on their pixels, poses of one camera."""

import numpy as np
import pytest
from geometry_oracle import matrices
from outputs import manifest, only
from phone_takes import zipped

APPS = {
    "stray-scanner": ["--size", "240x180", "--depth-size", "64x48"], "record3d": ["--size", "180x240", "--depth-size", "48x64"],
    "3d-scanner-app": ["--size", "240x180", "--depth-size", "64x48", "--image-every", 3], "polycam": ["--size", "240x180", "--depth-size", "64x48"],
    "iphumi": ["--size", "240x180"], "anysense": ["--size", "180x240"], "transforms-json": ["--size", "240x180", "--depth-size", "64x48", "--quirk", "times"],
    "folder": ["--size", "240x180", "--depth-size", "64x48"], "mcap": ["--size", "240x180", "--depth-size", "64x48", "--form", "bag"], "arkitscenes": ["--size", "240x180"], "spectacular-rec": ["--size", "240x180"], "opencamera-sensors": ["--size", "240x180"],
}
WITHOUT_CAMERA = {"anysense", "spectacular-rec", "opencamera-sensors"}


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("apps")
    for app, options in APPS.items():
        takeset("simulate", app, "--seconds", 1, *options, "--output", root / app, check=0)
    return root


@pytest.mark.parametrize("app", APPS)
def test_the_bytes_do_not_depend_on_the_number_of_threads(takeset, takes, tmp_path, app):
    found = []
    for jobs in 1, 2, 7:
        takeset.convert(takes / app, output=tmp_path / f"out{jobs}", arguments=["--jobs", jobs], check=0)
        (shard,) = (tmp_path / f"out{jobs}/episodes").iterdir()
        found.append(shard.read_bytes())
    assert found[0] == found[1] == found[2]


def test_a_zip_is_the_same_as_a_folder(takeset, takes, tmp_path):
    (tmp_path / "in").mkdir()
    apps = APPS.keys() - {"record3d"}  # a zip as the app writes it, of its own test
    for app in apps:
        zipped(takes / app, tmp_path / f"in/{app}.zip", "export/")
    takeset.convert(*(takes / app for app in apps), output=tmp_path / "folders")
    takeset.convert(tmp_path / "in", output=tmp_path / "zips")
    folders, zips = ({take.get("reader"): take for take in manifest(tmp_path / name)["record"]["takes"]} for name in ("folders", "zips"))
    assert len(folders) == len(apps) and folders.keys() == zips.keys()
    for name, one in folders.items():
        assert one["output"]["content_sha256"] == zips[name]["output"]["content_sha256"], name


# What a step does to the pixels of an image of w x h: the step, and where a point goes.
STEPS = {
    "as it is": ("", lambda u, v, w, h: (u, v)),
    "resize": ("resize-image: {width: 80, height: 80}", lambda u, v, w, h: (u * 80 / max(w, h), v * 80 / max(w, h))),
    "crop": ("crop: {box: [31, 17, 120, 100]}", lambda u, v, w, h: (u - 31, v - 17)),
    "right": ("rotate: {degrees: 90}", lambda u, v, w, h: (h - v, u)),
    "half": ("rotate: {degrees: 180}", lambda u, v, w, h: (w - u, h - v)),
    "all": (
        "crop: {box: [31, 17, 120, 100]}}, {rotate: {degrees: 270}}, {resize-image: {width: 60, height: 60}",
        lambda u, v, w, h: ((v - 17) * 0.5, (120 - (u - 31)) * 0.5)),
}


def cameras(takeset, takes, root, app, step):
    """Size of the images, intrinsics and camera-to-world matrices of the rows."""
    pipeline = root / f"p{len(list(root.glob('p*.yaml')))}.yaml"
    pipeline.write_text(f"version: 1\ntransforms: [align, {{pose-frame: {{axes: arkit}}}}{f', {{{step}}}' if step else ''}]\nwriter: {{hdf5: {{image: raw}}}}\n")
    output = root / f"out-{pipeline.stem}"
    takeset.convert(takes / app, output=output, check=0, arguments=["--pipeline", pipeline])
    _, demo, meta = only(output)
    height, width = demo["obs/camera_image"].shape[1:3]
    intrinsics = meta["intrinsics"][:].astype(float)
    return (width, height), np.broadcast_to(intrinsics, (len(demo["obs/pose"]), 4)), matrices(demo["obs/pose"][:])


@pytest.mark.parametrize("app", sorted(APPS.keys() - WITHOUT_CAMERA))
def test_points_of_the_world_stay_on_their_pixels(takeset, takes, tmp_path, app):
    """Through resizing, cropping and rotating, by the intrinsics and poses alone, to half a pixel."""
    (w, h), k, poses = cameras(takeset, takes, tmp_path, app, "")
    chance = np.random.default_rng(7)
    u, v = chance.uniform(0, w, 200), chance.uniform(0, h, 200)
    depth = chance.uniform(0.5, 4, 200)
    for name, (step, move) in STEPS.items():
        (width, height), k2, poses2 = cameras(takeset, takes, tmp_path, app, step)
        for row in 0, len(poses) // 2, len(poses) - 1:
            fx, fy, cx, cy = k[row]
            camera = np.stack([(u - cx) / fx * depth, -(v - cy) / fy * depth, -depth, np.ones(200)], -1)
            seen = camera @ poses[row].T @ np.linalg.inv(poses2[row]).T
            fx, fy, cx, cy = k2[row]
            found = np.stack([cx + fx * seen[:, 0] / -seen[:, 2], cy - fy * seen[:, 1] / -seen[:, 2]], -1)
            expected = np.stack(move(u, v, w, h), -1)
            assert np.abs(found - expected).max() < 0.5 and np.allclose(-seen[:, 2], depth, atol=1e-4), (name, np.abs(found - expected).max())
