"""The code on the recorder's page: the program, in a package of its own that knows the repository by its address only, and the app's part."""

import json
import os
import re
import shutil
import subprocess

import pytest
from command import ROOT
from outputs import demos

MANIFEST = """// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "outside", platforms: [.macOS(.v14)], dependencies: [.package(url: "file://%s", branch: "main")],
  targets: [.executableTarget(name: "outside", dependencies: [.product(name: "TakesetRecorder", package: "takeset")])])
"""


def code():
    """The Swift code of the page: the program, and the part of an app."""
    return re.findall(r"```swift\n(.*?)```", (ROOT / "docs/recorder.md").read_text(), re.S)


def repository(path):
    """The files of this checkout, as a repository with one commit."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, path / name)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], cwd=path, check=True)


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("swift"), reason="needs git's list of files, and the compiler")
def test_the_program_of_the_page_records_what_run_converts(takeset, tmp_path):
    program, _ = code()
    repository(tmp_path / "takeset")
    (tmp_path / "outside/Sources/outside").mkdir(parents=True)
    (tmp_path / "outside/Package.swift").write_text(MANIFEST % (tmp_path / "takeset"))
    (tmp_path / "outside/Sources/outside/main.swift").write_text(program)
    # As on a machine that has none of the libraries of the other targets.
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": "/nonexistent", "PKG_CONFIG_PATH": ""}
    built = subprocess.run(["swift", "build"], cwd=tmp_path / "outside", env=environment, capture_output=True, text=True, timeout=900)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    (tmp_path / "in").mkdir()
    done = subprocess.run([tmp_path / "outside/.build/debug/outside", tmp_path / "in"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == f"{tmp_path}/in/take-1: 60 frames, no failure\n", done.stdout + done.stderr
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")["take-1"]
    means = demo["obs/camera_image"][:].mean(axis=(1, 2, 3))
    assert len(means) == 60 and abs(means - [number * 4 for number in range(60)]).max() < 3
    assert abs(demo["obs/camera_depth"][30].mean() - 1.5) < 1e-3
    assert "is_partial" not in json.loads((tmp_path / "in/take-1/metadata.json").read_text())


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("swiftc"), reason="needs the compiler")
def test_the_part_of_an_app_has_the_types_of_the_adapters(tmp_path):
    _, app = code()
    # It is checked as a file of the adapters' own module.
    (tmp_path / "App.swift").write_text(app.replace("import TakesetRecorderApple\n", ""))
    done = subprocess.run([ROOT / "scripts/check-apple", tmp_path / "App.swift"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
