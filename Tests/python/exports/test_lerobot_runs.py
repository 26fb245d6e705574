"""Exports for LeRobot: which rows become episodes, which datasets are refused, output directories, files that are full, the command."""

import io
import json
import re
import shutil
import signal
import subprocess
import sys

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import takeset
from command import measured
from lerobot_datasets import ACTIONS, FPS, NAMES, ROOT, STEPS, Export, command, dataset, edited, export, pixels, recordings
from outputs import demos, manifest
from PIL import Image

SMALL = ["--size", "64x48", "--rate", FPS]


@pytest.fixture(scope="module")
def root(takeset, tmp_path_factory):
    return recordings(takeset, tmp_path_factory.mktemp("lerobot-runs"), "64x48", "16x12", 1.5, 0.7)


@pytest.fixture(scope="module")
def sessions(takeset, root):
    return dataset(takeset, root, *STEPS, *ACTIONS)


@pytest.fixture
def copied(sessions, tmp_path):
    """The dataset, to be changed."""
    return shutil.copytree(sessions, tmp_path / "dataset")


def refusal(source, output, *arguments, code=65):
    """The sentence of a refused export, which leaves nothing behind."""
    before = sorted(output.parent.iterdir())
    done = export(source, output, *arguments, check=code)
    assert sorted(output.parent.iterdir()) == before and done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("takeset.lerobot: ")]
    return line


# Rows


@pytest.mark.slow
def test_rows_that_lack_something_end_an_episode(copied, tmp_path):
    """Rows 5 and 6 without an action, row 8 without an image, row 20 without a pose, row 30 without depth."""

    def change(demo, meta):
        demo["actions_valid"][5:7] = 0
        demo["actions"][5:7] = 0
        meta["streams/camera_image/valid"][8] = 0
        demo["obs/pose"][20] = np.nan
        meta["streams/pose/valid"][20] = 0
        meta["streams/camera_depth/valid"][30] = 0

    edited(copied, NAMES[0], change)
    done = export(copied, tmp_path / "out", "--keys", "pose,camera_image,camera_depth,actions")
    found = Export(tmp_path / "out")
    ((demo, _), (other, _)) = (demos(copied)[name] for name in NAMES[:2])
    # Row 7 is alone.
    runs = [(0, 5), (9, 20), (21, len(demo["actions"]))]
    assert [(row["takeset/first_row"], row["takeset/end_row"]) for row in found.episodes] == [*runs, (0, len(other["actions"]))]
    for number, (first, end) in enumerate(runs):
        assert np.array_equal(found.column("action", number), demo["actions"][first:end])
        assert np.array_equal(found.column("observation.state", number), demo["obs/pose"][first:end])
        assert found.images("observation.images.camera", number)[0] == [row.tobytes() for row in demo["obs/camera_image"][first:end]]
        assert np.array_equal(found.column("timestamp", number).astype("f4"), (np.arange(end - first) / FPS).astype("f4"))
    entry = found.record["episodes"][0]
    assert entry["dropped"] == {"actions": 2, "camera_image": 1, "pose": 1, "too-short": 1}
    assert entry["exported"] == [{"episode_index": i, "first_row": first, "end_row": end} for i, (first, end) in enumerate(runs)]
    assert entry["rows"] == len(demo["actions"]) and "2 rows without actions; such rows end an episode" in found.record["lost"]
    assert "rows left out: 1 without pose, 1 without camera_image, 2 without actions, 1 in runs that are too short" in done.stderr
    export(copied, tmp_path / "long", "--keys", "pose,camera_image,camera_depth,actions", "--min-frames", 6)
    assert [row["takeset/first_row"] for row in Export(tmp_path / "long").episodes] == [9, 21, 0]
    export(copied, tmp_path / "poses", "--keys", "pose")
    assert [row["takeset/first_row"] for row in Export(tmp_path / "poses").episodes] == [0, 21, 0]


def test_gaps_end_an_episode(takeset, root, tmp_path):
    take = root / "gaps/session_2026-03-07_100000"
    takeset.simulate(take, *SMALL, "--depth-size", "16x12", "--seconds", 1.5)
    for number in range(15, 20):
        (take / f"rgb/{number:06d}.jpg").unlink()
    whole = dataset(takeset, root, *STEPS[:1], *STEPS[2:], name="whole", takes="gaps")
    ((_, meta),) = demos(whole).values()
    ((before, _),) = meta["gaps"][:]
    export(whole, tmp_path / "out")
    found = Export(tmp_path / "out")
    runs = [(0, before + 1), (before + 1, len(meta["timestamp_ns"]))]
    assert [(row["takeset/first_row"], row["takeset/end_row"]) for row in found.episodes] == runs
    for number, row in enumerate(found.episodes):
        assert np.array_equal(found.column("timestamp", number).astype("f4"), (np.arange(row["length"]) / FPS).astype("f4"))
    assert np.array_equal(found.column("source_timestamp_ns"), meta["timestamp_ns"][:] + meta["timestamp_ns"].attrs["unix_origin_ns"])


def test_an_episode_without_a_complete_row_is_named(copied, tmp_path):
    def change(demo, meta):
        meta["streams/camera_image/valid"][:] = 0

    edited(copied, NAMES[0], change)
    export(copied, tmp_path / "out")
    found = Export(tmp_path / "out")
    assert [row["takeset/episode_id"] for row in found.episodes] == [NAMES[1]]
    entry, rows = found.record["episodes"][0], len(demos(copied)[NAMES[0]][0]["actions"])
    assert entry["exported"] == [] and entry["dropped"] == {"camera_image": rows}
    edited(copied, NAMES[1], change)
    assert f"{NAMES[0]}: {rows} without camera_image" in refusal(copied, tmp_path / "none")


# Rate


def test_rows_off_the_grid_are_refused(takeset, root, tmp_path):
    source = dataset(takeset, root, *STEPS[2:], *ACTIONS, name="frames")
    with h5py.File(source / f"episodes/{NAMES[0].removesuffix('.0')}.h5", "r+") as file:
        times = file["meta/demo_0/timestamp_ns"]
        times[...] = np.round(np.arange(len(times)) / FPS * 1e9).astype("i8")
        times[7] += 4_000_000
    sentence = refusal(source, tmp_path / "out", "--episodes", NAMES[0].removesuffix(".0"))
    assert "at 30 fps rows of 1 of 1 episodes are more than 3.33 ms off: session_2026-03-01_100000 (30 Hz, up to 4 ms off)" in sentence
    assert "resample: {rate: 30}" in sentence and "split-episodes: {at: gaps}" in sentence and "--fps" not in sentence
    export(source, tmp_path / "out", "--episodes", NAMES[0].removesuffix(".0"), "--tolerance", 0.0041)
    refusal(source, tmp_path / "less", "--episodes", NAMES[0].removesuffix(".0"), "--tolerance", 0.0039)


def test_another_rate_is_refused_and_named(takeset, root, sessions, tmp_path):
    fast = dataset(takeset, root, {"resample": {"rate": 60}}, *STEPS[1:], *ACTIONS, name="fast")
    sentence = refusal(fast, tmp_path / "out", "--fps", 30)
    assert f"{NAMES[0]} (60 Hz, up to " in sentence and sentence.endswith("or export with --fps 60")
    export(fast, tmp_path / "out", "--fps", 60)
    found = Export(tmp_path / "out")
    assert found.info["fps"] == 60 and found.rows[3]["timestamp"] == np.float32(3 / 60)
    for fps in ("29.97", "0", "nan", "2000"):
        assert "--fps: LeRobot needs a whole number" in refusal(sessions, tmp_path / "none", "--fps", fps, code=64)


# Keys, sizes, meanings


def test_keys_that_some_takes_lack_are_refused_by_name(takeset, root, tmp_path):
    takeset.simulate(root / "mixed/glove", *SMALL, "--variant", "v2", "--seconds", 0.5)
    takeset.simulate(root / "mixed/room", *SMALL, "--depth-size", "16x12", "--seconds", 0.5)
    source = dataset(takeset, root, *STEPS, *ACTIONS, name="mixture", takes="mixed")
    sentence = refusal(source, tmp_path / "out")
    assert all(part in sentence for part in ("joints in room.0", "depth_point in room.0", "camera_depth in glove.0"))
    (names,) = re.findall("--drop-keys ([a-z_,]+), or", sentence)
    assert set(names.split(",")) == {"joints", "depth_point", "camera_depth"}
    export(source, tmp_path / "out", "--drop-keys", names)
    assert [row["takeset/episode_id"] for row in Export(tmp_path / "out").episodes] == ["glove.0", "room.0"]
    # What no exported episode has may be left out, too; what no episode has is a mistake.
    export(source, tmp_path / "one", "--drop-keys", "joints", "--episodes", "room")
    assert "joint; there are" in refusal(source, tmp_path / "two", "--drop-keys", "joint", code=64)
    assert "no episode take-9" in refusal(source, tmp_path / "two", "--episodes", "room,take-9", code=64)
    assert "has no split later" in refusal(source, tmp_path / "two", "--split", "later", code=64)


@pytest.mark.parametrize("key, attribute, value, words", [
    ("camera_depth", "unit", "arbitrary", "camera_depth has 2: 16x12 in arbitrary in {0}; 16x12 in mm in {1}; give the pipeline a step"),
    ("pose", "camera_axes", "x right, y down, z forward", "pose has 2: 7 numbers, m, camera_to_world, x right, y down, z forward in {0}"),
    ("pose", "unit", "arbitrary", "pose has 2: 7 numbers, arbitrary, camera_to_world, x right, y up, z back in {0}"),
    ("actions", "parts", "other:9", "actions has 2: other:9, m, 1, x right, y up, z back in {0}; relative_position:3 relative_rotation_6d:6, m, 1, x right, y up, z back in {1}"),
])  # fmt: skip
def test_meanings_that_differ_are_refused_by_name(copied, tmp_path, key, attribute, value, words):
    edited(copied, NAMES[0], lambda demo, meta: demo["actions" if key == "actions" else f"obs/{key}"].attrs.modify(attribute, value))
    sentence = refusal(copied, tmp_path / "out")
    assert words.format(*NAMES) in sentence and f"--drop-keys {key}" in sentence


def test_a_claimed_unit_is_the_same_unit(copied, tmp_path):
    edited(copied, NAMES[0], lambda demo, meta: demo["obs/pose"].attrs.modify("unit", "m (claimed)"))
    export(copied, tmp_path / "out")


def test_sizes_that_differ_are_refused_by_name(takeset, root, tmp_path):
    takeset.simulate(root / "sizes/a", *SMALL, "--depth-size", "16x12", "--seconds", 0.5)
    takeset.simulate(root / "sizes/b", "--size", "96x72", "--rate", FPS, "--depth-size", "16x12", "--seconds", 0.5)
    source = dataset(takeset, root, *STEPS, *ACTIONS, name="sizes-out", takes="sizes")
    sentence = refusal(source, tmp_path / "out")
    assert "camera_image has 2: 64x48 in a.0; 96x72 in b.0; give the pipeline a step such as resize-image: {width: 640" in sentence


# Images that LeRobot would show differently


def test_turned_and_gray_jpeg_files_become_png_files(copied, tmp_path):
    def image(mode, orientation=None):
        picture = Image.fromarray(np.random.default_rng(1).integers(0, 255, (48, 64, 3), "u1")).convert(mode)
        exif, buffer = Image.Exif(), io.BytesIO()
        if orientation is not None:
            exif[0x0112] = orientation
        picture.save(buffer, "JPEG", exif=exif)
        return buffer.getvalue()

    stored = {1: image("L"), 2: image("RGB", 6), 3: image("RGB", 1)}

    def change(demo, meta):
        for row, data in stored.items():
            demo["obs/camera_image"][row] = np.frombuffer(data, "u1")

    edited(copied, NAMES[0], change)
    export(copied, tmp_path / "out")
    found = Export(tmp_path / "out")
    files, paths = found.images("observation.images.camera", 0)
    assert [path.rpartition(".")[2] for path in paths[:5]] == ["jpg", "png", "png", "jpg", "jpg"] and files[3] == stored[3]
    for row in 1, 2:
        with Image.open(io.BytesIO(stored[row])) as picture:
            assert np.array_equal(pixels(files[row]), np.array(picture.convert("RGB")))
    assert "images: 2 JPEG files, turned by EXIF or without color, became PNG files of the same pixels" in found.record["lost"]


# Files that are full


def test_an_episode_that_does_not_fit_begins_a_file(sessions, tmp_path):
    from takeset.lerobot import export as export_here

    summary = export_here(sessions, tmp_path / "out", data_file_mb=0.05, files_per_chunk=1)
    found = Export(tmp_path / "out")
    names = [file.relative_to(found.path).as_posix() for file in found.files]
    assert names == ["data/chunk-000/file-000.parquet", "data/chunk-001/file-000.parquet"]
    assert [(row["data/chunk_index"], row["data/file_index"]) for row in found.episodes] == [(0, 0), (1, 0)]
    assert found.info["chunks_size"] == 1 and found.info["data_files_size_in_mb"] == 0.05
    # The second episode has half as many rows, so it takes half as much.
    limit = 1.2 * found.files[0].stat().st_size / (1 << 20)
    export_here(sessions, tmp_path / "foreseen", data_file_mb=limit)
    assert len(Export(tmp_path / "foreseen").files) == 2
    export_here(sessions, tmp_path / "together", data_file_mb=2 * limit)
    assert len(Export(tmp_path / "together").files) == 1
    assert (summary.episodes, summary.frames) == (2, len(found.rows)) and np.array_equal(found.column("index"), np.arange(len(found.rows)))


def test_a_long_episode_is_written_in_pieces(sessions, tmp_path, monkeypatch):
    from takeset.lerobot import _columns, _parquet
    from takeset.lerobot import export as export_here

    export_here(sessions, tmp_path / "whole")
    monkeypatch.setattr(_columns, "_PIECE_BYTES", 20_000)
    monkeypatch.setattr(_parquet, "_ROW_GROUP_BYTES", 10_000)
    export_here(sessions, tmp_path / "pieces")
    whole, pieces = Export(tmp_path / "whole"), Export(tmp_path / "pieces")
    groups = {name: pq.read_metadata(one.files[0]).num_row_groups for name, one in (("whole", whole), ("pieces", pieces))}
    assert groups["whole"] == 2 and groups["pieces"] > 5, groups
    assert pieces.rows == whole.rows and pieces.episodes == whole.episodes and pieces.stats == whole.stats


@pytest.mark.slow
def test_memory_does_not_grow_with_the_dataset(takeset, root, tmp_path):
    """Pixels of 80 and 200 MB, with as many jobs that have one each."""
    take = takeset.simulate(root / "large/0", "--size", "320x240", "--depth-size", "16x12", "--rate", FPS, "--seconds", 6)
    text = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); from takeset.lerobot.__main__ import main; sys.exit(main())"
    peaks = []
    for count in 2, 5:
        for number in range(max(1, count - 3), count):
            shutil.copytree(take, root / f"large/{number}")
        source = dataset(takeset, root, *STEPS, *ACTIONS, image="raw", name=f"large{count}", takes="large")
        code, peak, _ = measured(sys.executable, "-c", text, source, tmp_path / f"out{count}", "--jobs", 2)
        assert code == 0 and Export(tmp_path / f"out{count}").info["total_episodes"] == count
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 60e6, peaks


# Output


def test_an_existing_output_is_left_alone(sessions, tmp_path):
    output = tmp_path / "out"
    export(sessions, output, "--task", "one")
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert "already exists" in refusal(sessions, output, "--task", "two", code=73)
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before
    export(sessions, output, "--task", "two", "--replace", "--episodes", NAMES[0])
    assert Export(output).record["options"]["task"] == "two" and Export(output).info["total_episodes"] == 1
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    assert "not an export of Takeset" in refusal(sessions, other, "--replace", code=73)
    assert [path.name for path in other.iterdir()] == ["notes.txt"] and sorted(p.name for p in tmp_path.iterdir()) == ["other", "out"]


def test_a_refused_replacement_keeps_the_old_one(sessions, tmp_path):
    export(sessions, tmp_path / "out")
    before = (tmp_path / "out/takeset-export.json").read_bytes()
    refusal(sessions, tmp_path / "out", "--replace", "--fps", 25)
    assert (tmp_path / "out/takeset-export.json").read_bytes() == before


def test_the_output_is_not_in_the_dataset(copied, tmp_path):
    for output in copied / "lerobot", copied, tmp_path:
        assert "inside one another" in refusal(copied, output, code=64)


def test_the_same_dataset_gives_the_same_files(sessions, tmp_path):
    for name in "a", "b":
        export(sessions, tmp_path / name, "--jobs", 1 if name == "a" else 3)
    a, b = ({p.relative_to(tmp_path / n).as_posix(): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()} for n in ("a", "b"))
    assert a == b and len(a) == 6


def test_the_record_says_what_was_exported(sessions, tmp_path):
    done = export(sessions, tmp_path / "out", "--drop-keys", "camera_depth")
    record = Export(tmp_path / "out").record
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name != "takeset-export.json"]
    assert (record["export_version"], record["format"], record["files"]) == (1, "lerobot", len(files))
    assert record["bytes"] == sum(path.stat().st_size for path in files)
    assert record["source"] == {"record_sha256": manifest(sessions)["record_sha256"], "takes": 2}
    assert record["tool"] == {"name": "takeset.lerobot", "version": takeset.__version__, "revision": ""}
    assert record["options"]["drop_keys"] == ["camera_depth"] and record["options"]["fps"] == FPS
    assert record["features"]["observation.state"] == {"keys": ["pose"], "unit": ["m"], "camera_axes": "x right, y up, z back"}
    assert "camera_depth: left out by --keys or --drop-keys" in record["lost"]
    assert [line.removeprefix("not in the export: ") for line in done.stderr.splitlines() if line.startswith("not in")] == record["lost"]
    assert done.stdout.startswith(f"{tmp_path / 'out'}: 2 episodes; train 0 to 1; ") and done.stdout.count("\n") == 1


def test_json_and_quiet(sessions, tmp_path):
    done = export(sessions, tmp_path / "a", "--json", "--quiet")
    summary = json.loads(done.stdout)
    assert done.stderr == "" and summary["path"] == str(tmp_path / "a")
    assert (summary["episodes"], summary["splits"]) == (2, {"train": [0, 2]})
    done = export(sessions, tmp_path / "b", "--quiet")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("arguments, words", [
    (["--images", "gif"], "invalid choice: 'gif'"), (["--quality", "0"], "--quality: expected 1 to 100"),
    (["--codec", "av1"], "only --images video"), (["--tolerance", "0.02"], "less than half a row"),
    (["--min-frames", "0"], "--min-frames: expected at least 1"),
    (["--task", "a", "--tasks", "b.json"], "exclude each other"), (["--tasks", "missing.json"], "missing.json cannot be read"),
    (["--keys", "pose,nothing"], "no episode has nothing"), (["--state", "camera_image"], "observation.state holds vectors"),
    (["--state", "pose,poze"], "no episode has poze; there are"), (["--state", "poze"], "did you mean pose?"),
    (["--episodes", ""], "argument --episodes: expected names"), (["--keys", "pose,,joints"], "argument --keys: expected names"),
    (["--data-file-mb", "0"], "--data-file-mb: expected a finite number above 0"), (["--video-file-mb", "inf"], "--video-file-mb: expected a"),
    (["--jobs", "-1"], "--jobs: expected at least 1"),
])  # fmt: skip
def test_mistakes_are_named(sessions, tmp_path, arguments, words):
    done = export(sessions, tmp_path / "out", *arguments, check=64)
    assert words in done.stderr and not any(tmp_path.iterdir())


def test_what_is_no_dataset_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    assert str(tmp_path / "in") in export(tmp_path / "in", tmp_path / "out", check=64).stderr
    assert "missing does not exist" in export(tmp_path / "missing", tmp_path / "out", check=1).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_export_leaves_nothing_but_a_sentence(sessions, tmp_path, number, code):
    """Also where a killed one left a rest."""
    (tmp_path / ".out.partial").mkdir()
    (tmp_path / ".out.partial/rest").write_text("of a killed export")
    text = f"""if True:
        import os, sys
        from takeset.lerobot import __main__ as command
        def interrupted(line):
            if line.startswith("[1/"):
                os.kill(os.getpid(), {int(number)})
        command._say = interrupted
        sys.exit(command.main(sys.argv[1:]))"""
    environment = {"PATH": "", "PYTHONPATH": str(ROOT / "python")}
    # Where the tests run in the background, their shell may have had interrupts ignored.
    done = subprocess.run(
        [sys.executable, "-c", text, sessions, tmp_path / "out"], capture_output=True, text=True, env=environment, timeout=300,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert (done.returncode, done.stderr) == (code, "takeset.lerobot: interrupted; no unfinished output is left\n")
    assert not list(tmp_path.iterdir())


def test_an_export_that_cannot_be_written_ends_with_1(sessions):
    assert "cannot write /proc/none/out" in export(sessions, "/proc/none/out", check=1).stderr


@pytest.mark.slow
def test_the_command_runs(sessions, tmp_path):
    done = command(sessions, tmp_path / "out", "--task", "pour")
    assert done.returncode == 0 and done.stdout.startswith(str(tmp_path / "out"))
    assert Export(tmp_path / "out").record["options"]["task"] == "pour"
    assert command(sessions, tmp_path / "out").returncode == 73 and command(sessions).returncode == 64
    assert "--drop-keys" in command("--help").stdout
