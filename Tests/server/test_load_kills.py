"""Twenty clients of every kind upload while the server is killed or ended again and again, and started on the same port and data."""

import random
import time

import pytest

from load import OPTIONS, Load, remove


def suite(start, kills, seed, longest):
    choice = random.Random(seed)
    server = start(*OPTIONS)
    with Load(server, seed) as load:
        for _ in range(kills):
            time.sleep(choice.uniform(0.05, longest))
            server.restart()
            assert not load.problems, "\n".join(load.problems)
        load.until(captures=5)
    server.restart()
    load.check()
    print("\n" + load.summary(kills=kills))
    assert load.counts["cuts"] >= kills and load.counts["resumed"] > 0
    remove(server)


def test_kills_under_load_lose_nothing_acknowledged(start):
    suite(start, 5, 15, 0.6)


@pytest.mark.slow
def test_a_hundred_kills_under_load_lose_nothing_acknowledged(start):
    suite(start, 100, 16, 1)
