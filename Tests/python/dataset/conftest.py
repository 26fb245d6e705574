"""Fixtures of several tests of datasets."""

import shutil

import pytest
from labelled import YAML


@pytest.fixture
def copy(tiny_dataset, tmp_path):
    return shutil.copytree(tiny_dataset, tmp_path / "dataset")


@pytest.fixture
def labelled_takes(tiny_takes, tmp_path):
    """Three takes, one of them with a file of labels."""
    for name in ["v1", "v2", "pour"]:
        shutil.copytree(tiny_takes / name, tmp_path / "takes" / name)
    (tmp_path / "takes/v1/labels.yaml").write_text(YAML)
    return tmp_path / "takes"
