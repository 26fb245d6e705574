"""`split-episodes`: one take becomes several episodes, which together are the take."""

import json

import h5py
import numpy as np
import pytest
from outputs import check_digests, demos, manifest
from phone_takes import absolute
from resample_oracle import LINEAR, MS, even, images_are, split, steps, take, uneven
from run_outputs import outputs
from schemas import STATISTICS, layout, validator
from scipy.spatial.transform import Rotation
from stack_sessions import UNEVEN
from videos import times, video_file

def at_gaps(found):
    """The rows of each part: nothing is longer than one and a half periods of 60 Hz."""
    return np.split(np.arange(len(found.times)), np.flatnonzero(np.diff(found.times) > 25 * MS + 1) + 1)


def at_seconds(found, length):
    part = (np.array(found.times) - found.times[0]) // length
    return [np.flatnonzero(part == k) for k in range(part[-1] + 1)]


CASES = {"gaps": ("gaps", at_gaps), "0.4": (0.4, lambda found: at_seconds(found, 400 * MS))}


class Case:
    """A take that was split, and converted whole."""

    def __init__(self, takeset, root, at, rows):
        self.take, self.root, self.output = uneven(), root, root / "out"
        self.rows = rows(self.take)
        self.take.write(root / "t")
        split(takeset, root / "t", self.output, at, "actions", "split")
        takeset.convert(root / "t", output=root / "whole", arguments=steps(root, LINEAR, "actions", name="whole.yaml"))
        self.record = manifest(self.output)["record"]
        self.ids = [f"t.{part}" for part in range(len(self.rows))]
        self.demos, ((self.whole, self.every),) = demos(self.output), demos(root / "whole").values()
        self.parts = [(rows, *self.demos[name]) for name, rows in zip(self.ids, self.rows)] if set(self.ids) == set(self.demos) else []


@pytest.fixture(scope="module", params=CASES)
def case(request, takeset, tmp_path_factory):
    return Case(takeset, tmp_path_factory.mktemp("split"), *CASES[request.param])


# Parts


def test_each_part_is_an_entry_and_a_shard(case):
    """In the order of their numbers, 10 after 9; a single one is .0."""
    assert all(len(rows) > 0 for rows in case.rows)
    validator("manifest.schema.json").validate(manifest(case.output))
    entries = case.record["takes"]
    assert [(e["id"], e["take"], e["part"], e["outcome"]) for e in entries] == [(name, "t", k, "written") for k, name in enumerate(case.ids)]
    assert {path.name for path in (case.output / "episodes").iterdir()} == {f"{name}.h5" for name in case.ids}
    assert [e["output"]["samples"] for e in entries] == [len(rows) for rows in case.rows]
    with h5py.File(case.output / "dataset.h5") as file:
        assert [file[f"data/demo_{k:06d}"].attrs["take_id"] for k in range(len(case.ids))] == case.ids
        assert len(file["data"]) == len(file["meta"]) == len(case.ids) and file["data"].attrs["total"] == len(case.take.times)
    for name, rows in zip(case.ids, case.rows):
        with h5py.File(case.output / f"episodes/{name}.h5") as file:
            assert list(file["data"]) == ["demo_0"] and file["data/demo_0"].attrs["num_samples"] == len(rows)


def test_the_rows_of_all_parts_are_those_of_the_take(case):
    assert case.parts
    for name, data in case.whole["obs"].items():
        joined = np.concatenate([demo[f"obs/{name}"][:] for _, demo, _ in case.parts])
        if name == "pose":  # each part begins with qw of 0 or more
            joined[:, 3:] *= np.sign((joined[:, 3:] * data[:, 3:]).sum(1, keepdims=True))
            assert all(demo["obs/pose"][0, 6] >= 0 for _, demo, _ in case.parts)
        assert np.array_equal(joined, data[:], equal_nan=data.dtype.kind == "f"), name
    for stream in case.every["streams"]:
        for name, data in case.every[f"streams/{stream}"].items():
            assert np.array_equal(np.concatenate([meta[f"streams/{stream}/{name}"][:] for *_, meta in case.parts]), data[:]), (stream, name)
    for name in "source_index", "quality":
        assert np.array_equal(np.concatenate([meta[name][:] for *_, meta in case.parts]), case.every[name][:]), name


def test_times_begin_with_each_part_and_are_those_of_the_take(case):
    for rows, _, meta in case.parts:
        assert meta["timestamp_ns"][0] == 0 and absolute(meta).tolist() == [case.take.times[row] for row in rows]
        assert meta["timestamp_ns"].attrs["clock"] == case.every["timestamp_ns"].attrs["clock"]
        found = [[row - rows[0], step] for row, step in case.every["gaps"][:].tolist() if rows[0] <= row < rows[-1]]
        assert meta["gaps"][:].tolist() == found


def test_a_plan_verify_and_pack_agree(case, takeset):
    for _, demo, meta in case.parts:
        assert check_digests(demo, meta) > 20
    pipeline = ["--pipeline", case.root / "out.yaml"]
    planned = json.loads(takeset("plan", case.root / "t", "--json", *pipeline, check=0).stdout)["takes"]
    assert [one["id"] for one in planned] == case.ids
    for one, entry in zip(planned, case.record["takes"]):
        assert one["frames"] == entry["output"]["samples"] and layout(one) == layout(entry["output"], without=STATISTICS)
    takeset("inspect", case.root / "t", *pipeline, check=0)
    takeset("verify", case.output, "--inputs", check=0)
    takeset("verify", case.output / f"episodes/{case.ids[-1]}.h5", check=0)
    takeset("pack", case.output, "--output", case.root / "packed.h5", check=0)
    takeset("verify", case.root / "packed.h5", check=0)
    with h5py.File(case.root / "packed.h5") as file:
        assert [file[f"data/demo_{k:06d}"].attrs["take_id"] for k in range(len(case.ids))] == case.ids


# Pauses


def test_a_long_rest_splits_a_take(takeset, tmp_path):
    """A camera that moves for a second, rests, moves, and so on: one motion in each part, and no row lost without a count."""
    moving = np.concatenate([np.ones(60), *[np.concatenate([np.zeros(round(60 * pause)), np.ones(60)]) for pause in (1.5, 0.5, 1.5)]])
    poses = np.tile(np.eye(4), (len(moving), 1, 1))
    poses[:, 0, 3] = np.cumsum(moving) / 120
    poses[:, :3, :3] = Rotation.from_rotvec(np.outer(np.cumsum(moving) / 60, [0, 0.5, 0])).as_matrix()
    take(even(len(moving)), poses=poses, alike=True, size=(32, 24)).write(tmp_path / "t")
    starts = np.flatnonzero(np.diff(moving, prepend=0) == 1)
    for name, options, motions in ("long", {}, [[0], [1, 2], [3]]), ("all", {"pause": 0.4}, [[0], [1], [2], [3]]):
        split(takeset, tmp_path / "t", tmp_path / name, "pauses", **options)
        parts = [meta["source_index"][:].tolist() for _, meta in demos(tmp_path / name).values()]
        inside = [[k for k, start in enumerate(starts) if set(range(start + 3, start + 57)) <= set(rows)] for rows in parts]
        assert inside == motions and all(rows == list(range(rows[0], rows[-1] + 1)) for rows in parts)
        totals = manifest(tmp_path / name)["record"]["totals"]
        assert totals["frames_out"] == sum(map(len, parts)) == totals["frames_in"] - totals["frames_dropped"]


# Other steps


def test_a_take_is_not_split_twice(takeset, tmp_path):
    uneven().write(tmp_path / "t")
    arguments = steps(tmp_path, LINEAR, {"split-episodes": {"at": "gaps"}}, {"split-episodes": {"at": 0.2}})
    done = takeset("run", tmp_path / "t", "--output", tmp_path / "out", *arguments, check=64)
    assert "split-episodes: a pipeline can have this step once" in done.stderr and not (tmp_path / "out").exists()


def test_a_row_before_a_jump_is_dropped_in_any_order(takeset, tmp_path):
    """`last: drop` before the step drops what it drops behind it: the last row before the jump, and the last of all."""
    takeset.simulate(tmp_path / "t", "--variant", "v2", "--seconds", 1, "--size", "64x48", "--quirk", "pose-jump")
    drop = {"actions": {"last": "drop"}}
    split(takeset, tmp_path / "t", tmp_path / "after", "jumps", drop)
    split(takeset, tmp_path / "t", tmp_path / "before", "jumps", before=[drop])
    after, before = demos(tmp_path / "after"), demos(tmp_path / "before")
    assert sorted(after) == sorted(before) and len(after) > 1
    for name in after:
        assert np.array_equal(after[name][0]["actions"][:], before[name][0]["actions"][:]), name
        assert after[name][0]["actions_valid"][:].all(), name


JUMP = 30


@pytest.fixture(scope="module")
def jumped(takeset, tmp_path_factory):
    """A session in which tracking jumps by 1 m before frame 30."""
    path = takeset.simulate(tmp_path_factory.mktemp("jump") / "t", "--variant", "v2", "--seconds", 1, "--size", "64x48")
    poses = json.loads((path / "poses.json").read_text())
    for pose in poses[JUMP:]:
        pose["transform"][0][3] += 1
    (path / "poses.json").write_text(json.dumps(poses))
    return path


@pytest.mark.parametrize("rate, phase", [(60, 0.005), (30, 0.003), (25, 0.011)])
def test_nothing_is_interpolated_across_a_jump(takeset, jumped, tmp_path, rate, phase):
    takeset.convert(jumped, output=tmp_path / "out", arguments=steps(
        tmp_path, "align", {"resample": {"rate": rate, "phase": phase}}, {"split-episodes": {"at": "jumps"}}, "actions"))
    episodes = demos(tmp_path / "out")
    assert sorted(episodes) == ["t.0", "t.1"]
    for demo, _ in episodes.values():
        assert np.abs(np.diff(demo["obs/pose"][:, :3], axis=0)).max() < 0.1 and not demo["actions_valid"][-1] and demo["actions_valid"][:-1].all()


@pytest.mark.parametrize("at", ["gaps", 0.2])
def test_a_video_is_split_too(takeset, tmp_path, at):
    (tmp_path / "pour.mov").write_bytes(video_file(ticks=UNEVEN, codec="hevc", b_frames=3))
    for jobs in 1, 4:
        split(takeset, tmp_path / "pour.mov", tmp_path / f"out{jobs}", at, arguments=["--jobs", jobs])
    when = np.array(times(tmp_path / "pour.mov"))
    part = (np.arange(40) >= 18) * 1 if at == "gaps" else when // (200 * MS)
    written = demos(tmp_path / "out1")
    assert sorted(written) == [f"pour.{k}" for k in range(part[-1] + 1)]
    for k in range(part[-1] + 1):
        demo, meta = written[f"pour.{k}"]
        rows = np.flatnonzero(part == k)
        images_are(demo, rows)
        assert meta["source_index"][:].tolist() == rows.tolist() and meta["timestamp_ns"][:].tolist() == (when[rows] - when[rows[0]]).tolist()
    assert outputs(tmp_path / "out1") == outputs(tmp_path / "out4")
