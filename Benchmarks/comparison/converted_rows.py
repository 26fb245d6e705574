"""Reads what the contenders wrote: rows of each take, in parts. What cannot be read has none."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from measure import WHOLE, Rows, edge, matrices
from PIL import Image

import takeset

HERE = Path(__file__).resolve().parent
WORLD = np.eye(4)  # the contenders for sessions leave the world as it is


def of_images(images, **others):
    return Rows([edge(image) for image in images], whole={index: images[index] for index in range(0, len(images), WHOLE)}, **others)


def from_takeset(output):
    found = {}
    for episode in takeset.open(output / "dataset"):
        seen = np.flatnonzero(episode["camera_image"].valid[:])
        angles = np.full((len(episode), 4), np.nan)
        if "joints" in episode:  # a glove may not have come at all
            joints = episode["joints"]
            known = joints.valid[:].reshape(len(episode), -1).all(1)
            angles[known] = joints[:][known]
        rows = of_images(
            list(episode["camera_image"][:][seen]), poses=matrices(episode["pose"][:][seen].astype(float)), joints=angles[seen],
            seconds=episode.times_ns[seen] / 1e9, world=WORLD,
        )  # fmt: skip
        found.setdefault(episode.take_id, []).append(rows)
    return found


def from_files(read):
    """Rows of files of h5py, of which each is a take."""

    def rows(output):
        found = {}
        for path in sorted(output.glob("*.h5")):
            try:
                with h5py.File(path) as file:
                    found[path.stem] = [read(file)]
            except (KeyError, OSError) as error:
                print(f"{path}: {error}", file=sys.stderr)
        return found

    return rows


def of_plain(file):
    obs, seconds = file["data/demo_0/obs"], file["meta/demo_0/timestamp_ns"][:] / 1e9
    return of_images(obs["camera_image"][:], poses=matrices(obs["pose"][:].astype(float)), joints=obs["joints"][:], seconds=seconds, world=WORLD)


def of_positions(file):
    obs = file["observations"]
    return of_images(obs["images/camera"][:], poses=matrices(obs["pose"][:]), joints=obs["joints"][:], world=WORLD)


def from_lerobot(python, episodes=None):
    """Rows of a LeRobot dataset; `episodes` says which take an episode is of, otherwise its task does."""

    def rows(output):
        if not (output / "lerobot/meta/info.json").exists():  # reading would make the directory
            return {}
        with tempfile.TemporaryDirectory() as folder:
            command = [python, HERE / "lerobot_rows.py", "read", output / "lerobot", f"{folder}/rows.npz"]
            subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=600)
            stored = dict(np.load(f"{folder}/rows.npz"))
        names, found = episodes(output) if episodes else None, {}
        for number in np.unique(stored["episode"]):
            here = np.flatnonzero(stored["episode"] == number)
            whole = {index - int(here[0]): stored["whole"][index // WHOLE] for index in here.tolist() if index % WHOLE == 0}
            state = stored["state"][here].astype(float)
            rows = Rows(list(stored["edges"][here]), matrices(state[:, :7]), state[:, 7:11], stored["seconds"][here], whole=whole, world=WORLD)
            found.setdefault(names[number] if names else str(stored["task"][here[0]]), []).append(rows)
        return found

    return rows


def exported_episodes(output):
    takes = {episode.id: episode.take_id for episode in takeset.open(output / "dataset")}
    record = json.loads((output / "lerobot/takeset-export.json").read_text())
    return [takes[episode["id"]] for episode in record["episodes"] for _ in episode["exported"]]


def from_scenes(folder, is_fitted):
    """Rows of transforms.json, as nerfstudio reads it. What is not fitted has the true world but for `applied_transform`."""

    def rows(output):
        found = {}
        for scene in sorted((output / folder).glob("*/transforms.json")):
            try:
                content = json.loads(scene.read_text())
                images = [np.asarray(Image.open(scene.parent / frame["file_path"]).convert("RGB")) for frame in content["frames"]]
                paths = [frame.get("depth_file_path") for frame in content["frames"]]
                depth = [np.asarray(Image.open(scene.parent / path)) if path else None for path in paths]
            except (KeyError, OSError, ValueError) as error:
                print(f"{scene}: {error}", file=sys.stderr)
                continue
            world = np.vstack([content.get("applied_transform", np.eye(4)[:3]), [0, 0, 0, 1]])
            poses = np.array([frame["transform_matrix"] for frame in content["frames"]], float)
            found[scene.parent.name] = [of_images(images, poses=poses, depth=depth, world=None if is_fitted else world)]
        return found

    return rows
