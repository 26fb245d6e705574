"""Recipes: `init` prints them, `plan` and `run` accept them, and the datasets they make are what their comments say."""

import io
import json
import os
import re
import shlex
import subprocess
import sys

import h5py
import numpy as np
import pytest
import yaml
from action_oracle import Expected, actions_are
from command import BINARY, ROOT
from documents import small_simulations
from geometry_oracle import matrices
from outputs import demos, manifest
from PIL import Image

USES = ["act", "diffusion-policy", "robomimic", "nerf", "lerobot", "server"]
# What joins takes of several phones, and has a step in Python, is run by runs/test_bimanual.py.
ALL = USES[:2] + ["umi-bimanual"] + USES[2:]
RATES = {"act": 50, "diffusion-policy": 20, "robomimic": 20, "lerobot": 30}


# The command


def test_init_lists_the_uses(takeset):
    done = takeset("init", check=64)
    assert done.stdout == ""
    assert re.findall(r"^  (\S+) +\S", done.stderr, re.M) == [*ALL, "folder"]


@pytest.mark.parametrize("use, meant", [("difusion-policy", "diffusion-policy"), ("lerobto", "lerobot"), ("unheard-of", None)])
def test_init_for_an_unknown_use(takeset, use, meant):
    done = takeset("init", "--for", use, check=64)
    assert done.stdout == "" and f'"{use}"' in done.stderr and all(known in done.stderr for known in ALL)
    assert re.findall("did you mean ([a-z-]+)", done.stderr) == ([meant] if meant else [])


@pytest.mark.parametrize("use", ALL)
def test_init_prints_and_writes_the_recipe_of_the_examples(takeset, tmp_path, use):
    text = (ROOT / f"examples/recipes/{use}.yaml").read_text()
    assert takeset("init", "--for", use, check=0).stdout == text
    takeset("init", "--for", use, "--output", "p.yaml", cwd=tmp_path, check=0)
    assert (tmp_path / "p.yaml").read_text() == text and {p.name for p in tmp_path.iterdir()} == {"p.yaml"} | ({"gripper_width.py"} if use == "umi-bimanual" else set())


def test_init_overwrites_only_with_replace(takeset, tmp_path):
    (tmp_path / "p.yaml").write_text("mine")
    done = takeset("init", "--for", "act", "--output", tmp_path / "p.yaml", check=64)
    assert "already exists" in done.stderr and "--replace" in done.stderr and (tmp_path / "p.yaml").read_text() == "mine"
    takeset("init", "--for", "act", "--output", tmp_path / "p.yaml", "--replace", check=0)
    assert (tmp_path / "p.yaml").read_text() == (ROOT / "examples/recipes/act.yaml").read_text()
    (tmp_path / "folder").mkdir()
    takeset("init", "--for", "act", "--output", tmp_path / "folder", "--replace", check=64)
    assert list((tmp_path / "folder").iterdir()) == []
    takeset("init", "--for", "act", "--replace", check=64)
    assert "absent" in takeset("init", "--for", "act", "--output", tmp_path / "absent/p.yaml", check=1).stderr


# What the recipes make


@pytest.fixture(scope="module")
def session(takeset, tmp_path_factory):
    """A session with poses and joints at 60 Hz. The aspect ratio is none of the recipes'."""
    return takeset.simulate(
        tmp_path_factory.mktemp("sessions") / "session_2026-02-01_130000", "--variant", "v2", "--seconds", 1.5, "--size", "192x108")


@pytest.fixture(scope="module")
def made(takeset, session, tmp_path_factory):
    """By use, a folder with the dataset that its recipe makes of the session, and the file of the recipe. Each is made once."""
    found = {}

    def make(use):
        if use not in found:
            root = tmp_path_factory.mktemp(use)
            takeset("init", "--for", use, "--output", f"{use}.yaml", cwd=root, check=0)
            takeset("run", session, "--output", "dataset", "--pipeline", f"{use}.yaml", cwd=root, check=0)
            found[use] = root
        return found[use]

    return make


@pytest.fixture
def episode(made):
    """The demo and meta of the only episode."""

    def one(use):
        ((demo, meta),) = demos(made(use) / "dataset").values()
        return demo, meta

    return one


@pytest.fixture
def statistics(made):
    """The statistics of a key over the dataset, with its attributes."""

    def of(use, key):
        with h5py.File(made(use) / "dataset/dataset.h5") as file:
            group = file["stats"][key]
            return {name: item[()] for name, item in group.items()} | dict(group.attrs)

    return of


@pytest.mark.parametrize("use", USES)
def test_a_recipe_makes_a_sound_dataset_without_warnings_and_plan_foresees_it(takeset, made, episode, session, use):
    takeset("verify", made(use) / "dataset", check=0)
    (entry,) = manifest(made(use) / "dataset")["record"]["takes"]
    assert entry["outcome"] == "written" and not [f for f in entry["findings"] if f["severity"] == "warning"]
    (planned,) = json.loads(takeset("plan", session, "--pipeline", made(use) / f"{use}.yaml", "--json", check=0).stdout)["takes"]
    assert planned["frames"] == entry["output"]["samples"] > 0
    # It has actions when the use has them.
    demo, _ = episode(use)
    width = {"act": 11, "diffusion-policy": 13, "robomimic": 9, "lerobot": 9, "server": 9, "nerf": None}[use]
    assert (demo["actions"].shape if "actions" in demo else None) == (width and (planned["frames"], width))
    assert width is None or demo["actions_valid"][:].mean() > 0.8


@pytest.mark.parametrize("use", RATES)
def test_rows_are_at_the_rate_of_the_recipe(episode, session, use):
    demo, meta = episode(use)
    times = [entry["timestamp"] for entry in json.loads((session / "poses.json").read_text())]
    count = int((times[-1] - times[0]) * RATES[use] + 1e-9) + 1
    assert demo.attrs["num_samples"] == count > 20
    assert np.array_equal(meta["timestamp_ns"][:], [round(k * 1e9 / RATES[use]) for k in range(count)])
    assert meta["timestamp_ns"].attrs["timeline"] == "resampled" and len(meta["gaps"]) == 0


def test_act_has_the_next_pose_and_joints_as_targets(episode, statistics):
    demo, _ = episode("act")
    assert demo["obs/camera_image"].shape[1:] == (480, 640, 3) and demo["obs/camera_image"].dtype == np.uint8
    valid = demo["actions_valid"][:-1].astype(bool)
    target = np.hstack([demo["obs/pose"][1:], demo["obs/joints"][1:]])[valid]
    assert valid.sum() > 50 and np.allclose(demo["actions"][:-1][valid], target, rtol=0, atol=1e-5)
    assert np.allclose(demo["obs/pose"][0], [0, 0, 0, 0, 0, 0, 1], atol=1e-6)
    stats = statistics("act", "actions")
    used = demo["actions"][:][demo["actions_valid"][:].astype(bool)].astype(float)
    assert stats["normalization"] == "gaussian"
    assert np.allclose(stats["offset"], used.mean(0), atol=1e-6) and np.allclose(stats["scale"], used.std(0), rtol=1e-3)


def test_diffusion_policy_has_chunks_with_rows_of_rotations(episode, statistics):
    demo, meta = episode("diffusion-policy")
    count = demo.attrs["num_samples"]
    assert demo["obs/camera_image"].shape[1:] == (224, 224, 3) and demo["action_chunk"].shape == (count, 16, 13)
    rows = actions_are(demo, meta, joints="absolute", horizon=16, rotation_layout="rows")
    assert np.abs(rows.actions()[0] - Expected(demo, meta, joints="absolute").actions()[0]).max() > 1e-3  # rows and columns differ
    assert demo["action_chunk_valid"][3].all() and demo["action_chunk_valid"][count - 3].tolist() == [1, 1] + [0] * 14
    stats = statistics("diffusion-policy", "action_chunk")
    used = demo["action_chunk"][:][demo["action_chunk_valid"][:].astype(bool)]
    normalized = (used - stats["offset"]) / stats["scale"]
    assert stats["normalization"] == "minmax" and np.allclose([normalized.min(0), normalized.max(0)], [[-1] * 13, [1] * 13], atol=1e-4)


def test_robomimic_has_the_same_keys_everywhere_and_actions_within_one(episode):
    demo, meta = episode("robomimic")
    count = demo.attrs["num_samples"]
    assert {key for key in demo["obs"] if not key.endswith("_valid")} == {"pose", "camera_image"}
    assert demo["obs/camera_image"].shape == (count, 84, 84, 3)
    assert np.abs(demo["actions"][:]).max() <= 1
    actions_are(demo, meta)


def test_nerf_has_the_files_of_the_phone_with_poses_in_opengl_axes(episode, session):
    demo, meta = episode("nerf")
    files = sorted((session / "rgb").iterdir())
    numbers = meta["source_index"][:]
    assert len(numbers) > 0.9 * len(files) and meta["timestamp_ns"].attrs["timeline"] == "source"
    for row in 0, len(numbers) // 2, len(numbers) - 1:
        assert demo["obs/camera_image"][row].tobytes() == (session / f"rgb/{numbers[row]:06d}.jpg").read_bytes()
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y up, z back"
    truth = np.array([entry["transform"] for entry in json.loads((session / "poses.json").read_text())])
    assert np.allclose(matrices(demo["obs/pose"][:].astype(float)), truth[numbers], rtol=0, atol=1e-5)


def test_nerf_has_trustworthy_depth_in_meters(takeset, made, tmp_path):
    takeset("simulate", "stray-scanner", "--output", tmp_path / "scan", "--seconds", 0.5, "--size", "96x72", "--depth-size", "64x48", check=0)
    takeset("run", tmp_path / "scan", "--output", tmp_path / "out", "--pipeline", made("nerf") / "nerf.yaml", check=0)
    ((demo, _),) = demos(tmp_path / "out").values()
    depth, valid = demo["obs/camera_depth"], demo["obs/camera_depth_valid"][:].astype(bool)
    assert depth.attrs["unit"] == "m" and depth.dtype == np.float32 and valid.any()
    assert depth[:][valid].min() > 0 and depth[:].max() <= 5 and (demo["obs/camera_depth_confidence"][:][valid] >= 1).all()


def test_lerobot_has_jpegs_of_one_size_padded_with_black(episode):
    demo, _ = episode("lerobot")
    image = Image.open(io.BytesIO(demo["obs/camera_image"][0].tobytes()))
    pixels = np.array(image)
    assert image.format == "JPEG" and pixels.shape == (480, 640, 3)
    assert pixels[:20].max() < 16 and pixels[-20:].max() < 16 and pixels[230:250, 300:340].max() > 32
    assert demo["obs/camera_image"].attrs["encoding"] == "jpeg"


def test_lerobot_has_depth_in_millimeters(takeset, made, tmp_path):
    session = takeset.simulate(tmp_path / "session", "--seconds", 0.5, "--size", "96x72", "--depth-size", "64x48")
    takeset.convert(session, output=tmp_path / "out", arguments=["--pipeline", made("lerobot") / "lerobot.yaml"])
    ((demo, _),) = demos(tmp_path / "out").values()
    depth = demo["obs/camera_depth"]
    assert depth.dtype == np.uint16 and depth.attrs["unit"] == "mm" and np.median(depth[:][depth[:] > 0]) > 100


# The comments


@pytest.fixture(scope="module")
def commented(takeset, made, tmp_path_factory):
    """By use, a folder with a dataset for which the comments of its recipe hold: that of nerf needs intrinsics."""
    root = tmp_path_factory.mktemp("intrinsics")
    takeset.simulate(root / "session", "--variant", "v3-slam", "--seconds", 0.5, "--size", "96x72")
    takeset.convert(root / "session", output=root / "dataset", arguments=["--pipeline", made("nerf") / "nerf.yaml"])
    return lambda use: root if use == "nerf" else made(use)


@pytest.mark.parametrize("use", [use for use in USES if use not in ("robomimic", "lerobot", "server")])
def test_the_python_in_a_recipe_runs(made, commented, use):
    text = (made(use) / f"{use}.yaml").read_text()
    (code,) = re.findall(r"^#     import h5py.*\n(?:^#     .*\n)+", text, re.M)
    code = re.sub("^#     ", "", code, flags=re.M)
    # The shapes in the comments, by the names that are assigned in their lines.
    promised = re.findall(r"^ +(\w+) = .*# .*?\((T|\d+), ?((?:\d+(?:, )?)*)\)", code, re.M)
    assert len(promised) == {"act": 3, "diffusion-policy": 3, "nerf": 0}[use]
    for name, first, rest in promised:
        shape = "" if first == "T" else f"{first}, "
        code += f"    assert {name}.shape[{first == 'T':d}:] == ({shape}{rest}{',' if rest else ''}), {name}.shape\n"
    if use == "nerf":
        code += "    rotation = transform_matrix[:3, :3]\n"
        code += "    assert np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-5) and np.linalg.det(rotation) > 0\n"
        code += "    assert jpeg.startswith(bytes([255, 216])) and fx > 0\n"
    subprocess.run([sys.executable, "-c", code], cwd=commented(use), check=True)


@pytest.mark.parametrize("use, files", [("act", "episode_0.hdf5"), ("diffusion-policy", "data/action/.zarray"), ("nerf", "*/transforms.json"),
                                        ("lerobot", "meta/info.json")])  # fmt: skip
def test_the_export_in_a_recipe_works(made, commented, tmp_path, use, files):
    text = (made(use) / f"{use}.yaml").read_text()
    (tmp_path / "dataset").symlink_to(commented(use) / "dataset")
    (line,) = re.findall(r"^#     takeset export (dataset/ .*)$", text, re.M)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TAKESET_PYTHON": sys.executable}
    subprocess.run([BINARY, "export", *shlex.split(line)], cwd=tmp_path, env=environment, check=True, capture_output=True)
    output = tmp_path / shlex.split(line)[shlex.split(line).index("--output") + 1]
    assert list(output.glob(files)) and (output / "takeset-export.json").exists()


@pytest.mark.slow
def test_the_takes_that_the_page_about_training_simulates_are_enough(tmp_path):
    page = (ROOT / "docs/train.md").read_text()
    convert, simulate = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[:2]
    lines = [line for line in convert.splitlines() if line.startswith("takeset ")]
    assert len(lines) == 3 and lines[2].startswith("takeset verify --for robomimic")
    environment = small_simulations(tmp_path, "160x120")
    done = subprocess.run(["sh", "-ec", "\n".join([simulate, *lines])], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "ready for robomimic; 6 episodes" in done.stdout, done.stdout + done.stderr


def alternatives():
    """Recipes with one of the commented-out steps in use: in place of the active step of its name, or where it stands."""
    for use in USES:
        lines = (ROOT / f"examples/recipes/{use}.yaml").read_text().split("\n")
        for number, line in enumerate(lines):
            if line.startswith("  # - "):
                (step,) = yaml.safe_load(line.replace("# ", "", 1))
                pipeline = yaml.safe_load("\n".join(lines))
                names = [next(iter(active)) for active in pipeline["transforms"]]
                (name,) = step
                place = names.index(name) if name in names else sum(earlier.startswith("  - ") for earlier in lines[:number])
                pipeline["transforms"][place : place + (name in names)] = [step]
                yield pytest.param(pipeline, id=f"{use} {name} {number}")


@pytest.mark.parametrize("pipeline", [*alternatives()])
def test_steps_that_are_commented_out_are_accepted(takeset, session, tmp_path, pipeline):
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(pipeline, sort_keys=False))
    done = takeset("plan", session, "--pipeline", tmp_path / "p.yaml", check=0)
    assert "1 take, " in done.stdout and " 0 frames" not in done.stdout
