"""The Unix time of rows: of frames on Unix time, and of frames to which joints or an IMU on Unix time were aligned."""

import json
import shutil
from decimal import Decimal

import numpy as np
import pytest
from conversions import pipeline
from outputs import demos, manifest
from phone_takes import absolute

APPS = {
    "iphumi": ["iphumi", "--size", "192x144"], "anysense": ["anysense", "--size", "72x96"],
    "record3d": ["record3d", "--size", "72x96", "--depth-size", "48x64", "--quirk", "other-program", "--form", "folder"],
    "transforms": ["transforms-json", "--size", "96x72", "--depth-size", "64x48", "--quirk", "times"],
}
START = 1_772_618_400_000_000_000
VARIANTS = {"v3-scaled": 1_000_000, "v2": 50_000_000}


def with_unix_nanoseconds(folder):
    path = folder / "transforms.json"
    found = json.loads(path.read_text())
    for number, frame in enumerate(found["frames"]):
        frame.pop("timestamp", None)
        frame["timestamp_ns"] = START + 123_456_789 + number * 33_333_333
    path.write_text(json.dumps(found))


def later(folder):
    """Every Unix time 0.7 s later, as of a recording that began so long after a whole second; the app truncates the start time."""
    for name in "encoders.json", "imu.json":
        if (folder / name).exists():
            table = json.loads((folder / name).read_text(), parse_float=Decimal)
            for row in table:
                row["timestamp"] += Decimal("0.7")
            (folder / name).write_text(json.dumps(table, default=float))


@pytest.fixture(scope="module")
def dataset(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("unix")
    for name, words in APPS.items():
        takeset("simulate", *words, "--seconds", 1, "--output", root / "in" / name, check=0)
    with_unix_nanoseconds(root / "in/transforms")
    for variant in VARIANTS:
        takeset.simulate(
            root / "in" / variant, "--variant", variant, "--size", "64x48", "--seconds", 4, "--start-time", "2026-03-04T10:00:00Z")
        later(shutil.copytree(root / "in" / variant, root / "in" / f"{variant} later"))
    takeset.convert(*sorted((root / "in").iterdir()), output=root / "out", check=0, arguments=pipeline(root))
    return root / "out"


def origin(dataset, name):
    attributes = demos(dataset)[name][1]["timestamp_ns"].attrs
    return int(attributes["unix_origin_ns"]), int(attributes["unix_origin_resolution_ns"])


@pytest.mark.parametrize("name, resolution", [("iphumi", 10**6), ("anysense", 10**6), ("record3d", None), ("transforms", 1)])
def test_a_clock_that_is_unix_time_is_unix_time(dataset, name, resolution):
    meta = demos(dataset)[name][1]
    found, exact = origin(dataset, name)
    assert meta["timestamp_ns"].attrs["clock"] == "phone-unix" and found == absolute(meta)[0] > 1.7e18
    assert exact == resolution or resolution is None and 1 <= exact <= 10**6


@pytest.mark.parametrize("variant", VARIANTS)
def test_unix_time_of_frames_is_that_of_the_stream_that_was_aligned_to_them(dataset, variant):
    """The fraction of the second is known, although the start time has none, and is as exact as the alignment."""
    (sound, exact), (moved, _) = (origin(dataset, name) for name in (variant, f"{variant} later"))
    entry = next(take for take in manifest(dataset)["record"]["takes"] if take["id"] == variant)
    residuals = [int(one["residual_ns"]) for one in entry["alignment"] if one["offset_ns"] not in (None, "0")]
    assert exact == min(residuals) <= VARIANTS[variant] and 0 <= sound - START < 10**9
    assert abs(moved - sound - 7 * 10**8) <= 2_000_000


def test_exports_say_how_exactly_the_time_is_known(takeset, dataset, tmp_path):
    takeset("export", dataset, "--to", "tum", "--output", tmp_path / "tum", check=0)
    found = {one["id"]: one for one in json.loads((tmp_path / "tum/takeset-export.json").read_text())["episodes"]}
    for name, one in found.items():
        first, exact = origin(dataset, name)
        assert (one["time_base"], one["time_resolution_ns"]) == ("unix", exact)
        line = next(line for line in (tmp_path / f"tum/{name}.txt").read_text().splitlines() if line[0].isdigit())
        assert abs(int(Decimal(line.split()[0]) * 10**9) - first) <= 1


def test_messages_have_unix_time(takeset, dataset, tmp_path):
    takeset("export", dataset, "--to", "mcap", "--output", tmp_path / "mcap", check=0)
    files = list((tmp_path / "mcap").glob("*.mcap"))
    assert len(files) == len(demos(dataset)) and not any(b"from the first row" in file.read_bytes() for file in files)


def test_a_session_without_a_start_time_knows_it_by_its_imu(takeset, tmp_path):
    takeset.simulate(tmp_path / "in", "--variant", "v3-scaled", "--size", "64x48", "--seconds", 4)
    path = tmp_path / "in/metadata.json"
    found = json.loads(path.read_text())
    found.pop("startTime")
    path.write_text(json.dumps(found))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=0, arguments=pipeline(tmp_path))
    ((_, meta),) = demos(tmp_path / "out").values()
    assert meta["timestamp_ns"].attrs["unix_origin_resolution_ns"] == 1_000_000 and np.all(meta["timestamp_ns"][:] >= 0)
