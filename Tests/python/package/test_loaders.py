"""Datasets read by training code as it is: robomimic's loader, its scripts, and PyTorch's DataLoader. Run by `make test-loaders`."""

import json
import re
import subprocess
import sys
import warnings

import h5py
import numpy as np
import pytest

pytestmark = pytest.mark.loaders

MODALITIES = {"rgb": ["camera_image"], "low_dim": ["pose", "joints"], "depth": ["camera_depth"]}
OUTCOME = ("actions", "rewards", "dones")
CACHES = [None, "low_dim", "all"]


@pytest.fixture(scope="module")
def sequence_dataset():
    pytest.importorskip("robomimic")
    warnings.filterwarnings("ignore")
    from robomimic.utils import obs_utils
    from robomimic.utils.dataset import SequenceDataset

    obs_utils.initialize_obs_modality_mapping_from_dict(MODALITIES)

    def make(dataset, **changes):
        options = {
            "hdf5_path": str(dataset / "dataset.h5"), "obs_keys": ("pose",), "dataset_keys": (), "load_next_obs": False, "frame_stack": 1,
            "seq_length": 4, "pad_frame_stack": True, "pad_seq_length": True, "get_pad_mask": False, "goal_mode": None,
            "hdf5_cache_mode": None, "hdf5_use_swmr": True, "hdf5_normalize_obs": False, "filter_by_attribute": None,
        }
        return SequenceDataset(**{**options, **changes})

    return make


@pytest.fixture(scope="module")
def mixed(takeset, tmp_path_factory):
    """Takes of two apps in three sizes, converted without a pipeline file."""
    root = tmp_path_factory.mktemp("mixed")
    short = ["--seconds", 0.5]
    takeset.simulate(root / "in/session_2026-03-01_100000", *short, "--size", "960x720", "--depth-size", "64x48")
    takeset.simulate(root / "in/session_2026-03-02_100000", *short, "--variant", "v2", "--seed", 2)
    takeset("simulate", "stray-scanner", "--output", root / "in/scan", *short, "--size", "640x480", "--depth-size", "64x48", check=0)
    takeset.convert(root / "in", output=root / "out")
    return root / "out"


@pytest.fixture(scope="module")
def with_next(takeset, tmp_path_factory):
    """Three small takes of as many days, with the observations of the next row."""
    root = tmp_path_factory.mktemp("next")
    for day in 1, 2, 3:
        takeset.simulate(
            root / f"in/session_2026-03-0{day}_100000", "--variant", "v2", "--seconds", 0.5, "--size", "96x72", "--seed", day)
    (root / "p.yaml").write_text("version: 1\ntransforms: [align, actions: {next-obs: true}, split: {valid: 0.34}]\n")
    takeset.convert(root / "in", output=root / "out", arguments=["--pipeline", root / "p.yaml"])
    return root / "out"


def episodes(dataset):
    """Arrays by path of each episode, in the order of a loader's items."""
    with h5py.File(dataset / "dataset.h5") as file:
        for demo in file["data"].values():
            found = {}
            demo.visititems(lambda name, item: found.update({name: item[:]}) if isinstance(item, h5py.Dataset) else None)
            yield found


def windows(array, length=4):
    """Each row and those after it; at the end the last one repeated."""
    rows = np.minimum(np.arange(len(array))[:, None] + np.arange(length), len(array) - 1)
    return array[rows]


# Its loader


@pytest.mark.parametrize("cache", CACHES)
def test_robomimic_reads_observations(dataset, sequence_dataset, cache):
    data = sequence_dataset(dataset, hdf5_cache_mode=cache, frame_stack=2)
    with h5py.File(dataset / "dataset.h5") as file:
        assert len(data) == file["data"].attrs["total"]
        first = file["data/demo_000000/obs/pose"][:]
    assert np.array_equal(data[3]["obs"]["pose"], first[[2, 3, 4, 5, 6]])


@pytest.mark.parametrize("cache", CACHES)
def test_robomimic_reads_actions_rewards_and_dones(dataset, sequence_dataset, cache):
    """Of the takes of one size; a cache without the key would give zeros, silently."""
    data = sequence_dataset(dataset, hdf5_cache_mode=cache, dataset_keys=OUTCOME)
    expected = {key: np.concatenate([windows(one[key]) for one in episodes(dataset)]) for key in OUTCOME}
    assert expected["actions"].shape == (len(data), 4, 9) and np.abs(expected["actions"]).max() > 0.5
    assert expected["dones"].sum() > 0 and not expected["rewards"].any()
    for key in OUTCOME:
        found = np.stack([data[index][key] for index in range(len(data))])
        assert np.array_equal(found, expected[key]), key


@pytest.mark.parametrize("cache", CACHES)
def test_robomimic_reads_the_next_observations(with_next, sequence_dataset, cache):
    data = sequence_dataset(with_next, hdf5_cache_mode=cache, load_next_obs=True, obs_keys=("pose", "camera_image"), goal_mode="last")
    for key in "pose", "camera_image":
        current = np.concatenate([windows(one[f"obs/{key}"]) for one in episodes(with_next)])
        following = np.concatenate([windows(one[f"next_obs/{key}"]) for one in episodes(with_next)])
        for index in 0, 17, len(data) - 1:
            item = data[index]
            assert np.array_equal(item["obs"][key], current[index]) and np.array_equal(item["next_obs"][key], following[index])
            if index < len(data) - 1:
                assert np.array_equal(item["next_obs"][key][0], item["obs"][key][1])
    assert np.array_equal(data[0]["goal_obs"]["pose"], next(episodes(with_next))["obs/pose"][-1])


def test_robomimic_filters_by_masks(dataset, sequence_dataset):
    with h5py.File(dataset / "dataset.h5") as file:
        names = {split: [name.decode() for name in file[f"mask/{split}"][:]] for split in ("train", "valid")}
        rows = {name: int(demo.attrs["num_samples"]) for name, demo in file["data"].items()}
    for split, chosen in names.items():
        assert len(sequence_dataset(dataset, filter_by_attribute=split)) == sum(rows[name] for name in chosen) > 0


def test_robomimic_batches_images_and_actions_with_workers(mixed, sequence_dataset):
    torch = pytest.importorskip("torch.utils.data")
    data = sequence_dataset(mixed, obs_keys=("pose", "camera_image"), dataset_keys=OUTCOME)
    batches = list(torch.DataLoader(data, batch_size=8, num_workers=2, shuffle=True))
    assert sum(len(batch["actions"]) for batch in batches) == len(data)
    assert batches[0]["obs"]["camera_image"].shape == (8, 4, 240, 320, 3)
    assert batches[0]["actions"].shape == (8, 4, 9) and batches[0]["obs"]["pose"].shape == (8, 4, 7)


# Its scripts, run as they are installed


def script(name, *arguments):
    """What one of robomimic's scripts prints. It must succeed; train says so only in words."""
    pytest.importorskip("robomimic")
    command = [sys.executable, "-m", f"robomimic.scripts.{name}", *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def trained(dataset, directory, algorithm="bc", images=False, filters=False):
    """The figures of each training epoch, and of each validating one, of 50 gradient steps."""
    pytest.importorskip("robomimic")
    from robomimic.config import config_factory

    config = config_factory(algorithm)
    with config.values_unlocked():
        config.train.data, config.train.output_dir = str(dataset / "dataset.h5"), str(directory / "trained")
        config.train.cuda, config.train.batch_size, config.train.num_epochs = False, 8, 2
        config.train.hdf5_normalize_obs = False
        config.experiment.epoch_every_n_steps, config.experiment.validation_epoch_every_n_steps = 25, 3
        config.experiment.rollout.enabled = config.experiment.save.enabled = False
        modalities = config.observation.modalities.obs
        modalities.low_dim, modalities.rgb = ["pose"], ["camera_image"] if images else []
        if images:
            config.train.hdf5_cache_mode = "low_dim"
            encoder = config.observation.encoder.rgb
            encoder.core_kwargs.backbone_class = "ResNet18Conv"
            encoder.core_kwargs.backbone_kwargs.pretrained = False
            encoder.obs_randomizer_class = "CropRandomizer"
            for key, value in {"crop_height": 84, "crop_width": 84, "num_crops": 1, "pos_enc": False}.items():
                encoder.obs_randomizer_kwargs[key] = value
        if filters:
            config.experiment.validate = True
            config.train.hdf5_filter_key, config.train.hdf5_validation_filter_key = "train", "valid"
    (directory / "config.json").write_text(config.dump())
    printed = script("train", "--config", directory / "config.json")
    assert "finished run successfully!" in printed, printed[-3000:]
    return [
        [json.loads(text) for text in re.findall(rf"^{kind} Epoch \d+\n(\{{.*?^\}})", printed, re.M | re.S)] for kind in ("Train", "Validation")
    ]


def falls(epochs):
    losses = [epoch["Loss"] for epoch in epochs]
    assert len(losses) == 2 and np.isfinite(losses).all() and losses[1] < losses[0], losses


def test_robomimic_describes_the_dataset(mixed):
    printed = script("get_dataset_info", "--dataset", mixed / "dataset.h5", "--verbose")
    with h5py.File(mixed / "dataset.h5") as file:
        assert f"total transitions: {file['data'].attrs['total']}\n" in printed
        assert f"total trajectories: {len(file['data'])}\n" in printed
        for name in "train", "valid":
            assert f"filter key {name} with {len(file['mask'][name])} demos" in printed
    assert re.search(r"key: actions with shape \(\d+, 9\)", printed)
    script("get_dataset_info", "--dataset", mixed / "dataset.h5", "--filter_key", "train")


def test_robomimic_describes_a_shard_and_a_pack(mixed, takeset, tmp_path):
    takeset("pack", mixed, "--output", tmp_path / "packed.h5", check=0)
    for path in tmp_path / "packed.h5", next((mixed / "episodes").iterdir()):
        assert "total transitions" in script("get_dataset_info", "--dataset", path)


def test_robomimic_plays_images_back(mixed, tmp_path):
    video = tmp_path / "obs.mp4"
    printed = script(
        "playback_dataset", "--dataset", mixed / "dataset.h5", "--use-obs", "--render_image_names", "camera_image", "--video_path", video)
    assert printed.count("Playing back episode") == 3 and video.stat().st_size > 10_000


def test_robomimic_learns_from_images(mixed, tmp_path):
    training, _ = trained(mixed, tmp_path, images=True)
    falls(training)


def test_robomimic_validates_on_the_other_split(with_next, tmp_path):
    training, validation = trained(with_next, tmp_path, filters=True)
    falls(training)
    falls(validation)


def test_robomimic_learns_from_next_observations(with_next, tmp_path):
    """Offline reinforcement learning, which needs next_obs and rewards."""
    training, _ = trained(with_next, tmp_path, algorithm="iql")
    assert len(training) == 2 and all(np.isfinite(epoch["critic/critic1_loss"]) for epoch in training), training[0].keys()
