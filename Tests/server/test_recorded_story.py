"""From the phone to the dataset: a recording that is killed, recovered, sent over a bad network, and converted."""

import json
import subprocess

import h5py
import uploads
from conftest import TAKESET
from bundles import in_movie
from images import frame_code
from proxies import RandomCuts
from queued import manifest, merged
from system import until
from test_upload_server import captures

SMALL = ["--size", "160x120", "--seconds", "60", "--pace", "realtime", "--trace"]


def test_a_killed_recording_reaches_the_dataset_through_a_bad_network(start, client, tmp_path):
    command = [TAKESET, "simulate", "realitycam-bundle", "--output", tmp_path / "phone/take", *SMALL]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    taken = 0
    while taken < 180:
        assert (line := process.stdout.readline()).startswith("frame"), line
        taken += 1
    until(lambda: in_movie(tmp_path / "phone/take.recording/journal") >= taken - 30, "all but a second is in the movie")
    process.kill()
    said = process.stdout.read()  # until then
    taken += sum(line.startswith("frame") for line in said[: said.rfind("\n") + 1].splitlines())
    process.wait()
    assert (tmp_path / "phone/take.recording/journal").exists()

    server = start(conversions=1)
    line = RandomCuts(server.port, b"PATCH /files/", 3, 7)
    done = client.run(tmp_path / "phone", "--to", line.url, "--limit-rate", "8M", *uploads.QUICK, timeout=300)
    line.close()
    assert done.returncode == 0 and "recovered" in done.stderr, done.stderr
    assert len(line.cuts) == 3
    (item,) = captures(server)
    dataset = merged(server, item["capture_id"])

    # The rows show the frames that the journal has, and the badge is the checkpoint's.
    chain = json.loads((tmp_path / "phone/take/hash_chain.json").read_text())
    frames = chain["frame_count"]
    assert taken - 30 <= frames <= taken + 1 and [point["frame_number"] for point in chain["checkpoints"]] == list(range(150, frames + 1, 150))
    (take,) = manifest(dataset)["record"]["takes"]
    assert take["verification"]["partial"]["state"] == "partial"
    (shard,) = (dataset / "episodes").rglob("*.h5")
    with h5py.File(shard) as file:
        (episode,) = file["data"].values()
        assert [frame_code(image) for image in episode["obs/camera_image"][:]] == list(range(frames))
    # What was recovered is not sent again, and the recording is kept.
    again = client.run(tmp_path / "phone", "--to", server.url, *uploads.QUICK, timeout=300)
    assert again.returncode == 0 and len(captures(server)) == 1
    assert sorted(path.name for path in (tmp_path / "phone").iterdir()) == ["take", "take.recording.recovered"]
