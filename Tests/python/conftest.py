"""Fixtures that several test files use: the command, simulated takes and datasets of them, real captures where they are available."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import slurm_cluster
from bundles import Device, keys_file
from command import BINARY, ROOT, Takeset
from preloads import compiled
from system import BEGUN
from torture import Whole, takes_of_every_kind


# Slow, and their tests share little.
SPREAD = {"test_changing_inputs", "test_failing_disk", "test_flips", "test_full_disk", "test_fuzz", "test_kills", "test_syscalls", "test_torture", "test_training_scale"}


# Of a test with more cases than this, as many, spread evenly over them, are quick; the others are slow.
QUICK_CASES = 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Tests that need much time or the software of others run only if `-m` names their marker."""
    cases = {}
    for item in items:
        cases.setdefault((item.path, getattr(item, "originalname", item.name)), []).append(item)
    for group in cases.values():
        quick = {round(number * (len(group) - 1) / (QUICK_CASES - 1)) for number in range(QUICK_CASES)}
        for number, item in enumerate(group):
            if number not in quick and len(group) > QUICK_CASES:
                item.add_marker(pytest.mark.slow)
    for marker in "torture", "cluster", "loaders", "packages":
        if marker not in config.option.markexpr:
            deselected = [item for item in items if item.get_closest_marker(marker)]
            items[:] = [item for item in items if item not in deselected]
            config.hook.pytest_deselected(items=deselected)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Gives each worker whole files, because the tests of a file share what they convert, as all those of quirks do; the tests of some files one by one."""
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            stem = Path(file).stem
            return nodeid if stem in SPREAD else "quirks" if stem.startswith("test_quirks_") else file

    config.option.loadscopereorder = False
    return Files(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Remembers which folders a fixture of a module makes."""
    if fixturedef.scope not in ("module", "class"):
        return (yield)
    root = request.getfixturevalue("tmp_path_factory").getbasetemp()
    before = {*root.iterdir()}
    try:
        return (yield)
    finally:
        fixturedef.folders = {*root.iterdir()} - before


def pytest_fixture_post_finalizer(fixturedef):
    """Removes them when its module is done: all together are 10 GB."""
    for folder in getattr(fixturedef, "folders", ()):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_is_left_stopped():
    yield
    while BEGUN:
        process = BEGUN.pop()
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def takeset():
    assert BINARY.exists(), f"{BINARY} is not built; run make build"
    return Takeset()


@pytest.fixture(scope="session")
def masters(tmp_path_factory, takeset):
    """Small valid takes that tests copy and damage: name to directory."""
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


@pytest.fixture(scope="module")
def whole(takeset, tmp_path_factory):
    """Small takes of every kind, and the dataset of a run to which nothing happens."""
    root = tmp_path_factory.mktemp("torture")
    return Whole(takeset, takes_of_every_kind(root / "takes"), root / "whole")


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


@pytest.fixture(scope="session")
def tiny_takes(tmp_path_factory, takeset):
    """A session of each kind that has depth maps or joints, a bundle and a scan."""
    root = tmp_path_factory.mktemp("tiny-takes")
    tiny = ["--seconds", 0.2, "--size", "64x48"]
    takeset.simulate(root / "v1", *tiny, "--depth-size", "16x12")
    takeset.simulate(root / "v2", *tiny, "--variant", "v2")
    takeset("simulate", "realitycam-bundle", "--output", root / "pour", *tiny, check=0)
    takeset("simulate", "stray-scanner", "--output", root / "scan", *tiny, "--depth-size", "16x12", check=0)
    return root


@pytest.fixture(scope="session")
def tiny_dataset(tiny_takes, tmp_path_factory, takeset):
    """A valid dataset, which each test copies."""
    output = tmp_path_factory.mktemp("tiny-dataset") / "out"
    takeset.convert(tiny_takes, output=output)
    takeset("verify", output, check=0)
    return output


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """Arguments that name the keys of two phones."""
    return "--keys", keys_file(tmp_path_factory.mktemp("keys") / "keys.json", {"phone-1": Device(1), "phone-2": Device(2)})


@pytest.fixture(scope="session")
def failing_look(tmp_path_factory):
    """A library that makes one call on the inputs or the output fail, or stops the process at it."""
    return compiled(tmp_path_factory, "failing_look")


@pytest.fixture(scope="session")
def failing_write(tmp_path_factory):
    """A library that makes one write to an unfinished file fail."""
    return compiled(tmp_path_factory, "failing_write")


@pytest.fixture(scope="session")
def other_time(tmp_path_factory):
    """A library that changes the time of day."""
    return compiled(tmp_path_factory, "other_time")


def _captures():
    """The folder of real captures: $TAKESET_CAPTURES, or one next to the checkout."""
    candidates = [os.environ.get("TAKESET_CAPTURES"), ROOT.parent / "shared/data"]
    return next((Path(c) for c in candidates if c and Path(c).is_dir()), None)


@pytest.fixture(scope="session")
def captures():
    found = _captures()
    if found is None:
        pytest.skip("no real captures at hand; set TAKESET_CAPTURES")
    return found


@pytest.fixture
def slurm():
    """A Slurm of three nodes on this machine."""
    reason = slurm_cluster.missing()
    if reason:
        pytest.skip(reason)
    # Sockets have short paths.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir=os.environ.get("TMPDIR")))
    try:
        with slurm_cluster.Slurm(folder / "d") as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)
