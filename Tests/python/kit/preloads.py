"""Libraries to preload into the command, which fail, lie or wait in place of the system."""

import shutil
import subprocess

import pytest
from command import ROOT


def compiled(tmp_path_factory, name):
    """A library to preload into the command, compiled from the source of this name."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("preload") / f"{name}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, ROOT / f"Tests/python/kit/{name}.c", "-ldl"], check=True)
    return library


def library(name):
    """A fixture: the library of this name."""
    return pytest.fixture(scope="module")(lambda tmp_path_factory: compiled(tmp_path_factory, name))
