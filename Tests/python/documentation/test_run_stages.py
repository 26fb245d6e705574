"""`scripts/run-stages`: what fails once passes in the open, what fails twice fails, and builds have no second chance."""

import os
import shutil
import subprocess
import sys

import pytest
from command import ROOT

# Targets as the project's, which run the tests of a folder; what Swift's do is a script that writes the same file.
MAKEFILE = """
.PHONY: test-python test-closed-loop test-server
lint dataset ci-deps server-test-build:
	@test ! -e $@-fails
test-python test-closed-loop test-server:
	@cd {folder}/$@ && {python} -m pytest -q -n $(or $(WORKERS),0) $(PYTEST_FLAGS) .
test-swift test-recorder test-server-swift:
	@{python} {folder}/swift.py $@ $(SWIFT_TEST_FLAGS)
"""
SWIFT = """
import os, pathlib, sys
target, _, path = sys.argv[1:]
broken = {"test-swift": "BROKEN_SWIFT"}.get(target, "NONE")
pattern = os.environ.get("SWIFT_FILTER")
fails = os.environ.get(broken) == "once" and pattern is None
print("filter", pattern)
failure = '<failure message="expected 1"/>' if fails else ""
pathlib.Path(path).write_text(f'<testsuites><testsuite><testcase classname="ATests.BTests" name="c(d:)">{failure}</testcase></testsuite></testsuites>')
sys.exit(fails)
"""
PASSES = "def test_passes(): pass\n"
# Fails until it has run as often as it says.
FAILS = """
import pathlib
import pytest
@pytest.mark.parametrize("case", {cases})
def test_fails(case):
    mark = pathlib.Path(__file__).with_suffix(f".{{case}}")
    times = int(mark.read_text()) if mark.exists() else 0
    mark.write_text(str(times + 1))
    assert times >= {times}, "not yet"
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/run-stages", tmp_path / "scripts")
    (tmp_path / "Makefile").write_text(MAKEFILE.format(folder=tmp_path, python=sys.executable))
    (tmp_path / "swift.py").write_text(SWIFT)
    for name in ("test-python", "test-closed-loop", "test-server"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_it.py").write_text(PASSES)
    return tmp_path


def stages(project, **environment):
    done = subprocess.run([project / "scripts/run-stages"], cwd=project, capture_output=True, text=True, timeout=300, env={"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(project / "cache"), **environment})
    return done.returncode, done.stdout


def fail(project, times, cases=("a b",), folder="test-python"):
    (project / folder / "test_fails.py").write_text(FAILS.format(times=times, cases=list(cases)))


def test_all_pass(project):
    code, out = stages(project)
    assert code == 0 and "NERVOUS" not in out
    assert out.endswith("6 passed, 0 failed, 0 skipped\n")
    names = ["lint", "build", "swift", "recorder", "python", "closed-loop", "server-build", "server-swift", "server", "second chances", "all"]
    assert [line.rsplit(None, 1)[0].strip() for line in out.split("stage ")[1].splitlines()[1:12]] == names


def test_what_fails_once_passes_in_the_open(project):
    fail(project, 1)
    code, out = stages(project, BROKEN_SWIFT="once", WORKERS="1")
    assert code == 0 and out.endswith("7 passed, 0 failed, 0 skipped\n")
    assert "NERVOUS: python: test_fails.test_fails[a b]\n-- first\n" in out and "AssertionError: not yet" in out
    assert "NERVOUS: swift: ATests.BTests.c(d:)\n-- first\nexpected 1\n-- second\npassed" in out
    assert "filter ^ATests\\.BTests/c\\(d:\\)($|/)" in out


def test_what_fails_twice_fails(project):
    fail(project, 2)
    code, out = stages(project)
    assert code == 1 and "FAILED TWICE: python: test_fails.test_fails[a b]" in out and "NERVOUS" not in out
    assert out.endswith("6 passed, 1 failed, 0 skipped\n")


@pytest.mark.parametrize("count", [3, 4])
def test_three_tests_at_most_have_a_second_chance(project, count):
    fail(project, 1, range(count - 1))
    fail(project, 1, folder="test-server")
    code, out = stages(project)
    assert code == (count > 3) and out.count("NERVOUS: ") == (3 if count == 3 else 0)
    assert ("4 tests failed, and 3 at most run again" in out) == (count > 3)


@pytest.mark.parametrize("file, text, words", [
    ("test-server/conftest.py", "def pytest_sessionfinish(session): session.exitstatus = 3\n", "server: it failed, and none of its tests did"),
    ("test-server/test_crash.py", "import os, pathlib\ndef test_crash(): os._exit(1)\n", "server: test_crash crashed its process"),
    ("test-server/test_broken.py", "import nothing_of_this_name\n", "server: test_broken cannot be collected"),
    ("test-closed-loop/test_it.py", "", "closed-loop: no test ran"),
])
def test_what_is_no_test_that_failed_has_no_second_chance(project, file, text, words):
    (project / file).write_text(text)
    code, out = stages(project, WORKERS="1")
    assert code == 1 and words in out and "NERVOUS" not in out


def test_a_build_that_fails_ends_the_run(project):
    (project / "server-test-build-fails").touch()
    code, out = stages(project)
    assert code == 1 and "== server-build" in out and "== server\n" not in out and "4 passed, 0 failed" in out
