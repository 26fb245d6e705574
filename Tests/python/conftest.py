"""What the tests share: the built binary, simulated takes, and real captures where they are at hand."""

import hashlib
import json
import os
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import h5py
import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("TAKESET", ROOT / ".build/release/takeset"))


class Takeset:
    """Runs the real command and remembers nothing."""

    def __call__(self, *arguments, check=None, env=None, **options):
        command = [str(BINARY), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env, **options)
        if check is not None:
            assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def simulate(self, output, *arguments):
        self("simulate", "stack-session", "--output", output, *arguments, check=0)
        return Path(output)

    def convert(self, *inputs, output, check=0, arguments=()):
        return self("run", *inputs, "--output", output, "--progress", "plain", *arguments, check=check)


@pytest.fixture(scope="session")
def takeset():
    assert BINARY.exists(), f"{BINARY} is not built; run make build"
    return Takeset()


@pytest.fixture(scope="session")
def masters(tmp_path_factory, takeset):
    """Small sound takes that tests copy and damage: name to directory."""
    root = tmp_path_factory.mktemp("masters")
    return {
        "v1": takeset.simulate(root / "session_2026-01-31_120000", "--seconds", 0.5, "--size", "480x360", "--depth-size", "64x48"),
        "v2": takeset.simulate(root / "session_2026-02-01_130000", "--variant", "v2", "--seconds", 1, "--seed", 7),
    }


@pytest.fixture
def sessions(tmp_path, masters):
    """A directory with a copy of each master."""
    root = tmp_path / "sessions"
    for master in masters.values():
        shutil.copytree(master, root / master.name)
    return root


@pytest.fixture(scope="session")
def dataset(tmp_path_factory, takeset, masters):
    """A dataset of both masters."""
    output = tmp_path_factory.mktemp("dataset") / "out"
    takeset.convert(*masters.values(), output=output)
    return output


@pytest.fixture(scope="session")
def takes(tmp_path_factory, takeset):
    """Four short takes, two of each variant."""
    root = tmp_path_factory.mktemp("takes")
    for index in range(4):
        variant = ["v1", "v2"][index % 2]
        takeset.simulate(
            root / f"session_2026-03-0{index + 1}_100000", "--variant", variant, "--seconds", 0.5, "--seed", index, "--size", "320x240", "--depth-size", "64x48")
    return root


@pytest.fixture(scope="session")
def batch(takeset, tmp_path_factory):
    """Sessions with quirks, all converted in one run."""
    from quirks import Batch

    return Batch(takeset, tmp_path_factory.mktemp("quirks"))


def manifest(directory):
    return json.loads((Path(directory) / "manifest.json").read_text())


def take(directory, take_id):
    return next(t for t in manifest(directory)["record"]["takes"] if t["id"] == take_id)


def demos(directory):
    """Open dataset.h5 and give its demos by take id."""
    file = h5py.File(Path(directory) / "dataset.h5")
    return {demo.attrs["take_id"]: (demo, file["meta"][name]) for name, demo in file["data"].items()}


# Digests


def canonical(value):
    """JSON as RFC 8785 has it."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        # ECMAScript writes out what is from 1e-6 to 1e21; exponents have no leading zeros.
        digits, _, exponent = repr(value).partition("e")
        if exponent and not -7 < int(exponent) < 21:
            return f"{digits}e{int(exponent):+d}"
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return json.dumps(value, ensure_ascii=False)


ROWS = {"camera_image", "camera_depth", "camera_depth_valid", "camera_depth_confidence"}  # what has a row in each chunk


def arrays(demo, meta):
    """Every dataset of an episode by its path in the shard, but for the digests of rows."""
    found = {}
    for root, group in ("/data/demo_0", demo), ("/meta/demo_0", meta):
        group.visititems(lambda name, item: found.update({f"{root}/{name}": item}) if isinstance(item, h5py.Dataset) else None)
    return {path: data for path, data in found.items() if not path.startswith("/meta/demo_0/row_sha256/")}


def digest(data):
    """What the digest of a dataset must be: of its bytes or, with a row in each chunk, of the digests of its rows; and these."""
    if data.name.rpartition("/")[2] not in ROWS:
        return "bytes", hashlib.sha256(data[:].tobytes()).hexdigest(), None
    rows = b"".join(hashlib.sha256(row.tobytes()).digest() for row in data[:])
    return "rows", hashlib.sha256(rows).hexdigest(), rows


def check_digests(demo, meta):
    """Every dataset has the digests of its content. How many there are."""
    found, with_rows = arrays(demo, meta), set()
    for path, data in found.items():
        kind, whole, rows = digest(data)
        assert (data.attrs["sha256_of"], data.attrs["sha256"]) == (kind, whole), path
        if rows is not None:
            name = path.rpartition("/")[2]
            stored = meta["row_sha256"][name]
            assert (stored.dtype.str, stored.shape, dict(stored.attrs)) == ("|u1", (len(data), 32), {"unit": "sha256"}), path
            assert stored[:].tobytes() == rows, path
            with_rows.add(name)
    assert with_rows == set(meta.get("row_sha256", ()))
    return len(found)


def _captures():
    """The folder of real captures: $TAKESET_CAPTURES, or one beside the checkout."""
    candidates = [os.environ.get("TAKESET_CAPTURES"), ROOT.parent / "shared/data"]
    return next((Path(c) for c in candidates if c and Path(c).is_dir()), None)


@pytest.fixture(scope="session")
def captures():
    found = _captures()
    if found is None:
        pytest.skip("no real captures at hand; set TAKESET_CAPTURES")
    return found
