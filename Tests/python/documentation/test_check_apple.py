"""`make check-apple`: it passes, and it finds what it is for."""

import shutil
import subprocess

import pytest
from command import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("swiftc"), reason="needs the compiler")]


def checked(root):
    return subprocess.run([root / "scripts/check-apple"], capture_output=True, text=True, timeout=300)


def test_the_adapters_agree_with_the_declarations_and_a_misspelled_callback_does_not(tmp_path):
    done = checked(ROOT)
    assert done.returncode == 0 and done.stdout.startswith("type-checked, not tested:"), done.stdout + done.stderr
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/check-apple", tmp_path / "scripts/check-apple")
    shutil.copytree(ROOT / "recorder", tmp_path / "recorder", ignore=shutil.ignore_patterns(".build"))
    camera = tmp_path / "recorder/Sources/TakesetRecorderApple/ARKitCamera.swift"
    camera.write_text(camera.read_text().replace("didUpdate frame:", "didUpdated frame:"))
    done = checked(tmp_path)
    assert done.returncode != 0 and "ARSessionDelegate" in done.stderr


def test_every_file_is_empty_where_its_framework_is_not():
    for path in (ROOT / "recorder/Sources/TakesetRecorderApple").glob("*.swift"):
        lines = path.read_text().strip().splitlines()
        assert lines[0].startswith("#if canImport(") and lines[-1] == "#endif", path.name
