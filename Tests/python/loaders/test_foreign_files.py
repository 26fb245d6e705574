"""HDF5 files in robomimic's layout that another program wrote: their measures, and what loaders would say of them."""

import json

import h5py
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

ROWS = 130


def write(path, change=lambda file: None, rows=ROWS, arguments={"env_name": "Lift", "type": 1, "env_kwargs": {"control_freq": 20}}):
    """A file as robosuite's demonstrations are, with images; then `change` makes it another."""
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = 2 * rows
        if arguments is not None:
            data.attrs["env_args"] = arguments if isinstance(arguments, str) else json.dumps(arguments)
        for number in range(2):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = rows
            time = np.arange(rows) / 20
            demo["actions"], demo["states"] = rng.uniform(-1, 1, (rows, 7)), rng.normal(size=(rows, 32))
            demo["rewards"], demo["dones"] = np.zeros(rows), np.zeros(rows, np.int64)
            obs = demo.create_group("obs")
            obs["robot0_eef_pos"] = np.c_[0.1 * np.sin(3 * time), 0.1 * np.cos(time), 0.05 * time]
            obs["robot0_eef_quat"] = Rotation.from_rotvec(np.c_[0.5 * np.sin(2 * time), 0 * time, 0.1 * time]).as_quat()
            obs["robot0_joint_pos"] = rng.normal(size=(rows, 7))
            image = (255 * rng.random((rows, 84, 84, 3)) ** 0.1).astype(np.uint8)
            obs.create_dataset("agentview_image", data=image, compression="gzip")
        file["mask/train"], file["mask/valid"] = np.array([b"demo_0"]), np.array([b"demo_1"])
        change(file)
    return path


def measures(takeset, path, check=0):
    run = takeset("measures", path, "--json", check=check)
    return json.loads(run.stdout), run.stderr


def test_motion_is_that_of_the_effector_at_the_rate_of_the_environment(takeset, tmp_path):
    found, _ = measures(takeset, write(tmp_path / "demo.hdf5"))
    assert set(found) == {"demo_0", "demo_1"}
    with h5py.File(tmp_path / "demo.hdf5") as file:
        for name, own in found.items():
            obs = file[f"data/{name}/obs"]
            meters = np.linalg.norm(np.diff(obs["robot0_eef_pos"][:], axis=0), axis=1)
            rotation = Rotation.from_quat(obs["robot0_eef_quat"][:])
            degrees = np.degrees((rotation[:-1].inv() * rotation[1:]).magnitude())
            images = obs["agentview_image"][:].astype(int)
            luma = (images @ [299, 587, 114] + 500) // 1000
            assert own["rows"] == ROWS and own["rate_hz"] == 20 and own["seconds"] == pytest.approx((ROWS - 1) / 20)
            assert own["path_m"] == pytest.approx(meters.sum(), rel=1e-5)
            assert own["speed_p99_m_s"] == pytest.approx(np.percentile(meters * 20, 99), rel=1e-5)
            assert own["turn_p99_deg_s"] == pytest.approx(np.percentile(degrees * 20, 99), rel=1e-5)
            assert own["brightness_mean"] == pytest.approx(luma.mean(), rel=1e-5)
            assert own["overexposed_fraction"] == pytest.approx((images >= 250).all(axis=3).mean(), rel=1e-5)
            assert own["joints_valid_fraction"] == 1 and own["image_missing_fraction"] == 0 and own["depth_valid_fraction"] is None


def test_a_loader_reads_it_as_it_is(takeset, tmp_path):
    assert "ready for robomimic" in takeset("verify", "--for", "robomimic", write(tmp_path / "demo.hdf5"), check=0).stdout
    short = takeset("verify", "--for", "robomimic", write(tmp_path / "short.hdf5", rows=20), check=2)
    assert "too-few-rows" in short.stdout
    named = takeset("verify", "--for", "robomimic", tmp_path / "demo.hdf5", "--obs", "agentview_imag", check=64)
    assert "did you mean agentview_image" in named.stderr
    for loader in ["lerobot", "aloha", "diffusion-policy", "nerfstudio", "geometry"]:
        assert takeset("verify", "--for", loader, tmp_path / "demo.hdf5", check=None).returncode in (0, 2), loader


def nothing(file):
    for demo in file["data"].values():
        for name in list(demo["obs"]):
            if name != "robot0_joint_pos":
                del demo["obs"][name]


def damage(file):
    for demo in file["data"].values():
        demo["obs/robot0_eef_quat"][3:9] = 0
        demo["obs/robot0_eef_pos"][20] = np.nan
        demo["obs/robot0_joint_pos"][:, 2] = np.nan


def test_what_is_absent_is_null(takeset, tmp_path):
    found, _ = measures(takeset, write(tmp_path / "no-rate.hdf5", arguments=None))
    known = {name for name, value in found["demo_0"].items() if value is not None}
    assert known == {"rows", "image_missing_fraction", "sharpness_p10", "brightness_mean", "overexposed_fraction", "joints_valid_fraction"}
    for arguments in ["{", "[]", '{"env_kwargs": 3}', '{"env_kwargs": {"control_freq": "20"}}', '{"env_kwargs": {"control_freq": -1e400}}']:
        found, _ = measures(takeset, write(tmp_path / "odd.hdf5", arguments=arguments))
        assert found["demo_0"]["rate_hz"] is None and found["demo_0"]["rows"] == ROWS
    found, _ = measures(takeset, write(tmp_path / "bare.hdf5", nothing))
    assert {name for name, value in found["demo_1"].items() if value is not None} == {"seconds", "rows", "rate_hz", "joints_valid_fraction"}
    found, _ = measures(takeset, write(tmp_path / "damaged.hdf5", damage))
    assert found["demo_0"]["joints_valid_fraction"] == pytest.approx(6 / 7, rel=1e-5) and np.isfinite(found["demo_0"]["path_m"])


def odd_shapes(file):
    for demo in file["data"].values():
        del demo["obs/robot0_eef_pos"], demo["obs/agentview_image"]
        demo["obs/robot0_eef_pos"] = np.zeros((7, 3))
        demo["obs/agentview_image"] = np.zeros((ROWS, 0, 84, 3), np.uint8)
        demo["obs/text"] = "a text"
        demo["obs/scalar"] = 3
        demo["obs/strings"] = np.array([b"a", b"bc"] * (ROWS // 2))
        demo.attrs["num_samples"] = ROWS


def wrong_counts(file):
    file["data/demo_0"].attrs["num_samples"] = 1 << 62
    del file["data/demo_1"].attrs["num_samples"]


def claims(file):
    """More rows than any file could have, of which nothing is stored."""
    for demo in file["data"].values():
        demo.attrs["num_samples"] = 1 << 40
        for name, shape, kind in [("agentview_image", (84, 84, 3), np.uint8), ("robot0_eef_pos", (3,), float), ("robot0_joint_pos", (7,), float)]:
            del demo["obs"][name]
            demo["obs"].create_dataset(name, (1 << 40, *shape), kind, chunks=(1, *shape))


@pytest.mark.parametrize("change", [odd_shapes, wrong_counts, claims], ids=lambda change: change.__name__)
def test_odd_files_have_what_they_have(takeset, tmp_path, change):
    path = write(tmp_path / "odd.hdf5", change)
    for arguments in [["measures", path, "--json"], ["verify", "--for", "robomimic", path, "--json"]]:
        run = takeset(*arguments, check=None)
        assert run.returncode in (0, 2, 65), run.stderr
        json.loads(run.stdout)


def test_files_without_episodes_are_refused(takeset, tmp_path):
    with h5py.File(tmp_path / "empty.hdf5", "w") as file:
        file["data/values"] = np.arange(3)
    with h5py.File(tmp_path / "aloha.hdf5", "w") as file:
        file["observations/qpos"] = np.zeros((3, 14))
    (tmp_path / "text.hdf5").write_text("no HDF5")
    for name in ["empty", "aloha", "text"]:
        for arguments in [["measures"], ["verify", "--for", "robomimic"]]:
            run = takeset(*arguments, tmp_path / f"{name}.hdf5", check=64)
            assert f"{name}.hdf5" in run.stderr and ("no episodes" in run.stderr or "cannot be read as an HDF5 file" in run.stderr)
    assert "there is no such file" in takeset("measures", tmp_path / "nowhere.hdf5", check=1).stderr
