"""`--quick-limit SECONDS`: a test that is not marked `slow` and takes longer fails the run, if it does so again when it runs alone."""

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree


def pytest_addoption(parser):
    parser.addoption("--quick-limit", type=float, metavar="SECONDS", help="fail if a test that is not marked slow takes longer")


def pytest_configure(config):
    limit = config.getoption("--quick-limit")
    if limit is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(QuickLimit(limit))


class QuickLimit:
    def __init__(self, limit):
        self.limit = limit
        self.late = set()  # node ids
        self.lines = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed and "slow" not in report.keywords and report.duration > self.limit:
            self.late.add(report.nodeid)

    def pytest_sessionfinish(self, session):
        if not self.late:
            return
        # Other tests on the same processors are no fault of a test.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "times.xml"
            arguments = ["-q", "-p", "no:cacheprovider", "--junitxml", path, "-o", "junit_duration_report=call", *sorted(self.late)]
            done = subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=session.config.rootpath, capture_output=True, text=True)
            cases = [] if done.returncode else ElementTree.parse(path).iter("testcase")
            times = {f"{case.get('classname')}.{case.get('name')}": float(case.get("time")) for case in cases}
        if done.returncode:
            self.lines.append(f"what took above {self.limit} s did not run alone:\n{done.stdout}")
        self.lines += [f"{name} takes {time:.1f} s alone: mark it slow, or make it faster" for name, time in times.items() if time > self.limit]
        if self.lines:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        if self.lines:
            terminalreporter.section(f"quick tests above {self.limit} s")
            terminalreporter.write_line("\n".join(self.lines))
