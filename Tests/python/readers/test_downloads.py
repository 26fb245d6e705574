"""A folder of everything: `takeset inspect ~/Downloads` says what each thing is."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from phone_takes import zipped

APPS = {
    "stack-session": ["--size", "64x48", "--depth-size", "16x12"], "stray-scanner": ["--size", "64x48", "--depth-size", "16x12"],
    "record3d": ["--size", "48x64", "--depth-size", "12x16"], "3d-scanner-app": ["--size", "64x48", "--depth-size", "16x12"],
    "polycam": ["--size", "64x48", "--depth-size", "16x12"], "iphumi": ["--size", "64x48"], "anysense": ["--size", "48x64"],
    "transforms-json": ["--form", "nerfcapture", "--size", "64x48", "--depth-size", "16x12"], "arkitscenes": ["--size", "64x48"],
    "spectacular-rec": ["--size", "64x48"], "opencamera-sensors": ["--size", "64x48"],
}
NOTHING = {"invoice.pdf": "file", "notes.txt": "file", "fonts.zip": "archive", "empty": "folder", "half.mov.crdownload": "file"}
NAMES = {"opencamera-sensors": "VID_20260218_202000"}


@pytest.fixture(scope="module")
def downloads(takeset, tmp_path_factory):
    """Takes of all apps as they arrive: folders, archives, and what else lies about."""
    root = tmp_path_factory.mktemp("home") / "Downloads"
    root.mkdir()
    for app, options in APPS.items():
        takeset("simulate", app, "--seconds", 0.5, *options, "--output", root / app, check=0)
    # A browser's names, and archives.
    zipped(root / "polycam", root / "scan (1).zip", "polycam/")
    shutil.rmtree(root / "polycam")
    zipped(root / "3d-scanner-app", root / "2026_02_18.zip")
    shutil.rmtree(root / "3d-scanner-app")
    (root / "invoice.pdf").write_bytes(b"%PDF-1.4\n")
    (root / "notes.txt").write_text("milk\n")
    with zipfile.ZipFile(root / "fonts.zip", "w") as archive:
        archive.writestr("fonts/a.ttf", b"\0" * 100)
    (root / "empty").mkdir()
    (root / "half.mov.crdownload").write_bytes(b"\0" * 4096)
    return root


def test_each_thing_is_named(takeset, downloads):
    done = takeset("inspect", downloads, "--json", check=0)
    found = {take["id"]: take for take in json.loads(done.stdout)["takes"]}
    expected = {NAMES.get(app, app): app for app in APPS} | {"scan (1)": "polycam", "2026_02_18": "3d-scanner-app"}
    del expected["polycam"], expected["3d-scanner-app"]
    assert {name: take["reader"] for name, take in found.items()} == expected
    assert all(take["would_be"] == "written" for take in found.values())
    ignored = {Path(place["path"]).name: place["kind"] for place in json.loads(done.stdout)["ignored"]}
    assert {name: ignored.get(name) for name in NOTHING} == NOTHING and all(place["path"].startswith(str(downloads)) for place in json.loads(done.stdout)["ignored"])
    for name in NOTHING:
        assert name in takeset("inspect", downloads, "--verbose", check=0).stderr
    # What belongs to a take is not among what nobody recognizes.
    assert "20260218_202000" not in done.stderr and "_gyro" not in done.stderr


def test_all_of_them_become_one_dataset(takeset, downloads, tmp_path):
    takeset.convert(downloads, output=tmp_path / "out", check=0)
    assert takeset("verify", tmp_path / "out").returncode == 0
