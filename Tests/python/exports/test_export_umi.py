"""Replay buffers in UMI's layout: what its loader reads, poses, grippers, cameras."""

import numpy as np
import pytest
from export_checks import dead_joint, refuses, with_side_camera
from geometry_oracle import Runs, matrices
from outputs import demos
from scene_oracle import export, lost, opencv, record
from scipy.spatial.transform import Rotation
from stack_sessions import synthetic, v1, v2
from videos import video_file
from zarr_oracle import UMI, Store, check_replay_buffer

SQUARE = {"resize-image": {"width": 224, "height": 224, "mode": "cover"}}
BODY = [0.02, -0.15, 0.08, 0.1, -0.2, 0.3, 0.9273618495495703]
TAKES = ["glove", "phone", "room"]
KEYS = {"robot0_eef_pos", "robot0_eef_rot_axis_angle", "robot0_gripper_width", "robot0_demo_start_pose", "robot0_demo_end_pose"}


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    """A session with a glove and two with depth maps."""
    found = Runs(takeset, tmp_path_factory.mktemp("umi"), {"glove": v2(), "phone": v1()})
    takeset.simulate(found.inputs / "room", "--seconds", 0.4, "--size", "96x72", "--depth-size", "64x48")
    return found


@pytest.fixture(scope="module")
def umi(runs, takeset, tmp_path_factory):
    """The dataset, and its export."""
    output = tmp_path_factory.mktemp("umi") / "out"
    export(takeset, runs.output(SQUARE), "zarr", output, "--layout", "umi")
    return runs.output(SQUARE), output


def images(dataset):
    return np.concatenate([demos(dataset)[take][0]["obs/camera_image"][:] for take in TAKES])


def test_umi_reads_it(umi):
    dataset, output = umi
    assert sorted(p.name for p in output.iterdir()) == ["dataset.zarr.zip", "takeset-export.json"]
    data, ends = check_replay_buffer(Store(output / "dataset.zarr.zip"))
    assert set(data) == KEYS | {"camera0_rgb"}
    assert ends.tolist() == [40, 80, 104] and np.array_equal(data["camera0_rgb"], images(dataset))
    sampler = UMI(data, ends)
    observed, action = sampler.window(75)
    assert observed.tolist() == [72, 75] and np.array_equal(action[0], sampler.action[75]) and np.array_equal(action[2], sampler.action[79])
    assert sampler.window(40)[0].tolist() == [40, 40]


def test_umi_has_the_poses_of_the_camera(umi):
    dataset, output = umi
    data, ends = check_replay_buffer(Store(output / "dataset.zarr.zip"))
    for take, first, end in zip(TAKES, [0, *ends], ends):
        poses = opencv(demos(dataset)[take][0])
        vectors = Rotation.from_matrix(poses[:, :3, :3]).as_rotvec()
        assert np.abs(data["robot0_eef_pos"][first:end] - poses[:, :3, 3]).max() < 1e-6
        assert np.abs(data["robot0_eef_rot_axis_angle"][first:end] - vectors).max() < 1e-6
        for key, row in ("robot0_demo_start_pose", 0), ("robot0_demo_end_pose", -1):
            assert np.abs(data[key][first:end] - [*poses[row, :3, 3], *vectors[row]]).max() < 1e-6
    assert np.abs(data["robot0_eef_rot_axis_angle"]).max() > 0.3 and data["robot0_eef_pos"].dtype == np.float32
    said = " ".join(record(output)["conventions"])
    assert "OpenCV" in said and "59.94" in said and "rows of the matrix" in said


def test_umi_takes_the_pose_of_the_body(runs, takeset, tmp_path):
    """The pipeline says which point of the hand moves; the axes are its own."""
    dataset = runs.output(SQUARE, {"pose-frame": {"axes": "opencv", "body": BODY}})
    export(takeset, dataset, "zarr", tmp_path / "out", "--layout", "umi", "--episodes", "room")
    store, poses = Store(tmp_path / "out/dataset.zarr.zip"), matrices(demos(dataset)["room"][0]["obs/pose"][:])
    assert np.abs(store["data/robot0_eef_pos"] - poses[:, :3, 3]).max() < 1e-6
    assert np.abs(store["data/robot0_eef_rot_axis_angle"] - Rotation.from_matrix(poses[:, :3, :3]).as_rotvec()).max() < 1e-6


def test_the_gripper_is_an_element_of_a_stream(umi, takeset, tmp_path):
    dataset, output = umi
    assert not Store(output / "dataset.zarr.zip")["data/robot0_gripper_width"].any()
    assert "robot0_gripper_width is 0, because no stream is named with --gripper." in record(output)["lost"]
    export(takeset, dataset, "zarr", tmp_path / "out", "--layout", "umi", "--gripper", "joints:2", "--episodes", "glove")
    width = Store(tmp_path / "out/dataset.zarr.zip")["data/robot0_gripper_width"]
    assert np.array_equal(width, demos(dataset)["glove"][0]["obs/joints"][:, 2:3]) and width.dtype == np.float32
    assert "The unit of robot0_gripper_width is degree, and UMI takes it for meters." in record(tmp_path / "out")["lost"]
    export(takeset, dataset, "zarr", tmp_path / "point", "--layout", "umi", "--gripper", "depth_point", "--episodes", "glove")
    width = Store(tmp_path / "point/dataset.zarr.zip")["data/robot0_gripper_width"]
    assert np.array_equal(width, demos(dataset)["glove"][0]["obs/depth_point"][:])
    assert not any("meters" in sentence for sentence in record(tmp_path / "point")["lost"])
    sentence = refuses(takeset, dataset, "zarr", tmp_path / "other", "--layout", "umi", "--gripper", "joints:2")
    assert "phone, room" in sentence and "glove" not in sentence


def test_only_the_grippers_element_has_to_be_there(takeset, tmp_path):
    dataset = Runs(takeset, tmp_path / "takes", {"glove": dead_joint()}).output(SQUARE)
    export(takeset, dataset, "zarr", tmp_path / "out", "--layout", "umi", "--gripper", "joints:1")
    assert record(tmp_path / "out")["masked_rows"] == 0
    refuses(takeset, dataset, "zarr", tmp_path / "other", "--layout", "umi", "--gripper", "joints:0")


def test_several_cameras(umi, takeset, tmp_path):
    dataset, _ = umi
    copy = with_side_camera(dataset, tmp_path / "set")
    export(takeset, copy, "zarr", tmp_path / "out", "--layout", "umi")
    data, _ = check_replay_buffer(Store(tmp_path / "out/dataset.zarr.zip"))
    assert np.array_equal(data["camera1_rgb"], 255 - data["camera0_rgb"])


def test_umi_has_no_episode_of_one_row(takeset, tmp_path):
    found = v2()
    for number in 10, 11, 12, 14, 15, 16, 30, 31:
        del found.rgb[number]
    dataset = Runs(takeset, tmp_path / "takes", {"holes": found}).output(SQUARE)
    export(takeset, dataset, "zarr", tmp_path / "out", "--layout", "umi")
    data, ends = check_replay_buffer(Store(tmp_path / "out/dataset.zarr.zip"))
    UMI(data, ends)
    assert ends.tolist() == [10, 23, 31]
    assert record(tmp_path / "out")["masked_rows"] == 1 and record(tmp_path / "out")["masked"] == {"holes": {"alone": 1}}
    assert np.array_equal(data["camera0_rgb"], np.delete(demos(dataset)["holes"][0]["obs/camera_image"][:], 10, 0))
    assert lost(tmp_path / "out", "holes")
    export(takeset, dataset, "zarr", tmp_path / "plain")
    assert Store(tmp_path / "plain")["meta/episode_ends"].tolist() == [10, 11, 24, 32]


def test_what_it_cannot_read_is_refused(runs, takeset, tmp_path):
    sentence = refuses(takeset, runs.output(), "zarr", tmp_path / "out", "--layout", "umi")
    assert "96x72 in glove, phone, room" in sentence and "resize-image: {width: 224, height: 224, mode: cover}" in sentence
    others = Runs(takeset, tmp_path / "takes", {"pour.mov": video_file(count=6), "made": synthetic()}).output(SQUARE)
    assert "pour" in refuses(takeset, others, "zarr", tmp_path / "out", "--layout", "umi")
    assert "made" in refuses(takeset, others, "zarr", tmp_path / "out", "--layout", "umi", "--episodes", "made")


def test_umi_through_the_zarr_library(umi):
    zarr = pytest.importorskip("zarr")
    with zarr.ZipStore(str(umi[1] / "dataset.zarr.zip"), mode="r") as store:
        root = zarr.group(store)
        assert root["data/camera0_rgb"].chunks == (1, 224, 224, 3) and root["data/camera0_rgb"][50].std() > 10
        assert root["meta/episode_ends"][:].tolist() == [40, 80, 104]
