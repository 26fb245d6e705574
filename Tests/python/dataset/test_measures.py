"""Measures of episodes, against SciPy and NumPy over the stored arrays; and the ways in which people read them."""

import csv
import io
import json

import numpy as np
import pytest
from outputs import demos, manifest
from PIL import Image
from scipy import ndimage
from scipy.spatial.transform import Rotation
from sealing import rewrite

import takeset as package

NAMES = [
    "seconds", "rows", "rate_hz", "path_m", "speed_mean_m_s", "speed_p99_m_s", "turn_p99_deg_s", "still_fraction", "pose_jumps",
    "image_missing_fraction", "sharpness_p10", "brightness_mean", "overexposed_fraction", "depth_valid_fraction", "joints_valid_fraction",
    "image_pose_lag_ms", "image_pose_lag_r",
]  # fmt: skip


def recorded(dataset):
    return {take["id"]: take["measures"] for take in manifest(dataset)["record"]["takes"] if take["output"]}


def pixels(stored):
    return stored if stored.ndim == 3 else np.asarray(Image.open(io.BytesIO(bytes(stored))))


def of_images(images, valid):
    """By SciPy: sharpness, brightness and overexposed pixels of the rows that are measured."""
    first = pixels(images[int(np.flatnonzero(valid)[0])])
    every = max(1, min(-(-first.shape[0] * first.shape[1] // 8192), len(images) // 16))
    found = []
    for row in range(0, len(images), every):
        if not valid[row]:
            continue
        image = pixels(images[row]).astype(np.int64)
        luma = (image @ [299, 587, 114] + 500) // 1000
        edges = ndimage.correlate(luma, [[0, 1, 0], [1, -4, 1], [0, 1, 0]], mode="mirror")
        found.append((edges.var(), luma.mean(), (image >= 250).all(axis=2).mean()))
    sharpness, brightness, overexposed = np.transpose(found)
    return {
        "sharpness_p10": np.percentile(sharpness, 10), "brightness_mean": brightness.mean(), "overexposed_fraction": overexposed.mean(),
    }  # fmt: skip


def of_motion(poses, times, is_metric):
    known = np.isfinite(poses).all(axis=1)
    rotations = Rotation.from_quat(np.where(known[:, None], poses[:, 3:], [0, 0, 0, 1]))

    def motion(first, later):
        seconds = (times[later] - times[first]) / 1e9
        return np.linalg.norm(poses[later, :3] - poses[first, :3], axis=1), np.degrees((rotations[first].inv() * rotations[later]).magnitude()), seconds

    first = np.flatnonzero(known[:-1] & known[1:])
    meters, degrees, seconds = motion(first, first + 1)
    found = {"turn_p99_deg_s": np.percentile(degrees / seconds, 99)}
    if is_metric:
        found |= {
            "path_m": meters.sum(), "speed_mean_m_s": meters.sum() / seconds.sum(), "speed_p99_m_s": np.percentile(meters / seconds, 99),
        }  # fmt: skip
        later = np.searchsorted(times / 1e9, times / 1e9 + 0.2 - 1e-12)
        first = np.array([row for row in range(len(times)) if later[row] < len(times) and known[row] and known[later[row]]], dtype=int)
        if len(first):
            meters, degrees, seconds = motion(first, later[first])
            found["still_fraction"] = ((meters / seconds < 0.02) & (degrees / seconds < 3)).mean()
    return found


def rate(times):
    """The nominal rate, or else the slope of the number of periods since the first row over the time."""
    if "nominal_rate_hz" in times.attrs:
        return float(times.attrs["nominal_rate_hz"])
    steps = np.diff(times[:])
    period = steps[steps < 1.75 * np.median(steps)].mean()
    return 1e9 / np.polyfit(np.rint((times[:] - times[0]) / period), times[:].astype(float), 1)[0]


def expected(demo, meta):
    """All measures, from the arrays of an episode."""
    times, obs = meta["timestamp_ns"][:], demo["obs"]
    found = dict.fromkeys(NAMES) | {"rows": len(times), "seconds": (times[-1] - times[0]) / 1e9, "rate_hz": rate(meta["timestamp_ns"])}
    kinds = {}
    for name in sorted(obs, reverse=True):
        kinds[obs[name].attrs.get("kind")] = name
    if name := kinds.get("pose"):
        found |= of_motion(obs[name][:].astype(float), times, obs[name].attrs["unit"] != "arbitrary")
        found["pose_jumps"] = int((meta["quality"][:] & 2).astype(bool).sum())
    if name := kinds.get("image"):
        valid = meta[f"streams/{name}/valid"][:].astype(bool)
        found |= {"image_missing_fraction": 1 - valid.mean()} | of_images(obs[name], valid)
    if name := kinds.get("depth"):
        found["depth_valid_fraction"] = (obs[name][:] > 0).mean()
    if name := kinds.get("angles"):
        found["joints_valid_fraction"] = np.isfinite(obs[name][:]).mean()
    return found


def assert_measured(dataset):
    found, arrays = recorded(dataset), demos(dataset)
    assert set(found) == set(arrays)
    for id, (demo, meta) in arrays.items():
        assert list(found[id]) == sorted(NAMES)
        own, wanted = found[id], expected(demo, meta)
        assert {name for name, value in own.items() if value is None} == {name for name, value in wanted.items() if value is None}, id
        for name, value in wanted.items():
            assert value is None or own[name] == pytest.approx(value, rel=2e-5, abs=1e-9), (id, name)


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    """Takes with images of several sizes, joints, images that cannot be decoded, jumps and gaps, and one without poses."""
    root = tmp_path_factory.mktemp("measured")
    takeset.simulate(root / "plain", "--seconds", 1.5, "--size", "320x240", "--depth-size", "32x24", "--quirk", "frames-dropped")
    takeset.simulate(root / "large", "--seconds", 0.5, "--size", "640x480", "--depth-size", "32x24", "--seed", 2, "--quirk", "image-cut")
    takeset.simulate(root / "jumps", "--seconds", 1, "--size", "64x48", "--seed", 3, "--quirk", "pose-jump")
    takeset.simulate(root / "joints", "--seconds", 1, "--variant", "v2", "--seed", 4, "--quirk", "joint-dead")
    takeset("simulate", "record3d", "--output", root / "record", "--seconds", 1, "--size", "96x72", check=0)
    takeset("simulate", "slow-motion-video", "--output", root / "video", "--seconds", 0.5, "--rate", 240, check=0)
    return root


PIPELINES = {
    "as they are": "transforms: [align]",
    "default": None,
    "resampled": "transforms: [align, resample: {rate: 20}, resize-image: {width: 48, height: 36}]",
    "png": "transforms: [align, decimate: {every: 3}]\nwriter: {hdf5: {image: png}}",
    "split": "transforms: [align, split-episodes: {at: 0.4}]",
    "millimeters": "transforms: [align, resample-depth: {unit: mm}]",
}


@pytest.mark.parametrize("name", PIPELINES)
def test_measures_are_what_numpy_and_scipy_compute(takeset, takes, tmp_path, name):
    (tmp_path / "pipeline.yaml").write_text(f"version: 1\n{PIPELINES[name]}\n")
    given = ["--pipeline", tmp_path / "pipeline.yaml"] if PIPELINES[name] else []
    takeset("run", takes, "--output", tmp_path / "out", *given, check=0)
    assert_measured(tmp_path / "out")


def test_images_are_measured_before_jpeg_encodes_them(takeset, takes, tmp_path):
    found = []
    for image in ["raw", "jpeg"]:
        (tmp_path / "pipeline.yaml").write_text(
            f"version: 1\ntransforms: [align, resize-image: {{width: 48, height: 36}}]\nwriter: {{hdf5: {{image: {image}}}}}\n")
        takeset("run", takes, "--output", tmp_path / image, "--pipeline", tmp_path / "pipeline.yaml", check=0)
        found.append(recorded(tmp_path / image))
    assert found[0] == found[1]


def test_still_cameras_are_still(takeset, tmp_path):
    """Half a second of rest, then 0.1 m/s; and a rest in which the tracking trembles by 1 mm."""
    lines = []
    for row in range(120):
        x = 0.1 * max(0, row - 60) / 60 + (0.001 if row % 2 else 0)
        lines.append(" ".join(map(str, [int(row * 1e9 / 60), 1, 0, 0, x, 0, 1, 0, 1, 0, 0, 1, 0])))
    (tmp_path / "path.txt").write_text("\n".join(lines) + "\n")
    takeset.simulate(tmp_path / "takes/one", "--trajectory", tmp_path / "path.txt", "--size", "64x48", "--seconds", 2)
    takeset.convert(tmp_path / "takes", output=tmp_path / "out")
    assert_measured(tmp_path / "out")
    assert 0.4 < recorded(tmp_path / "out")["one"]["still_fraction"] < 0.6


def test_lengths_in_an_arbitrary_unit_are_none(takeset, tmp_path):
    takeset.simulate(tmp_path / "takes/slam", "--seconds", 1, "--variant", "v3-slam")
    takeset("run", tmp_path / "takes", "--output", tmp_path / "out", check=0)
    assert_measured(tmp_path / "out")
    (own,) = recorded(tmp_path / "out").values()
    assert own["path_m"] is own["speed_mean_m_s"] is own["still_fraction"] is None and own["turn_p99_deg_s"] > 0


def test_images_stored_as_they_came_are_not_decoded_for_measures(takeset, takes, tmp_path):
    (tmp_path / "pipeline.yaml").write_text("version: 1\ntransforms: [align]\nwriter: {hdf5: {image: jpeg}}\n")
    takeset("run", takes / "plain", "--output", tmp_path / "out", "--pipeline", tmp_path / "pipeline.yaml", check=0)
    (own,) = recorded(tmp_path / "out").values()
    assert own["sharpness_p10"] is own["brightness_mean"] is own["overexposed_fraction"] is None
    assert own["image_missing_fraction"] == 0 and own["path_m"] > 0


@pytest.fixture
def dataset(takeset, takes, tmp_path):
    takeset("run", takes, "--output", tmp_path / "dataset", check=0)
    return tmp_path / "dataset"


def test_every_way_to_read_them_gives_the_same(takeset, dataset, tmp_path):
    found = recorded(dataset)
    assert json.loads(takeset("measures", dataset, "--json", check=0).stdout) == found
    table = list(csv.DictReader(io.StringIO(takeset("measures", dataset, "--csv", check=0).stdout)))
    assert {line.pop("episode"): {name: float(text) if text else None for name, text in line.items()} for line in table} == found
    shown = takeset("measures", dataset, check=0).stdout.splitlines()
    assert len(shown) == 1 + len(found) and set(shown[0].split()) == {"episode", *(name for own in found.values() for name, value in own.items() if value is not None)}
    with package.open(dataset) as ds:
        assert {episode.id: episode.measures for episode in ds} == found
        frame = ds.measures
        assert frame.index.tolist() == [episode.id for episode in ds] and set(frame.columns) == set(NAMES)
        for id, own in found.items():
            assert {name: None if np.isnan(value) else value for name, value in frame.loc[id].items()} == own
    rows = {row["id"]: row for row in json.loads(takeset("report", dataset, "--json", check=0).stdout)["takes"]}
    for id, own in found.items():
        assert rows[id]["measures"] == {name: value for name, value in own.items() if value is not None}


@pytest.mark.parametrize("name", NAMES[:-2])
def test_episodes_are_chosen_by_them(takeset, dataset, tmp_path, name):
    found = {id: own[name] for id, own in recorded(dataset).items()}
    known = sorted({value for value in found.values() if value is not None})
    for operator, holds in [("<", float.__lt__), (">=", float.__ge__), ("=", float.__eq__)]:
        wanted = sorted(id for id, value in found.items() if value is not None and holds(float(value), float(known[-1])))
        run = takeset("select", dataset, "--where", f"measures.{name} {operator} {known[-1]}", "--output", tmp_path / f"by {operator}", check=None)
        assert (run.returncode == 0) == bool(wanted)
        if wanted:
            assert sorted(recorded(tmp_path / f"by {operator}")) == wanted
            assert recorded(tmp_path / f"by {operator}") == {id: own for id, own in recorded(dataset).items() if id in wanted}


def test_a_measure_that_there_is_not_is_said(takeset, dataset, tmp_path):
    run = takeset("select", dataset, "--where", "measures.sharpnes_p10 > 4", "--output", tmp_path / "out", check=64)
    assert "there is no measure sharpnes_p10" in run.stderr and "did you mean sharpness_p10" in run.stderr
    assert "expected a number, found sharp" in takeset("select", dataset, "--where", "measures.rows > sharp", "--output", tmp_path / "out", check=64).stderr


def forget(record):
    """As an earlier version wrote it."""
    for take in record["takes"]:
        take.pop("measures", None)


def close(own, other):
    return {name: value if value is None else pytest.approx(value, rel=1e-5) for name, value in other.items()} == own


def test_datasets_of_before_and_files_are_measured_when_they_are_listed(takeset, dataset, tmp_path):
    found = recorded(dataset)
    takeset("pack", dataset, "--output", tmp_path / "packed.h5", check=0)
    rewrite(dataset, forget)
    for path in [dataset, tmp_path / "packed.h5"]:
        for jobs in [1, 2]:
            own = json.loads(takeset("measures", path, "--json", "--jobs", jobs, check=0).stdout)
            assert own.keys() == found.keys() and all(close(own[id], found[id]) for id in found)
    one = json.loads(takeset("measures", dataset / "episodes/large.h5", "--json", check=0).stdout)
    assert one.keys() == {"large"} and close(one["large"], found["large"])
    with package.open(dataset) as ds:
        assert ds[0].measures == {} and len(ds.measures) == 6
    takeset("report", dataset, "--output", tmp_path / "page.html", check=0)
    assert "no episode matches" in takeset("select", dataset, "--where", "measures.rows > 0", "--output", tmp_path / "out", check=None).stderr


def test_a_damaged_shard_has_no_measures_and_the_others_have(takeset, dataset):
    rewrite(dataset, forget)
    shard = dataset / "episodes/jumps.h5"
    data = bytearray(shard.read_bytes())
    data[300] ^= 0xFF
    shard.write_bytes(data)
    run = takeset("measures", dataset, "--json", check=65)
    own = json.loads(run.stdout)
    assert set(own["jumps"].values()) == {None} and own["large"]["rows"] == 30
    assert [line for line in run.stderr.splitlines() if line.startswith("error: jumps: ")]


def test_a_table_in_a_file_has_the_ids_as_they_are(takeset, tmp_path):
    name = "rtl\u202ex, \"y\""
    takeset.simulate(tmp_path / "takes" / name, "--seconds", 0.2, "--size", "16x12")
    takeset.convert(tmp_path / "takes", output=tmp_path / "out")
    assert [line["episode"] for line in csv.DictReader(io.StringIO(takeset("measures", tmp_path / "out", "--csv", check=0).stdout))] == list(recorded(tmp_path / "out"))


@pytest.mark.parametrize("value", ["many", True, [1], {"a": 1}, 1e16, -1e300])
def test_measures_that_are_no_numbers_are_damage(takeset, dataset, value):
    rewrite(dataset, lambda record: record["takes"][0].update(measures={"rows": value}))
    run = takeset("measures", dataset, check=64)
    assert "manifest.json" in run.stderr and ("number" in run.stderr or "cannot be" in run.stderr)
    assert takeset("report", dataset, "--json", check=None).returncode != -5
    with pytest.raises(package.TakesetError, match="the measures of .* are not numbers"):
        package.open(dataset)[0].measures  # noqa: B018
