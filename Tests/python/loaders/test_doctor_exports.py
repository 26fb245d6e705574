"""`verify --for` agrees with the exports: what it calls ready is exported, and what an export refuses it has called broken."""

import contextlib
import io

import numpy as np
import pytest
from doctor_sets import DEMO, META, PIPELINES, SPLIT, changed, checkup, converted, edited, simulated, with_jitter, with_masked_actions

TINY = ("--seconds", 0.8, "--size", "64x48")


def missing_images(file):
    file[META]["streams/camera_image/valid"][4:7] = 0
    file[META]["streams/camera_image/source_index"][4:7] = -1
    file[META]["quality"][4:7] |= 8


def incomplete_poses(file):
    file[DEMO]["obs/pose"][7] = np.nan


EDITS = [with_masked_actions, missing_images, incomplete_poses, with_jitter]
# Rules of the loaders that an export need not know.
BEYOND = {"too-few-episodes", "camera-still", "short-episode", "rate-other"}


@pytest.fixture(scope="module")
def zoo(takeset, tmp_path_factory):
    """Datasets by name: clean ones, ones that lack something, and ones that another program has changed."""
    root = tmp_path_factory.mktemp("zoo")
    stack = simulated(takeset, root / "stack", common=TINY)
    scans = simulated(takeset, root / "scans", reader="stray-scanner", names=("scan-a", "scan-b"), common=TINY)
    wide = simulated(takeset, root / "wide", names=("session_2026-03-03_100000",), common=("--seconds", 0.8, "--size", "80x48"))
    longer = simulated(takeset, root / "longer", names=("session_2026-03-04_100000",), common=("--seconds", 1.1, "--size", "64x48"))
    gaps = simulated(takeset, root / "gaps", "--quirk", "frames-dropped", common=TINY)
    dead = simulated(takeset, root / "dead", "--quirk", "joint-dead", common=TINY)
    slow = simulated(takeset, root / "slow", "--rate", 30, common=TINY)
    plain, glove = PIPELINES["aloha"], {"select": {"streams": ["pose", "camera_image", "joints"]}}
    even = changed(PIPELINES["lerobot"], {"resample": {"rate": 30}})
    made = {
        "plain": (stack, plain, {}), "even": (stack, even, {}), "at 60": (stack, changed(even, {"resample": {"rate": 60}}), {}),
        "files": (stack, even, {"image": "jpeg"}), "scans": (scans, PIPELINES["nerfstudio"], {}), "mixed": ([stack, scans], ["align", "actions", SPLIT], {}),
        "sizes": ([stack, wide], plain, {}), "lengths": ([stack, longer], even, {}), "gaps": (gaps, plain, {}), "dead": (dead, changed(plain, glove), {}),
        "slow": (slow, even, {}), "rates": ([slow, longer], plain, {}), "fraction": (stack, changed(even, {"resample": {"rate": 14.5}}), {}),
        "no actions": (stack, ["align", {"select": {"streams": ["pose", "camera_image"]}}], {}),
        "no poses": (stack, ["align", {"select": {"streams": ["camera_image", "joints"]}}], {}),
        "no images": (stack, changed(plain, {"select": {"streams": ["pose", "joints"]}}), {}),
        "body": (scans, ["align", {"pose-frame": {"body": [0, 0, 0.1, 0, 0, 0, 1]}}, "actions"], {}),
        "widths": ([stack, scans], ["align", {"select": {"streams": ["pose", "camera_image", "joints"]}}, {"actions": {"joints": "absolute"}}], {}),
        "units": ([scans, stack], ["align", {"select": {"streams": ["pose", "camera_image", "camera_depth"]}}, "actions"], {}),
    }
    (root / "out").mkdir()
    found = {name: converted(takeset, takes, root / "out" / name.replace(" ", "-"), steps, **writer) for name, (takes, steps, writer) in made.items()}
    for edit in EDITS:
        for name in "even", "scans":
            found[f"{name}, {edit.__name__}"] = edited(found[name], root / "out" / f"{name}-{edit.__name__}", edit)
    return found


def agrees(found, code, err, name):
    """A refusal has been foreseen, and an export of what is ready succeeds. Which of the two it is."""
    if code == 65:
        assert found.breaks, f"{name}: the export refuses ({err.strip()}), and nothing is called broken: {found.report['diagnoses']}"
        return "refused"
    assert code == 0, (name, err)
    assert not found.breaks - BEYOND - {"no-episodes"}, f"{name}: is exported, and called broken: {found.breaks}"
    return "exported"


@pytest.mark.slow
@pytest.mark.parametrize("loader", ["aloha", "nerfstudio"])
def test_swift_exports(takeset, zoo, tmp_path, loader):
    outcomes = []
    for name, dataset in zoo.items():
        done = takeset("export", dataset, "--to", loader, "--output", tmp_path / name)
        outcomes.append(agrees(checkup(takeset, loader, dataset), done.returncode, done.stderr, name))
    assert min(outcomes.count("refused"), outcomes.count("exported")) >= 3, outcomes


@pytest.mark.slow
def test_the_replay_buffer(takeset, zoo, tmp_path):
    """Here, a key that the export leaves out breaks nothing but the training on it."""
    outcomes = []
    for name, dataset in zoo.items():
        done = takeset("export", dataset, "--to", "zarr", "--output", tmp_path / name)
        found = checkup(takeset, "diffusion-policy", dataset)
        if done.returncode == 0 and found.breaks & {"actions-missing", "images-missing"}:
            outcomes.append("left out")
            continue
        outcomes.append(agrees(found, done.returncode, done.stderr, name))
    assert {outcomes.count(word) > 0 for word in ("refused", "exported", "left out")} == {True}, outcomes


def lerobot(*arguments):
    """What `python -m takeset.lerobot` does, in this process: its exit code and its words."""
    pytest.importorskip("pyarrow")
    from takeset.lerobot.__main__ import main

    with contextlib.redirect_stderr(io.StringIO()) as err:
        return main([*map(str, arguments), "--quiet"]), err.getvalue()


@pytest.mark.slow
def test_lerobot(takeset, zoo, tmp_path):
    outcomes = []
    for name, dataset in zoo.items():
        found = checkup(takeset, "lerobot", dataset)
        # What the remedy says, if the rate is all that the export has to be told.
        rates = [one["command"].split()[-1] for one in found.report["diagnoses"] if "--fps" in one.get("command", "")]
        code, err = lerobot(dataset, tmp_path / name, "--fps", rates[0] if rates else 30)
        if name in ("no actions", "no poses"):
            assert code == 0 and "actions-missing" in found.breaks
            continue
        outcomes.append(agrees(found, code, err, name))
    assert min(outcomes.count("refused"), outcomes.count("exported")) >= 3, outcomes


@pytest.mark.parametrize("loader, name, arguments", [
    ("aloha", "lengths", ["--fixed-length", "pad"]), ("aloha", "gaps", ["--masked", "split", "--fixed-length", "pad"]),
    ("aloha", "even, with_masked_actions", ["--masked", "split", "--fixed-length", "pad"])])
def test_the_command_of_a_remedy_exports(takeset, zoo, tmp_path, loader, name, arguments):
    found = checkup(takeset, loader, zoo[name])
    commands = [one["command"].split() for one in found.report["diagnoses"] if one["severity"] == "breaks" and "command" in one]
    assert commands, found.report
    for command in commands:
        assert command[:3] == ["takeset", "export", str(zoo[name])] and set(arguments) <= set(command) | {"--masked", "split", "--fixed-length", "pad"}
    takeset(*[str(tmp_path / "out") if word == "OUT" else word for word in commands[-1][1:]], *([] if "--fixed-length" in commands[-1] else arguments), check=0)
