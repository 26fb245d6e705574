"""Exports for ACT and ALOHA: what its loader reads, one length, incomplete rows, links."""

import os
import shutil

import h5py
import numpy as np
import pytest
from export_checks import dead_joint, incomplete_takes, refuses, with_side_camera
from geometry_oracle import Runs
from outputs import demos
from scene_oracle import export, lost, record
from stack_sessions import still, v1, v2
from videos import video_file

ABSOLUTE = {"actions": {"kind": "absolute-quat", "joints": "absolute"}}


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    """Three takes of the glove; one is shorter."""
    found = Runs(takeset, tmp_path_factory.mktemp("aloha"), {})
    for name, seconds, seed in ("b", 0.5, 1), ("a", 0.5, 2), ("c", 0.4, 3):
        takeset.simulate(found.inputs / name, "--variant", "v2", "--seconds", seconds, "--size", "96x72", "--seed", seed)
    return found


@pytest.fixture(scope="module")
def dataset(runs):
    return runs.output(ABSOLUTE)


def loaded(directory, cameras=("camera",)):
    """All that ACT's loader takes from a directory. It stacks whole episodes, so all must be of one length."""
    numbers = range(len(list(directory.glob("episode_*.hdf5"))))
    found = {"action": [], "qpos": [], "qvel": [], **{name: [] for name in cameras}}
    for number in numbers:
        with h5py.File(directory / f"episode_{number}.hdf5") as file:
            assert file.attrs["sim"].dtype == bool and file.attrs["compress"].dtype == bool and not file.attrs["compress"]
            found["action"].append(file["/action"][()])
            for name in "qpos", "qvel":
                found[name].append(file[f"/observations/{name}"][()])
            for name in cameras:
                images = file[f"/observations/images/{name}"]
                assert images.dtype == np.uint8 and images.ndim == 4 and images.chunks == (1, *images.shape[1:])
                found[name].append(np.stack([images[t] for t in range(len(images))]))
            lengths = {len(found[name][-1]) for name in found}
            assert len(lengths) == 1
    return {name: np.stack(arrays) for name, arrays in found.items()}


def item(path, start, camera="camera"):
    """One training sample of ACT: the observation of a row, and the actions from it on, filled up to the length of the episode."""
    with h5py.File(path) as file:
        # With a real robot the loader takes the actions from the row before.
        first = start if file.attrs["sim"] else max(0, start - 1)
        action = file["/action"][first:]
        padded = np.zeros(file["/action"].shape, np.float32)
        padded[: len(action)] = action
        is_pad = np.arange(len(padded)) >= len(action)
        return file[f"/observations/images/{camera}"][start], file["/observations/qpos"][start], padded, is_pad


def expected(dataset, take):
    """All rows but the last one, which no action follows."""
    demo, _ = demos(dataset)[take]
    return demo["actions"][:-1], np.hstack([demo["obs/pose"][:-1], demo["obs/joints"][:-1]]), demo["obs/camera_image"][:-1]


def table(output):
    return [(e["file"], e["take"], e["first_row"], e["rows"], e["padding"], e["linked"]) for e in record(output)["episode_files"]]


# What is in it


def test_it_holds_the_rows_of_the_dataset(dataset, takeset, tmp_path):
    export(takeset, dataset, "aloha", tmp_path / "out", "--episodes", "b,a")
    found = loaded(tmp_path / "out")
    # In the order of the dataset, whatever the order of the arguments.
    assert table(tmp_path / "out") == [("episode_0.hdf5", "a", 0, 29, 0, False), ("episode_1.hdf5", "b", 0, 29, 0, False)]
    for number, take in enumerate(["a", "b"]):
        action, qpos, images = expected(dataset, take)
        assert action.shape == (29, 11) and qpos.shape == (29, 11) and images.std() > 10
        assert np.array_equal(found["action"][number], action) and found["action"].dtype == np.float32
        assert np.array_equal(found["qpos"][number], qpos) and found["qpos"].dtype == np.float32
        assert np.array_equal(found["camera"][number], images)
    assert found["qvel"].shape == found["qpos"].shape and not found["qvel"].any()
    assert record(tmp_path / "out")["qpos"] == ["pose:7", "joints:4"] and record(tmp_path / "out")["length"] == 29
    assert "The last rows of 2 recordings are left out: no action follows them." in record(tmp_path / "out")["lost"]
    assert not any(name.startswith(".") for name in os.listdir(tmp_path))


def test_files_have_only_what_the_loaders_know(dataset, takeset, tmp_path):
    export(takeset, dataset, "aloha", tmp_path / "out", "--fixed-length", "trim")
    with h5py.File(tmp_path / "out/episode_0.hdf5") as file:
        names = []
        file.visit(names.append)
        below = ["observations/images", "observations/images/camera", "observations/qpos", "observations/qvel"]
        assert sorted(names) == ["action", "observations", *below]
        assert sorted(file.attrs) == ["compress", "sim"] and file.attrs["sim"] == np.False_


def test_samples_of_act(dataset, takeset, tmp_path):
    """Of a real robot, the first action of a chunk is the one before the row; with absolute poses that is where the hand is."""
    for arguments, shift in ((), 1), (["--sim"], 0):
        output = tmp_path / f"out{shift}"
        export(takeset, dataset, "aloha", output, "--episodes", "a", *arguments)
        action, qpos, images = expected(dataset, "a")
        for start in 0, 1, 17, 28:
            image, state, chunk, is_pad = item(output / "episode_0.hdf5", start)
            assert np.array_equal(image, images[start]) and np.array_equal(state, qpos[start])
            rest = action[max(0, start - shift) :]
            assert np.array_equal(chunk[~is_pad], rest) and not chunk[is_pad].any()
        if shift:
            assert np.allclose(item(output / "episode_0.hdf5", 17)[2][0], qpos[17], atol=1e-6)


@pytest.mark.parametrize("encoding, error", [("png", 0), ("jpeg", 1)])
def test_encoded_images_become_the_pixels_that_pillow_decodes(runs, takeset, tmp_path, encoding, error):
    import io

    from PIL import Image

    other = runs.output(ABSOLUTE, writer={"image": encoding})
    export(takeset, other, "aloha", tmp_path / "out", "--episodes", "a")
    found = loaded(tmp_path / "out")["camera"][0]
    for pixels, data in zip(found, demos(other)["a"][0]["obs/camera_image"][:-1], strict=True):
        assert np.abs(pixels.astype(int) - np.array(Image.open(io.BytesIO(data.tobytes())))).max() <= error


def test_cameras_are_called_as_the_streams_are(runs, takeset, tmp_path):
    renamed = runs.output({"rename": {"streams": {"camera_image": "wrist_image"}}}, ABSOLUTE)
    export(takeset, renamed, "aloha", tmp_path / "out", "--episodes", "a")
    assert loaded(tmp_path / "out", ["wrist"])["wrist"].shape == (1, 29, 72, 96, 3)


@pytest.mark.parametrize("link", [[], ["--link"]])
def test_several_cameras(dataset, dropped, takeset, tmp_path, link):
    export(takeset, with_side_camera(dropped if link else dataset, tmp_path / "set"), "aloha", tmp_path / "out", "--episodes", "a,b", *link)
    found = loaded(tmp_path / "out", ["camera", "side"])
    assert np.array_equal(found["side"], 255 - found["camera"]) and np.array_equal(found["camera"][1], expected(dataset, "b")[2])


@pytest.mark.parametrize("option, width", [("pose", 7), ("joints", 4), ("joints, pose", 11), ("pose,depth_point", 8)])
def test_the_streams_of_qpos_can_be_chosen(dataset, takeset, tmp_path, option, width):
    export(takeset, dataset, "aloha", tmp_path / "out", "--episodes", "a", "--qpos", option)
    demo, _ = demos(dataset)["a"]
    found = loaded(tmp_path / "out")
    expected = np.hstack([demo[f"obs/{name.strip()}"][:-1] for name in option.split(",")])
    assert np.array_equal(found["qpos"][0], expected) and expected.shape[1] == width


# One length


def test_different_lengths_are_refused(dataset, takeset, tmp_path):
    sentence = refuses(takeset, dataset, "aloha", tmp_path / "out")
    assert "23 rows in c" in sentence and "29 rows in a, b" in sentence
    assert "--fixed-length trim" in sentence and "--fixed-length pad" in sentence


def test_trim(dataset, takeset, tmp_path):
    export(takeset, dataset, "aloha", tmp_path / "out", "--fixed-length", "trim")
    found = loaded(tmp_path / "out")
    for number, take in enumerate("abc"):
        action, qpos, images = expected(dataset, take)
        assert np.array_equal(found["action"][number], action[:23]) and np.array_equal(found["qpos"][number], qpos[:23])
        assert np.array_equal(found["camera"][number], images[:23])
    assert lost(tmp_path / "out", "a") == ["a: rows 23 to 28 are cut off by --fixed-length trim."] and lost(tmp_path / "out", "c") == []
    with h5py.File(tmp_path / "out/episode_0.hdf5") as file:
        assert "is_pad" not in file


def test_pad(dataset, takeset, tmp_path):
    export(takeset, dataset, "aloha", tmp_path / "out", "--fixed-length", "pad")
    found = loaded(tmp_path / "out")
    for number, take in enumerate("abc"):
        action, qpos, images = expected(dataset, take)
        rows = np.minimum(np.arange(29), len(action) - 1)
        assert np.array_equal(found["action"][number], action[rows]) and np.array_equal(found["qpos"][number], qpos[rows])
        assert np.array_equal(found["camera"][number], images[rows])
        with h5py.File(tmp_path / f"out/episode_{number}.hdf5") as file:
            assert file["is_pad"].dtype == bool and np.array_equal(file["is_pad"][:], np.arange(29) >= len(action))
    assert [e[4] for e in table(tmp_path / "out")] == [0, 0, 6]


# Incomplete rows


@pytest.fixture(scope="module")
def incomplete(takeset, tmp_path_factory):
    return incomplete_takes(takeset, tmp_path_factory.mktemp("incomplete")).output(ABSOLUTE)


def complete_runs(demo, meta):
    """Ranges of rows that have an action, every joint and an image."""
    valid = demo["actions_valid"][:].astype(bool) & demo["obs/joints_valid"][:].all(1) & meta["streams/camera_image/valid"][:].astype(bool)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], valid, [0]])))
    return [range(first, end) for first, end in edges.reshape(-1, 2)]


def test_incomplete_rows_are_refused(incomplete, takeset, tmp_path):
    sentence = refuses(takeset, incomplete, "aloha", tmp_path / "out")
    assert all(f"{take}: " in sentence for take in ("late", "cut", "blind")) and "whole: " not in sentence
    assert "joints missing in" in sentence and "camera_image missing in 3 of 40 rows" in sentence
    assert "--masked longest" in sentence and "--masked split" in sentence
    export(takeset, incomplete, "aloha", tmp_path / "out", "--episodes", "whole")


@pytest.mark.parametrize("choice", ["longest", "split"])
def test_complete_parts_become_episodes(incomplete, takeset, tmp_path, choice):
    export(takeset, incomplete, "aloha", tmp_path / "out", "--masked", choice, "--fixed-length", "pad")
    parts = []
    for take, (demo, meta) in demos(incomplete).items():
        found = complete_runs(demo, meta)
        assert len(found) == {"late": 1, "cut": 2, "blind": 3, "whole": 1}[take]
        assert (sum(map(len, found)) == len(demo["actions"]) - 1) == (take == "whole")
        parts += [(take, rows) for rows in (found if choice == "split" else [max(found, key=len)])]
    assert [(e[1], e[2], e[3]) for e in table(tmp_path / "out")] == [(take, rows.start, len(rows)) for take, rows in parts]
    read = loaded(tmp_path / "out")
    assert np.isfinite(read["qpos"]).all() and read["camera"].reshape(len(parts), 39, -1).std(2).min() > 5
    for number, (take, rows) in enumerate(parts):
        action, qpos, images = expected(incomplete, take)
        for name, stored in ("action", action), ("qpos", qpos), ("camera", images):
            assert np.array_equal(read[name][number][: len(rows)], stored[rows])
    (sentence,) = lost(tmp_path / "out", "blind")
    kept = sum(len(rows) for take, rows in parts if take == "blind")
    assert sentence.startswith(f"blind: {40 - kept} of 40 rows are left out") and "camera_image missing in 3" in sentence


def test_a_stream_without_values_leaves_no_episode(takeset, tmp_path):
    dataset = Runs(takeset, tmp_path, {"dead": dead_joint()}).output({"actions": {"kind": "absolute-quat"}})
    sentence = refuses(takeset, dataset, "aloha", tmp_path / "out", "--masked", "longest")
    assert "dead: joints missing in 40 of 40 rows" in sentence and "--qpos" in sentence
    export(takeset, dataset, "aloha", tmp_path / "out", "--qpos", "pose")


# Links


@pytest.fixture(scope="module")
def dropped(runs):
    """A dataset without the rows that no action follows, all of whose rows an export has."""
    return runs.output({"actions": ABSOLUTE["actions"] | {"last": "drop"}})


def test_links_are_what_the_dataset_has(dropped, takeset, tmp_path):
    dataset = dropped
    shutil.copytree(dataset, tmp_path / "data/set")
    export(takeset, tmp_path / "data/set", "aloha", tmp_path / "exports/deep/out", "--episodes", "a,b", "--link")
    export(takeset, dataset, "aloha", tmp_path / "copy", "--episodes", "a,b")
    linked, copied = loaded(tmp_path / "exports/deep/out"), loaded(tmp_path / "copy")
    assert all(np.array_equal(linked[name], copied[name]) for name in copied)
    with h5py.File(tmp_path / "exports/deep/out/episode_0.hdf5") as file:
        for path, target in ("action", "/data/demo_0/actions"), ("observations/images/camera", "/data/demo_0/obs/camera_image"):
            link = file.get(path, getlink=True)
            assert isinstance(link, h5py.ExternalLink) and (link.filename, link.path) == ("../../../data/set/episodes/a.h5", target)
    assert record(tmp_path / "exports/deep/out")["bytes"] < 20_000 and [e[5] for e in table(tmp_path / "exports/deep/out")] == [True, True]
    # Both may be moved together.
    (tmp_path / "elsewhere").mkdir()
    for name in "data", "exports":
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    assert np.array_equal(loaded(tmp_path / "elsewhere/exports/deep/out")["camera"], copied["camera"])


def test_links_hold_through_symbolic_links(dropped, takeset, tmp_path):
    (tmp_path / "disk/results").mkdir(parents=True)
    (tmp_path / "short").symlink_to(tmp_path / "disk/results")
    (tmp_path / "set").symlink_to(dropped)
    export(takeset, tmp_path / "set", "aloha", tmp_path / "short/out", "--episodes", "a", "--link")
    assert loaded(tmp_path / "short/out")["camera"].std() > 10 and loaded(tmp_path / "disk/results/out")["camera"].std() > 10


def test_what_must_change_is_copied(runs, dataset, dropped, takeset, tmp_path):
    export(takeset, dataset, "aloha", tmp_path / "held", "--link", "--episodes", "a")
    assert [e[5] for e in table(tmp_path / "held")] == [False]  # its last row is left out
    export(takeset, dropped, "aloha", tmp_path / "padded", "--link", "--fixed-length", "pad")
    assert [e[5] for e in table(tmp_path / "padded")] == [True, True, False]
    loaded(tmp_path / "padded")
    export(takeset, dropped, "aloha", tmp_path / "cut", "--link", "--fixed-length", "trim")
    assert [e[5] for e in table(tmp_path / "cut")] == [False, False, True]
    export(takeset, runs.output({"actions": ABSOLUTE["actions"] | {"last": "drop"}}, writer={"image": "jpeg"}), "aloha", tmp_path / "jpeg", "--link", "--episodes", "a")
    with h5py.File(tmp_path / "jpeg/episode_0.hdf5") as file:
        assert isinstance(file.get("action", getlink=True), h5py.ExternalLink)
        assert isinstance(file.get("observations/images/camera", getlink=True), h5py.HardLink)
        assert file["observations/images/camera"].ndim == 4


# What it refuses


@pytest.fixture(scope="module")
def mixed(takeset, tmp_path_factory):
    """Takes that differ: a video without poses, sessions with and without a glove, of several sizes."""
    takes = {"pour.mov": video_file(count=40), "glove": v2(), "phone": v1(), "bare": still()}
    return Runs(takeset, tmp_path_factory.mktemp("mixed"), takes)


def test_takes_that_lack_something_or_differ_are_refused(mixed, takeset, tmp_path):
    steps = [{"actions": {}}]
    sentence = refuses(takeset, mixed.output(*steps), "aloha", tmp_path / "out")
    assert "actions" in sentence and sentence.count("pour") == 1 and "--episodes" in sentence
    sentence = refuses(takeset, mixed.output(), "aloha", tmp_path / "out", "--episodes", "glove")
    assert "needs actions" in sentence and "glove" in sentence and "pipeline" in sentence
    sentence = refuses(takeset, mixed.output(*steps), "aloha", tmp_path / "out", "--episodes", "glove,phone,bare")
    assert "pose:7 joints:4 in glove" in sentence and "pose:7 in bare, phone" in sentence and "--qpos pose" in sentence
    export(takeset, mixed.output(*steps), "aloha", tmp_path / "out", "--episodes", "glove,phone,bare", "--qpos", "pose")
    uneven = mixed.output({"actions": {"joints": "absolute"}})
    sentence = refuses(takeset, uneven, "aloha", tmp_path / "other", "--episodes", "glove,bare", "--qpos", "pose")
    assert "9 columns in bare" in sentence and "13 columns in glove" in sentence and "joints: none" in sentence
    blind = mixed.output({"select": {"streams": ["pose", "joints"]}}, *steps, check=3)
    sentence = refuses(takeset, blind, "aloha", tmp_path / "other", "--episodes", "glove")
    assert "needs images" in sentence and "glove" in sentence


def test_images_of_different_sizes_are_refused(takeset, tmp_path):
    dataset = Runs(takeset, tmp_path, {"small": v2()})
    takeset.simulate(dataset.inputs / "large", "--variant", "v2", "--seconds", 0.5, "--size", "128x96")
    sentence = refuses(takeset, dataset.output(ABSOLUTE), "aloha", tmp_path / "out", "--fixed-length", "pad")
    assert "camera_image 96x72 in small" in sentence and "camera_image 128x96 in large" in sentence and "resize-image" in sentence
