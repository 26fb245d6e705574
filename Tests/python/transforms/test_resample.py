"""`resample`: rows on a uniform grid, compared with exact fractions, NumPy and SciPy."""

import json

import numpy as np
import pytest
from conversions import converted
from outputs import check_digests, manifest
from phone_takes import absolute
from resample_oracle import START, TOLERANCE, Grid, accounts, around, images_are, nearest, poses_are, scipy_poses, steps, stream_is, uneven
from schemas import STATISTICS, layout, validator
from stack_sessions import UNEVEN
from videos import times, video_file

def resampled(takeset, root, found, *transforms, **options):
    """The entry, demo and meta of a take that is aligned and resampled, with other steps before that."""
    root.mkdir(exist_ok=True)
    found.write(root / "s")
    return converted(takeset, root / "s", steps(root, "align", *transforms, {"resample": options}))


@pytest.fixture(scope="module")
def case(takeset, tmp_path_factory):
    """An uneven take at one rate: the take, its grid, and what was written."""
    root, found = tmp_path_factory.mktemp("rate"), uneven()
    entry, demo, meta = resampled(takeset, root, found, rate=29.97)
    return found, Grid(found.times, "29.97"), entry, demo, meta, root


# Rows


def test_rows_are_the_ticks_of_the_grid(case):
    found, grid, _, demo, meta, _ = case
    assert grid.skipped > 0 and 10 < len(grid.ticks) < 200
    assert absolute(meta).tolist() == grid.ticks.tolist()
    stored = meta["timestamp_ns"]
    assert (stored[0], int(stored.attrs["origin_ns"]), stored.attrs["timeline"]) == (0, START, "resampled")
    assert demo.attrs["num_samples"] == len(grid.ticks) and all(len(data) == len(grid.ticks) for data in demo["obs"].values())
    assert meta["source_index"][:].tolist() == np.array(found.numbers)[grid.frame].tolist()
    assert check_digests(demo, meta) > 20


def test_poses_are_scipys(case):
    found, grid, _, demo, meta, _ = case
    poses_are(demo, *scipy_poses(found.times, found.poses, grid.ticks))
    numbers = np.array(found.numbers)
    stream_is(meta, "pose", numbers[grid.before], numbers[grid.after], grid.weight, 0 * grid.ticks)
    assert (grid.weight > 0).any()


def test_frames_and_rows_are_accounted_for(case):
    found, grid, entry, _, _, root = case
    step = accounts(entry)["resample"]
    assert (step["frames_in"], step["frames_out"]) == (len(found.times), len(grid.ticks))
    assert step["repeated"] == grid.repeated <= 20
    assert step["dropped"] == [{"reason": "resampled", "count": grid.dropped}] * (grid.dropped > 0)
    assert step["options"]["rate"] == float(grid.rate) and step["options"]["tolerance"] == 0.05 and step["options"]["phase"] == 0
    assert {"max-gap", "method"} <= set(step["options"])
    document = manifest(root / "out")
    validator("manifest.schema.json").validate(document)
    totals = document["record"]["totals"]
    assert (totals["frames_in"], totals["frames_out"]) == (len(found.times), len(grid.ticks))
    assert totals["frames_in"] + grid.repeated == totals["frames_out"] + totals["frames_dropped"]


def test_a_plan_and_verify_agree_with_the_run(case, takeset):
    _, grid, entry, _, _, root = case
    (planned,) = json.loads(takeset("plan", root / "s", "--json", "--pipeline", root / "p.yaml", check=0).stdout)["takes"]
    assert planned["frames"] == len(grid.ticks)
    assert layout(planned) == layout(entry["output"], without=STATISTICS)
    takeset("verify", root / "out", "--inputs", check=0)
    takeset("pack", root / "out", "--output", root / "packed.h5", check=0)
    takeset("verify", root / "packed.h5", check=0)


# Times that coincide


@pytest.mark.parametrize("settings", [dict(codec="h264"), dict(codec="hevc", b_frames=3)])
def test_a_video_is_resampled_too(takeset, tmp_path, settings):
    """Twice as many rows as frames, and a frame that was lost."""
    (tmp_path / "pour.mov").write_bytes(video_file(ticks=UNEVEN, **settings))
    _, demo, meta = converted(takeset, tmp_path / "pour.mov", steps(tmp_path, "align", {"resample": {"rate": 120}}))
    at = times(tmp_path / "pour.mov")
    grid = Grid(at, "120")
    assert meta["timestamp_ns"][:].tolist() == grid.ticks.tolist()
    frames = nearest(at, grid.ticks)
    assert meta["source_index"][:].tolist() == frames.tolist() and grid.repeated > 40
    images_are(demo, frames)
    assert around(at, grid.ticks)[0].tolist() != frames.tolist() and TOLERANCE >= np.diff(at).max()


# With other steps


def test_few_rows_are_a_short_episode_however_many_frames_there_were(takeset, tmp_path):
    uneven(60).write(tmp_path / "s")
    for name, rate, expected in ("few", 10, [9]), ("enough", 30, []), ("parts", 30, [9, 9, 7]):
        (tmp_path / name).mkdir()
        more = [{"split-episodes": {"at": 0.3}}, {"min-frames": {"count": 5}}] if name == "parts" else []
        takeset.convert(tmp_path / "s", output=tmp_path / name / "out", arguments=steps(tmp_path / name, "align", {"resample": {"rate": rate}}, *more))
        found = [f for entry in manifest(tmp_path / name / "out")["record"]["takes"] for f in entry["findings"] if f["code"] == "short-episode"]
        assert [int(f["message"].split()[0]) for f in found] == expected and all("rows" in f["message"] for f in found), name
    takeset("select", tmp_path / "few/out", "--where", "findings has short-episode", "--output", tmp_path / "short", check=0)
