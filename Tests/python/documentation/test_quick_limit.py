"""The limit of quick tests: what is slow alone fails the run, and what was slow because of others does not."""

import subprocess
import sys

import pytest
from command import ROOT

TESTS = """
import time
from pathlib import Path
import pytest

def test_fast(): pass

@pytest.mark.slow
def test_marked(): time.sleep(0.5)

def test_first():
    mark = Path(__file__).with_name("mark")
    if not mark.exists():
        mark.touch()
        time.sleep(0.5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_a_quick_test_must_be_quick_alone(tmp_path, late):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'Tests/python/kit')!r})\npytest_plugins = ['quick_limit']\n")
    (tmp_path / "test_it.py").write_text(TESTS + "\ndef test_late(): time.sleep(0.5)\n" * late)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--quick-limit", "0.3"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == int(late), done.stdout
    assert ("test_it.test_late takes 0.5 s alone" in done.stdout) == late and "test_first takes" not in done.stdout
