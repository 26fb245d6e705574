"""What a run makes without a pipeline file: takes of all apps and versions with one image size, one depth unit and one set of camera axes."""


import h5py
import numpy as np
import pytest
from action_oracle import actions_are
from images import frame_code
from outputs import demos, manifest
from PIL import Image
from scipy.spatial.transform import Rotation
from session_checks import poses, same_rotations

V1, V2, SLAM, SCAN = "session_2026-03-01_100000", "session_2026-03-02_100000", "session_2026-03-03_100000", "scan"
ARKIT = "x right, y up, z back"
FLIP = np.diag([1, -1, -1])  # from axes of OpenCV to those of ARKit
DEFAULT = [
    ("align", {}), ("resize-image", {"width": 320, "height": 240, "mode": "fit"}), ("resample-depth", {"unit": "m", "width": None}),
    ("pose-frame", {"axes": "arkit", "origin": "world"}), ("actions", {"kind": "relative-6d", "joints": "none", "horizon": 1}), ("split", {}),
    ("verify-hash-chain", {"require": "structure"}),
]


@pytest.fixture(scope="module")
def root(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("default")
    short = ["--seconds", 0.4]
    takeset.simulate(root / "in" / V1, *short, "--size", "960x720", "--depth-size", "64x48")
    takeset.simulate(root / "in" / V2, *short, "--variant", "v2", "--seed", 3)
    takeset.simulate(root / "in" / SLAM, *short, "--variant", "v3-slam", "--seed", 4)
    takeset("simulate", "stray-scanner", "--output", root / "in" / SCAN, *short, "--size", "960x720", "--depth-size", "64x48", "--seed", 5, check=0)
    takeset.convert(root / "in", output=root / "out")
    return root


@pytest.fixture(scope="module")
def found(root):
    found = demos(root / "out")
    assert set(found) == {V1, V2, SLAM, SCAN}
    return found


def findings(output, code):
    return [f["message"] for f in manifest(output)["record"]["findings"] if f["code"] == code]


def test_the_pipeline_is_recorded_in_full(root):
    record = manifest(root / "out")["record"]
    steps = [next(iter(step.items())) for step in record["pipeline"]["transforms"]]
    assert [name for name, _ in steps] == [name for name, _ in DEFAULT]
    for (name, options), (_, expected) in zip(steps, DEFAULT):
        assert {key: options[key] for key in expected} == expected, name
    for entry in record["takes"]:
        assert [step["name"] for step in entry["steps"]][1:] == [name for name, _ in DEFAULT if name != "split"]  # which concerns the index alone


def test_all_takes_have_one_image_size(root, found):
    for name, (demo, meta) in found.items():
        images = demo["obs/camera_image"]
        assert images.shape[1:] == (240, 320, 3) and images.dtype == np.uint8, name
        assert [frame_code(image) for image in images[:]] == meta["source_index"][:].tolist(), name
    assert not findings(root / "out", "mixed-sizes")


def test_depth_is_in_meters_everywhere(root, found):
    for name in V1, SCAN:
        depth = found[name][0]["obs/camera_depth"]
        assert (depth.dtype, depth.attrs["unit"], depth.shape[1:]) == (np.float32, "m", (48, 64, 1)), name
        assert np.array_equal(depth[:] > 0, found[name][0]["obs/camera_depth_valid"][:] == 1)
    demo, meta = found[V1]
    for row, index in enumerate(meta["streams/camera_depth/source_index"][:]):
        stored = np.fromfile(root / "in" / V1 / f"depth/{index:06d}.bin", "<f4").reshape(48, 64, 1)
        assert np.array_equal(demo["obs/camera_depth"][row], stored)
    demo, meta = found[SCAN]
    for row, index in enumerate(meta["streams/camera_depth/source_index"][:]):
        millimeters = np.array(Image.open(root / "in" / SCAN / f"depth/{index:06d}.png"))[..., None]
        assert millimeters.max() > 500
        assert np.array_equal(demo["obs/camera_depth"][row], (millimeters / 1000).astype("f4"))
    assert demo["obs/camera_depth_confidence"].shape == demo["obs/camera_depth"].shape


def test_camera_axes_are_arkits_everywhere(root, found):
    assert {name: demo["obs/pose"].attrs["camera_axes"] for name, (demo, _) in found.items()} == dict.fromkeys(found, ARKIT)
    for name in V1, V2, SLAM:
        demo, meta = found[name]
        source = {entry["rgbIndex"]: np.array(entry["transform"]) for entry in poses(root / "in" / name)}
        matrices = np.stack([source[number] for number in meta["source_index"][:]])
        pose = demo["obs/pose"][:].astype("f8")
        assert np.abs(pose[:, :3] - matrices[:, :3, 3]).max() < 1e-6
        same_rotations(pose[:, 3:], matrices[:, :3, :3] @ (FLIP if name == SLAM else np.eye(3)))
    demo, meta = found[SCAN]
    rows = [line.replace(" ", "").split(",") for line in (root / "in" / SCAN / "odometry.csv").read_text().splitlines()]
    at = {word: column for column, word in enumerate(rows[0])}
    source = {int(row[at["frame"]]): [float(row[at[word]]) for word in ("x", "y", "z", "qx", "qy", "qz", "qw")] for row in rows[1:]}
    expected = np.array([source[number] for number in meta["source_index"][:]])
    pose = demo["obs/pose"][:].astype("f8")
    assert np.abs(pose[:, :3] - expected[:, :3]).max() < 1e-6
    same_rotations(pose[:, 3:], Rotation.from_quat(expected[:, 3:]).as_matrix() @ FLIP)
    for demo, _ in found.values():
        quaternions = demo["obs/pose"][:, 3:]
        assert quaternions[0, 3] >= 0 and ((quaternions[1:] * quaternions[:-1]).sum(1) > 0).all()


def test_every_take_with_poses_has_actions(found):
    for name, (demo, meta) in found.items():
        assert actions_are(demo, meta).words() == "relative_position:3 relative_rotation_6d:6", name
        assert "next_obs" not in demo


def test_only_the_unit_of_poses_is_left_to_be_named(root):
    """Of SLAM's poses nobody knows the scale, which one line says for poses and all that is computed from them; depth, axes and sizes are the
    same for all."""
    (mixed,) = findings(root / "out", "mixed-units")
    assert mixed == f"pose, actions: {SLAM} is in an arbitrary unit, the others in m; statistics are kept apart"
    with h5py.File(root / "out/dataset.h5") as file:
        units = {file["data"][name.decode()]["obs/pose"].attrs["unit"] for name in file["mask/train"][:]}
        assert {"camera_image", "camera_depth"} <= set(file["stats"])
        assert len([key for key in file["stats"] if key.split("@")[0] == "pose"]) == len(units)


def test_takes_of_known_scale_are_of_one_meaning(takeset, root, tmp_path):
    takeset.convert(*(root / "in" / name for name in (V1, V2, SCAN)), output=tmp_path / "out")
    assert not findings(tmp_path / "out", "mixed-units") and not findings(tmp_path / "out", "mixed-sizes")
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        assert not [key for key in file["stats"] if "@" in key]
        assert {"pose", "actions", "camera_image"} <= set(file["stats"])
    takeset("verify", tmp_path / "out", check=0)


def test_images_of_other_proportions_fit_within(takeset, tmp_path):
    sizes = {"wide": ("640x360", (180, 320)), "tall": ("300x400", (240, 180)), "small": ("96x72", (72, 96))}
    for name, (size, _) in sizes.items():
        takeset.simulate(tmp_path / "in" / name, "--variant", "v2", "--seconds", 0.1, "--size", size)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    for name, (demo, _) in demos(tmp_path / "out").items():
        assert demo["obs/camera_image"].shape[1:] == (*sizes[name][1], 3)
    (message,) = findings(tmp_path / "out", "mixed-sizes")
    assert message.startswith("camera_image") and all(name in message for name in sizes)


def test_verify_and_inspect_know_it(takeset, root):
    takeset("verify", root / "out", "--inputs", check=0)
    text = takeset("inspect", root / "out", check=0).stdout
    assert all(name in text for name in (V1, V2, SLAM, SCAN)) and "actions" in text
    assert "nothing to do" in takeset.convert(root / "in", output=root / "out").stdout
