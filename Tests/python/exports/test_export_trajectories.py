"""Trajectories for other programs (tum, kitti) and what all exports have in common: output directories, selected episodes, refusals."""

import json
import re
import resource
import shutil

import h5py
import numpy as np
import pytest
from export_checks import refuses
from geometry_oracle import BODY, POSED, Runs, poses_of_source, steps_file
from outputs import demos, manifest
from scans import session as scan
from scene_oracle import export, files, lost, opencv, record, times
from scipy.spatial.transform import Rotation
from sealing import seal
from stack_sessions import synthetic
from videos import video_file

PIPELINES = {
    "own axes": [], "opencv": [{"pose-frame": {"axes": "opencv"}}], "ros": [{"pose-frame": {"axes": "ros"}}],
    "body": [{"pose-frame": {"body": BODY}}], "body in ros": [{"pose-frame": {"axes": "ros", "body": BODY}}],
    "resampled": [{"resample": {"rate": 25}}],
}


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    return Runs(takeset, tmp_path_factory.mktemp("trajectories"), {name: make() for name, make in POSED.items()})


@pytest.fixture(scope="module")
def exported(runs, takeset, tmp_path_factory):
    """The dataset of a pipeline, and its export in a format."""
    done = {}

    def make(form, pipeline):
        if (form, pipeline) not in done:
            dataset = runs.output(*PIPELINES[pipeline])
            output = tmp_path_factory.mktemp("exports") / "out"
            export(takeset, dataset, form, output)
            done[form, pipeline] = dataset, output
        return done[form, pipeline]

    return make


@pytest.fixture(scope="module")
def others(takeset, tmp_path_factory):
    """A dataset of a scan, of a session whose poses are no camera's, and of a video, which has none."""
    found = Runs(takeset, tmp_path_factory.mktemp("others"), {"good": scan(times="time"), "robot": synthetic(), "pour.mov": video_file(count=6)})
    return found.output()


def table(path):
    """The numbers of a file whose lines are numbers and single spaces."""
    text = path.read_text(encoding="ascii")
    assert text.endswith("\n") and not re.search(r"  | \n|\n\n|^ ", text)
    return [line.split(" ") for line in text.splitlines()]


def same_rotations(found, expected):
    assert np.abs(found - expected).max() < 1e-6


# tum


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("take", POSED)
def test_tum_has_the_camera_of_every_row(exported, take, pipeline):
    dataset, output = exported("tum", pipeline)
    demo, meta = demos(dataset)[take]
    lines = table(output / f"{take}.txt")
    assert {len(line) for line in lines} == {8} and len(lines) == len(demo["obs/pose"])
    numbers = np.array([[float(n) for n in line[1:]] for line in lines])
    expected = opencv(demo)
    assert np.abs(numbers[:, :3] - expected[:, :3, 3]).max() < 1e-6
    assert np.abs(np.linalg.norm(numbers[:, 3:], axis=1) - 1).max() < 1e-12
    same_rotations(Rotation.from_quat(numbers[:, 3:]).as_matrix(), expected[:, :3, :3])
    # Signs are steady, as in the dataset.
    assert (numbers[1:, 3:] * numbers[:-1, 3:]).sum(1).min() > 0
    if pipeline != "resampled":
        # Whatever the dataset's axes and body are, the camera is that of the source.
        source = poses_of_source(take, "opencv")
        assert np.abs(numbers[:, :3] - source[:, :3, 3]).max() < 1e-6 * max(1, np.abs(source[:, :3, 3]).max())
        same_rotations(Rotation.from_quat(numbers[:, 3:]).as_matrix(), source[:, :3, :3])


@pytest.mark.parametrize("pipeline", ["own axes", "resampled"])
def test_tum_has_the_times_to_the_nanosecond(exported, pipeline):
    dataset, output = exported("tum", pipeline)
    bases = {entry["id"]: entry["time_base"] for entry in record(output)["episodes"]}
    seen = set()
    for take, (_, meta) in demos(dataset).items():
        nanoseconds, base = times(meta)
        expected = [f"{n // 10**9}.{n % 10**9:09d}" for n in nanoseconds.tolist()]
        assert [line[0] for line in table(output / f"{take}.txt")] == expected
        assert bases[take] == base
        seen.add(base)
    assert seen >= {"unix", "clock:device-uptime"}


def test_a_unit_that_is_not_meters_is_said(exported):
    _, output = exported("tum", "own axes")
    assert [word for take in POSED for word in lost(output, take)] == [
        "slam: the unit of positions is arbitrary, which the format cannot say.",
        "claimed: the unit of positions is m (claimed), which the format cannot say.",
    ]


# kitti


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("take", POSED)
def test_kitti_has_cameras_as_seen_from_the_first(exported, take, pipeline):
    dataset, output = exported("kitti", pipeline)
    poses = opencv(demos(dataset)[take][0])
    lines = table(output / f"{take}.txt")
    assert {len(line) for line in lines} == {12} and len(lines) == len(poses)
    numbers = np.array([[float(n) for n in line] for line in lines]).reshape(-1, 3, 4)
    expected = np.linalg.inv(poses[0]) @ poses
    assert np.abs(numbers - expected[:, :3]).max() < 1e-6 * max(1, np.abs(poses[:, :3, 3]).max())
    assert np.abs(numbers[0] - np.eye(4)[:3]).max() < 1e-15
    assert any("no times" in sentence for sentence in record(output)["lost"])


# Rows without a pose


def without_poses(dataset, copy, take, rows):
    """A copy of a dataset in which these rows have no pose, as if there had been none."""
    shutil.copytree(dataset, copy)
    with h5py.File(copy / f"episodes/{take}.h5", "r+") as shard:
        for row in rows:
            shard["data/demo_0/obs/pose"][row] = np.nan
            for name, value in ("source_index", -1), ("next_index", -1), ("valid", 0):
                shard[f"meta/demo_0/streams/pose/{name}"][row] = value
    seal(copy)
    return copy


def test_rows_without_a_pose_have_no_line(runs, takeset, tmp_path):
    rows = [0, 7, 8]
    dataset = without_poses(runs.output(), tmp_path / "copy", "scan", rows)
    demo, meta = demos(dataset)["scan"]
    kept = np.setdiff1d(np.arange(len(demo["obs/pose"])), rows)
    for form in "tum", "kitti":
        export(takeset, dataset, form, tmp_path / form, "--episodes", "scan")
        assert lost(tmp_path / form, "scan") == [f"scan: 3 of {len(kept) + 3} rows have no pose and no line."]
        assert len(table(tmp_path / form / "scan.txt")) == len(kept)
    stamps = [line[0] for line in table(tmp_path / "tum/scan.txt")]
    assert stamps == [f"{n // 10**9}.{n % 10**9:09d}" for n in times(meta)[0][kept].tolist()]
    poses = opencv(demos(runs.output())["scan"][0])[kept]
    numbers = np.array(table(tmp_path / "kitti/scan.txt"), "f8").reshape(-1, 3, 4)
    assert np.abs(numbers - (np.linalg.inv(poses[0]) @ poses)[:, :3]).max() < 1e-6


def test_an_episode_without_any_pose_is_refused(runs, takeset, tmp_path):
    dataset = without_poses(runs.output(), tmp_path / "copy", "scan", range(20))
    for form in "tum", "kitti":
        done = export(takeset, dataset, form, tmp_path / form, check=65)
        assert "no row of scan has one" in done.stderr and not (tmp_path / form).exists()


# Refusals


@pytest.mark.parametrize("form", ["tum", "kitti"])
def test_takes_without_camera_poses_are_refused_by_name(others, takeset, tmp_path, form):
    done = export(takeset, others, form, tmp_path / "out", check=65)
    assert "pour" in done.stderr and "--episodes" in done.stderr and "good" not in done.stderr
    done = export(takeset, others, form, tmp_path / "out", "--episodes", "good,robot", check=65)
    assert "robot" in done.stderr and "axes" in done.stderr
    assert list(tmp_path.iterdir()) == []
    export(takeset, others, form, tmp_path / "out", "--episodes", "good")
    assert set(files(tmp_path / "out")) == {"good.txt", "takeset-export.json"}


@pytest.mark.parametrize("arguments, words", [
    (["--jobs", 0], ["--jobs", "1 to 1024"]),
    # As a variable that is empty would give them: no ids are not all episodes.
    *((["--episodes", ids], ["--episodes: name at least one"]) for ids in ("", ",", " , ")),
])
def test_mistakes_are_refused(runs, takeset, tmp_path, arguments, words):
    done = export(takeset, runs.output(), "tum", tmp_path / "out", *arguments, check=64)
    assert all(word in done.stderr for word in words), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_values_of_options_have_the_type_of_the_option(runs, takeset, tmp_path):
    """A text may look like a number; null turns an option off whose default that is."""
    export(takeset, runs.output(), "webdataset", tmp_path / "web", "--episodes", "scan", "--name", 5)
    assert [p.name for p in (tmp_path / "web").glob("*.tar")] == ["5-000000.tar"] and record(tmp_path / "web")["options"]["name"] == "5"
    export(takeset, runs.output(), "nerfstudio", tmp_path / "scene", "--episodes", "scan", "--points", "null")
    assert record(tmp_path / "scene")["options"]["points"] is None
    for arguments in ["--every", "null"], ["--image", 5], ["--points", "none"]:
        done = export(takeset, runs.output(), "nerfstudio", tmp_path / "out", *arguments, check=64)
        assert arguments[0] in done.stderr and "expected" in done.stderr


def test_a_shard_that_cannot_be_read_is_named(runs, takeset, tmp_path):
    shutil.copytree(runs.output(), tmp_path / "set")
    shard = tmp_path / "set/episodes/scan.h5"
    for content in shard.read_bytes()[:3000], b"", None:
        shard.unlink()
        if content is not None:
            shard.write_bytes(content)
        sentence = refuses(takeset, tmp_path / "set", "tum", tmp_path / "out")
        assert "the shard of scan cannot be read" in sentence and "takeset verify" in sentence
    export(takeset, tmp_path / "set", "tum", tmp_path / "out", "--episodes", "arkit,slam")


@pytest.mark.slow
@pytest.mark.parametrize("writer, form", [({}, "nerfstudio"), ({"image": "jpeg"}, "nerfstudio"), ({}, "zarr")])
def test_a_dataset_may_have_more_shards_than_files_may_be_open(takeset, tmp_path, writer, form):
    """Shards are open only while their images are read: 60 of them, and 40 files at once."""
    made = scan(times="time")
    for number in range(60):
        made.write(tmp_path / f"in/take-{number}")
    takeset.convert(tmp_path / "in", output=tmp_path / "set", arguments=steps_file(tmp_path, writer=writer))

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    export(takeset, tmp_path / "set", form, tmp_path / "out", "--jobs", 2, preexec_fn=few)
    assert len(record(tmp_path / "out")["episodes"]) == 60


def test_a_dataset_that_is_none_is_refused(takeset, tmp_path):
    (tmp_path / "empty").mkdir()
    done = export(takeset, tmp_path / "empty", "tum", tmp_path / "out", check=64)
    assert "not a Takeset dataset" in done.stderr and not (tmp_path / "out").exists()


# The output


def test_the_record_says_what_was_exported(runs, exported):
    dataset, output = exported("tum", "own axes")
    found, contents = record(output), files(output)
    del contents["takeset-export.json"]
    assert found["export_version"] == 1 and found["format"] == "tum" and found["options"] == {}
    assert found["source"] == {"record_sha256": manifest(dataset)["record_sha256"], "takes": len(POSED)}
    assert found["tool"]["name"] == "takeset" and set(found["tool"]) == {"name", "version", "revision"}
    assert [(e["id"], e["rows"]) for e in found["episodes"]] == [(take, len(demo["obs/pose"])) for take, (demo, _) in demos(dataset).items()]
    assert found["files"] == len(contents) == len(POSED) and found["bytes"] == sum(map(len, contents.values()))


def test_an_output_is_never_overwritten_unasked(runs, takeset, tmp_path):
    output = tmp_path / "out"
    export(takeset, runs.output(), "tum", output, "--episodes", "scan")
    before = files(output)
    assert "--replace" in export(takeset, runs.output(), "kitti", output, check=73).stderr
    assert files(output) == before
    export(takeset, runs.output(), "kitti", output, "--replace", "--episodes", "arkit")
    assert set(files(output)) == {"arkit.txt", "takeset-export.json"} and record(output)["format"] == "kitti"
    # What is no export stays, whatever is asked.
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("dear diary")
    (tmp_path / "file").write_text("mine too")
    for name in "mine", "file":
        for replace in [], ["--replace"]:
            export(takeset, runs.output(), "tum", tmp_path / name, *replace, check=73)
    assert files(tmp_path / "mine") == {"notes.txt": b"dear diary"} and (tmp_path / "file").read_text() == "mine too"
    assert {p.name for p in tmp_path.iterdir()} == {"out", "mine", "file"}


def test_a_refused_export_leaves_the_earlier_one(runs, others, takeset, tmp_path):
    output = tmp_path / "out"
    export(takeset, runs.output(), "tum", output, "--episodes", "scan")
    before = files(output)
    export(takeset, others, "tum", output, "--replace", check=65)
    assert files(output) == before and [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_summary_in_json(runs, takeset, tmp_path):
    done = export(takeset, runs.output(), "tum", tmp_path / "out", "--json")
    found = record(tmp_path / "out")
    assert json.loads(done.stdout) == {key: found[key] for key in ("format", "files", "bytes", "lost")}


# Read by evo


@pytest.mark.loaders
def test_evo_reads_both(exported):
    file_interface = pytest.importorskip("evo.tools.file_interface")
    for take in POSED:
        dataset, output = exported("tum", "own axes")
        demo, meta = demos(dataset)[take]
        found = file_interface.read_tum_trajectory_file(output / f"{take}.txt")
        assert np.abs(np.array(found.poses_se3) - opencv(demo)).max() < 1e-6
        assert np.abs(found.timestamps - times(meta)[0] / 1e9).max() < 1e-6 and found.check()[0]
        poses = opencv(demo)
        kitti = file_interface.read_kitti_poses_file(exported("kitti", "own axes")[1] / f"{take}.txt")
        assert np.abs(np.array(kitti.poses_se3) - np.linalg.inv(poses[0]) @ poses).max() < 1e-6 * max(1, np.abs(poses[:, :3, 3]).max())
