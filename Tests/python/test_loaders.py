"""Datasets read by training code as it is: robomimic's own loader, and PyTorch's DataLoader over it. Run by `make test-loaders`."""

import warnings

import numpy as np
import pytest

pytestmark = pytest.mark.loaders


@pytest.fixture(scope="module")
def sequence_dataset():
    pytest.importorskip("robomimic")
    warnings.filterwarnings("ignore")
    from robomimic.utils import obs_utils
    from robomimic.utils.dataset import SequenceDataset

    obs_utils.initialize_obs_modality_mapping_from_dict({"rgb": ["camera_image"], "low_dim": ["pose", "joints"], "depth": ["camera_depth"]})

    def make(dataset, **changes):
        options = {
            "hdf5_path": str(dataset / "dataset.h5"), "obs_keys": ("pose",), "dataset_keys": (), "load_next_obs": False, "frame_stack": 1,
            "seq_length": 4, "pad_frame_stack": True, "pad_seq_length": True, "get_pad_mask": False, "goal_mode": None,
            "hdf5_cache_mode": None, "hdf5_use_swmr": True, "hdf5_normalize_obs": False, "filter_by_attribute": None,
        }
        return SequenceDataset(**{**options, **changes})

    return make


@pytest.mark.parametrize("cache", [None, "low_dim", "all"])
def test_robomimic_reads_observations(dataset, sequence_dataset, cache):
    import h5py

    data = sequence_dataset(dataset, hdf5_cache_mode=cache, frame_stack=2)
    with h5py.File(dataset / "dataset.h5") as file:
        assert len(data) == file["data"].attrs["total"]
        first = file["data/demo_000000/obs/pose"][:]
    assert np.array_equal(data[3]["obs"]["pose"], first[[2, 3, 4, 5, 6]])


def test_robomimic_filters_by_masks(dataset, sequence_dataset):
    import h5py

    with h5py.File(dataset / "dataset.h5") as file:
        names = {split: [name.decode() for name in file[f"mask/{split}"][:]] for split in ("train", "valid")}
        rows = {name: int(demo.attrs["num_samples"]) for name, demo in file["data"].items()}
    for split, episodes in names.items():
        assert len(sequence_dataset(dataset, filter_by_attribute=split)) == sum(rows[name] for name in episodes)


def test_robomimic_batches_images_with_workers(dataset, sequence_dataset, takeset, masters, tmp_path):
    torch = pytest.importorskip("torch.utils.data")
    takeset.convert(masters["v2"], output=tmp_path / "out")
    data = sequence_dataset(tmp_path / "out", obs_keys=("pose", "camera_image"))
    batch = next(iter(torch.DataLoader(data, batch_size=8, num_workers=2)))
    assert batch["obs"]["pose"].shape == (8, 4, 7) and batch["obs"]["camera_image"].shape[:2] == (8, 4)


def test_robomimic_has_no_actions_to_learn_from(dataset, sequence_dataset):
    """The README says so; when this fails, the README has to change."""
    with pytest.raises(KeyError):
        sequence_dataset(dataset, dataset_keys=("actions",))[0]
