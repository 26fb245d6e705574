"""The vectors that Swift tests compare steps with are what SciPy computes."""

import json
import runpy

import numpy as np
from command import ROOT


def test_the_vectors_are_those_of_their_program(tmp_path):
    runpy.run_path(str(ROOT / "Tests/vectors/make.py"))["main"](tmp_path / "made.json")
    made, kept = (json.loads(path.read_text()) for path in (tmp_path / "made.json", ROOT / "Tests/vectors/transforms.json"))

    def compare(made, kept):
        assert type(made) is type(kept)
        if isinstance(made, dict):
            assert made.keys() == kept.keys()
            for key in made:
                compare(made[key], kept[key])
        elif isinstance(made, list) and made and isinstance(made[0], dict):
            assert len(made) == len(kept)
            for a, b in zip(made, kept):
                compare(a, b)
        elif isinstance(made, list):
            assert np.allclose(made, kept, rtol=0, atol=1e-8)
        else:
            assert made == kept

    compare(made, kept)
