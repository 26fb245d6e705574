"""The Python package: what a wheel of it holds, and that it works where it was installed."""

import email
import re
import subprocess
import sys
import zipfile

import pytest
from command import ROOT

import takeset as package

PACKAGE = ROOT / "python"
UNREACHABLE = "No matching distribution found for hatchling|due to an OSError|ConnectionError|No module named pip"


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, built by pip. What builds it, hatchling, is fetched from the package index."""
    folder, before = tmp_path_factory.mktemp("wheel"), files_of(PACKAGE)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--disable-pip-version-check", "-w", folder, PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 and re.search(UNREACHABLE, done.stdout + done.stderr):
        pytest.skip("pip cannot fetch hatchling, which builds the wheel")
    assert done.returncode == 0, done.stderr
    assert files_of(PACKAGE) == before, "building leaves files behind"
    (found,) = folder.iterdir()
    return found


@pytest.mark.slow
def test_a_wheel_holds_the_package_and_the_license(wheel):
    assert wheel.name == f"takeset-{package.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as file:
        names, license = set(file.namelist()), file.read(f"takeset-{package.__version__}.dist-info/licenses/LICENSE")
    sources = {f"takeset/{path}" for path in files_of(PACKAGE / "takeset") if (PACKAGE / "takeset" / path).is_file()}
    assert {name for name in names if name.startswith("takeset/")} == sources and "takeset/py.typed" in sources
    assert all(name.startswith(("takeset/", f"takeset-{package.__version__}.dist-info/")) for name in names)
    assert license == (ROOT / "LICENSE").read_bytes()


def test_the_metadata_name_what_the_package_needs(wheel):
    with zipfile.ZipFile(wheel) as file:
        metadata = email.message_from_bytes(file.read(f"takeset-{package.__version__}.dist-info/METADATA"))
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == ("takeset", package.__version__, ">=3.10")
    assert metadata["License-Expression"] == "Apache-2.0" and metadata.get_payload() == (PACKAGE / "README.md").read_text()
    needed = [requirement for requirement in metadata.get_all("Requires-Dist") if "extra" not in requirement]
    assert sorted(re.match(r"\w+", requirement)[0] for requirement in needed) == ["h5py", "numpy"]
    assert set(metadata.get_all("Provides-Extra")) >= {"images", "torch", "pandas", "lerobot", "rerun"}


def test_the_installed_package_reads_a_dataset(wheel, dataset, tmp_path):
    quiet = ["-q", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *quiet, "--target", tmp_path / "site", wheel], check=True)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import importlib.metadata, takeset\n"
        f"assert takeset.__file__.startswith({str(tmp_path)!r}), takeset.__file__\n"
        "print(importlib.metadata.version('takeset'), takeset.__version__)\n"
        f"with takeset.open({str(dataset)!r}) as ds: print(len(ds), ds[0]['camera_image'][3:5].shape, len(ds._repr_html_()) > 1000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{package.__version__} {package.__version__}\n2 (2, 240, 320, 3) True\n"
