"""`verify --for robomimic` against robomimic itself: it stops exactly where something is said to break. Run by `make test-loaders`."""

import subprocess
import sys
import warnings

import h5py
import pytest
from doctor_sets import (
    FIRST, PIPELINES, beyond_one, changed, checkup, converted, edited, simulated, too_long, too_short, with_masked_actions, with_nan,
    with_narrow_actions, without_actions, without_columns, without_pose,
)

pytestmark = pytest.mark.loaders

OUTCOME = ("actions", "rewards", "dones")


@pytest.fixture(scope="module")
def robomimic():
    """Reads a dataset as robomimic's training does: shapes first, then every item of every filter in batches."""
    pytest.importorskip("robomimic")
    warnings.filterwarnings("ignore")
    import torch.utils.data
    from robomimic.utils import file_utils, obs_utils
    from robomimic.utils.dataset import SequenceDataset

    def read(dataset, keys, filters=(None,), **options):
        modalities = {"rgb": [], "depth": [], "low_dim": []}
        with h5py.File(dataset / "dataset.h5") as file:
            for key in keys:
                kind = next(demo["obs"][key].attrs.get("kind") for demo in file["data"].values() if key in demo["obs"])
                modalities[{"image": "rgb", "depth": "depth"}.get(kind, "low_dim")].append(key)
        obs_utils.initialize_obs_modality_mapping_from_dict(modalities)
        path = str(dataset / "dataset.h5")
        file_utils.get_env_metadata_from_dataset(path)
        file_utils.get_shape_metadata_from_dataset(path, all_obs_keys=list(keys))
        rows = 0
        for name in filters:
            given = {
                "hdf5_path": path, "obs_keys": tuple(keys), "dataset_keys": OUTCOME, "load_next_obs": False, "frame_stack": 1, "seq_length": 4,
                "hdf5_cache_mode": None, "filter_by_attribute": name}
            data = SequenceDataset(**given | options)
            data[0]
            # Shuffled, as in training, so that batches have rows of several episodes.
            for batch in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(1)):
                rows += len(batch["actions"])
        return rows

    return read


def keys(dataset):
    """The observations of all episodes, without masks and confidence."""
    with h5py.File(dataset / "dataset.h5") as file:
        every = {key for demo in file["data"].values() for key in demo["obs"]}
    return sorted(key for key in every if not key.endswith(("_valid", "_confidence")))


EDITS = [without_actions, without_pose, without_columns, with_narrow_actions, too_short, too_long, with_nan, with_masked_actions, beyond_one]


@pytest.fixture(scope="module")
def zoo(takeset, tmp_path_factory):
    """Datasets by name, some of which break robomimic."""
    root = tmp_path_factory.mktemp("zoo")
    (root / "out").mkdir()
    stack = simulated(takeset, root / "stack")
    scans = simulated(takeset, root / "scans", reader="stray-scanner", names=("scan-a", "scan-b"))
    wide = simulated(takeset, root / "wide", names=("session_2026-03-03_100000",), common=("--seconds", 1, "--size", "80x48"))
    gaps = simulated(takeset, root / "gaps", "--quirk", "frames-dropped")
    dead = simulated(takeset, root / "dead", "--quirk", "joint-dead")
    plain = PIPELINES["robomimic"]
    everything = changed(plain, without=("select",))
    made = {
        "plain": (stack, plain, {}), "joints": (stack, everything, {}), "scans": (scans, everything, {}), "mixed": ([stack, scans], everything, {}),
        "mixed but selected": ([stack, scans], plain, {}), "jpeg": (stack, plain, {"image": "jpeg"}), "png": (stack, plain, {"image": "png"}),
        "sizes": ([stack, wide], plain, {}), "resized": ([stack, wide], changed(plain, {"resize-image": {"width": 64, "height": 48, "mode": "cover"}}), {}),
        "gaps": (gaps, plain, {}), "dead": (dead, everything, {}), "no poses": (stack, ["align", {"select": {"streams": ["camera_image", "joints"]}}], {}),
        "widths": ([stack, scans], changed(plain, {"select": {"streams": ["pose", "camera_image", "joints"]}}, {"actions": {"joints": "absolute"}}), {}),
    }
    found = {name: converted(takeset, takes, root / "out" / name.replace(" ", "-"), steps, **writer) for name, (takes, steps, writer) in made.items()}
    return found | {edit.__name__: edited(found["plain"], root / "out" / edit.__name__, edit) for edit in EDITS}


# Of a cache, missing actions are zeros of one column, which only shows next to others.
@pytest.mark.parametrize("cache", [None, "low_dim"])
def test_robomimic_stops_exactly_where_something_breaks(takeset, zoo, robomimic, cache):
    outcomes = {}
    for name, dataset in zoo.items():
        found = checkup(takeset, "robomimic", dataset)
        breaks = found.breaks - {"too-few-rows"}  # which is about batches of 100; here they have 16 rows
        try:
            rows = robomimic(dataset, keys(dataset), hdf5_cache_mode=cache)
        except Exception as error:
            assert breaks, f"{name}: robomimic stops ({type(error).__name__}: {error}), and nothing is called broken: {found.report['diagnoses']}"
            outcomes[name] = False
        else:
            assert not breaks, f"{name}: robomimic reads it, and called broken is {breaks}"
            assert rows == found.report["rows"]
            outcomes[name] = True
    assert outcomes["plain"] and not outcomes["jpeg"] and min(sum(outcomes.values()), len(outcomes) - sum(outcomes.values())) >= 6, outcomes


def test_keys_that_are_chosen_are_read(takeset, zoo, robomimic):
    assert "key-missing" in checkup(takeset, "robomimic", zoo["mixed"]).breaks
    chosen = checkup(takeset, "robomimic", zoo["mixed"], "--obs", "pose", "--obs", "camera_image")
    assert chosen.ready and robomimic(zoo["mixed"], ["pose", "camera_image"]) == chosen.report["rows"]


def test_next_observations_are_missing_for_offline_learning_only(takeset, zoo, robomimic, tmp_path):
    without = converted(takeset, tmp_path_of(zoo), tmp_path / "out", changed(PIPELINES["robomimic"], "actions"))
    assert set(checkup(takeset, "robomimic", without).codes) == {"next-obs-missing"}
    robomimic(without, ["pose"])
    with pytest.raises(KeyError):
        robomimic(without, ["pose"], load_next_obs=True)
    robomimic(zoo["plain"], ["pose", "camera_image"], load_next_obs=True)


def tmp_path_of(zoo):
    """The takes that the plain dataset was made of."""
    return zoo["plain"].parent.parent / "stack"


def test_empty_masks_stop_their_filter(takeset, zoo, robomimic, tmp_path):
    split = {"split": {"valid": 0.5, "group": "regex", "pattern": "session"}}
    dataset = converted(takeset, tmp_path_of(zoo), tmp_path / "out", changed(PIPELINES["robomimic"], split))
    assert set(checkup(takeset, "robomimic", dataset).codes) == {"mask-empty"}
    robomimic(dataset, ["pose"], filters=("train",))
    with pytest.raises(KeyError):
        robomimic(dataset, ["pose"], filters=("valid",))
    assert checkup(takeset, "robomimic", zoo["plain"]).codes == {}
    robomimic(zoo["plain"], ["pose"], filters=("train", "valid"))


def test_depth_is_clipped_as_said(takeset, zoo, robomimic):
    """The share of values above 1 is what robomimic makes 1."""
    from robomimic.utils import obs_utils

    with h5py.File(zoo["scans"] / "dataset.h5") as file:
        depth = next(iter(file["data"].values()))["obs/camera_depth"][:]
    processed = obs_utils.DepthModality.process_obs(depth.astype("f4"))
    share = float((processed == 1).sum() / (depth > 0).sum())
    message = checkup(takeset, "robomimic", zoo["scans"])["depth-clipped"]["message"]
    said = float(message.partition("with up to ")[2].partition(" %")[0])
    assert abs(said - 100 * share) < 2 and processed.max() == 1


def test_actions_out_of_range_end_the_script_that_describes_the_dataset(takeset, zoo):
    pytest.importorskip("robomimic")
    for name, code in ("plain", 0), ("beyond_one", 1):
        done = subprocess.run([sys.executable, "-m", "robomimic.scripts.get_dataset_info", "--dataset", str(zoo[name] / "dataset.h5")], capture_output=True)
        assert done.returncode == code
        assert ("actions-out-of-range" in checkup(takeset, "robomimic", zoo[name]).codes) == (code == 1)
    assert FIRST in checkup(takeset, "robomimic", zoo["beyond_one"])["actions-out-of-range"]["episodes"]
