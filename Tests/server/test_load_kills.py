"""Twenty clients of every kind upload while the server is killed or ended again and again, and started on the same port and data."""

import pytest
from load import OPTIONS, Load, remove
from phone import rows


@pytest.mark.parametrize("kills, seed", [(5, 15), pytest.param(100, 16, marks=pytest.mark.slow)])
def test_kills_under_load_lose_nothing_acknowledged(start, kills, seed):
    """Killed where an upload is half there."""
    server = start(*OPTIONS)
    with Load(server, seed) as load:
        for number in range(kills):
            load.until(captures=1 + number % 4)
            server.until(lambda: rows(server, "SELECT 1 FROM upload WHERE offset > 0 AND capture IS NULL LIMIT 1"))
            server.restart()
            assert not load.problems, "\n".join(load.problems)
        load.until(captures=5)
    server.restart()
    load.check()
    print("\n" + load.summary(kills=kills))
    assert load.counts["cuts"] >= kills and load.counts["resumed"] > 0
    remove(server)
