"""The steps of examples/steps, loaded from their files, and called with blocks made by hand."""

import importlib.util

import numpy as np
from command import ROOT

from takeset import steps

FOLDER = ROOT / "examples/steps"


def load(path):
    """The module of a step's file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def images_block(images, valid=None, first=0, **options):
    """A block of camera images; `-` in the name of an option is `_` here."""
    images = np.array(images)
    valid = np.ones(len(images), bool) if valid is None else np.array(valid)
    return steps.Block(
        {"camera_image": np.where(valid[:, None, None, None], images, 0).astype(np.uint8)}, valid={"camera_image": valid}, first=first,
        time_ns=np.arange(first, first + len(images)) * 33_000_000, options={name.replace("_", "-"): value for name, value in options.items()})
