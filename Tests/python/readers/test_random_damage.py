"""Takes of each app in which bytes of some files are random: no damage harms another take, nor the dataset."""

import numpy as np
import pytest
from outputs import manifest
from system import share

# What is simulated, and the chance that one of a take's files is damaged.
FORMATS = {
    "arkitscenes": (["--seconds", 0.3, "--size", "96x72"], 0.04),
    "polycam": (["--seconds", 0.4, "--size", "96x72", "--depth-size", "64x48"], 0.1),
    "3d-scanner-app": (["--seconds", 0.15, "--size", "96x72", "--depth-size", "64x48"], 0.1),
    "iphumi": (["--seconds", 0.1, "--size", "192x144"], 0.4),
    "anysense": (["--seconds", 0.2, "--size", "48x64"], 0.2),
    "transforms-json": (["--seconds", 0.1, "--size", "64x48", "--depth-size", "8x6", "--quirk", "times"], 0.3),
    "folder": (["--seconds", 0.3, "--size", "64x48", "--depth-size", "8x6"], 0.1),
    "mcap": (["--seconds", 0.3, "--size", "64x48", "--depth-size", "8x6", "--form", "bag"], 0.3),
    "opencamera-sensors": (["--seconds", 0.3, "--size", "128x72"], 0.3),
    "spectacular-rec": (["--seconds", 0.3, "--size", "128x96"], 0.2),
}


def damaged(data, chance):
    data = bytearray(data)
    for _ in range(chance.integers(1, 20)):
        data[chance.integers(len(data))] = chance.integers(256)
    if chance.random() < 0.25:
        del data[chance.integers(len(data)) :]
    return data


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_harm_nothing_else(takeset, tmp_path, name):
    """A thousand takes of which each tenth is whole."""
    arguments, probability = FORMATS[name]
    chance = np.random.default_rng(1)
    source, count = tmp_path / "VID_SOURCE", share(1000)
    takeset("simulate", name, *arguments, "--output", source, check=0)
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and path.name != "truth.json"]
    stem = "VID_20260218_202000" if name == "opencamera-sensors" else source.name
    for number in range(count):
        for path in files:
            target = tmp_path / "in" / f"{number:04}" / str(path.relative_to(source)).replace(stem, f"VID_{number:04}")
            target.parent.mkdir(parents=True, exist_ok=True)
            if number % 10 and chance.random() < probability:
                target.write_bytes(damaged(path.read_bytes(), chance))
            else:
                target.hardlink_to(path)
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", "--progress", "none")
    assert done.returncode == 3, done.stderr[-2000:]
    takes = manifest(tmp_path / "out")["record"]["takes"]
    written = {take["id"].split("/")[0].removeprefix("VID_") for take in takes if take["outcome"] == "written"}
    assert len(takes) == count and {f"{number:04}" for number in range(0, count, 10)} <= written and len(written) < count
    assert takeset("verify", tmp_path / "out").returncode == 0
