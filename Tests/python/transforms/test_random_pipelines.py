"""Random pipelines over random takes: no crash, lawful exit codes, and what was written is sound."""

import json
from collections import Counter

import pytest
from random_pipelines import check


@pytest.fixture(scope="module")
def steps(takeset):
    return json.loads(takeset("steps", "--json", check=0).stdout)


@pytest.mark.slow
def test_some_random_pipelines(steps, tmp_path):
    codes = Counter(check(tmp_path / str(seed), seed, steps) for seed in range(20))
    assert codes[0] + codes[3] >= 15, codes  # the others were refused a dozen times


@pytest.mark.torture
@pytest.mark.parametrize("first", range(1000, 1300, 25))
def test_hundreds_of_random_pipelines(steps, tmp_path, first):
    codes = Counter(check(tmp_path / str(seed), seed, steps) for seed in range(first, first + 25))
    assert codes[0] + codes[3] >= 18, codes
