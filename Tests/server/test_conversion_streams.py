"""Live streams that were kept become takes of their project's dataset."""

import asyncio
import io

import h5py
import numpy
import pytest
from conftest import TAKESET
from live import counts, frame, jpeg, next_binary, socket
from PIL import Image

from queued import bundle, connect, evidence, finished, merged, queue

START = 1_761_000_000.0
PIPELINE = "version: 1\nreader: auto\ntransforms: [align]\nwriter: {hdf5: {image: jpeg-source}}\n"


def camera(server, times):
    """Sends frames to a camera that is recorded, and waits until each has been relayed."""

    async def send():
        async with socket(server, "/viewer") as viewer, socket(server, "/camera?record=1") as sender:
            await counts(server, 1, 1)
            for number, moment in enumerate(times):
                await sender.send(frame(moment, number))
                assert (await next_binary(viewer))[0] == frame(moment, number)
        await counts(server, 0, 0)

    asyncio.run(send())

    def kept():
        with connect(server.data) as database:
            return [found["id"] for found in database.execute("SELECT id FROM capture WHERE type = 'stream'")]

    return server.until(kept)[0]


@pytest.mark.parametrize("options, name", [([], "default"), (["--pipeline", "p.yaml"], "given")])
def test_a_recorded_stream_is_a_take_of_the_dataset(start, tmp_path, options, name):
    (tmp_path / "p.yaml").write_text(PIPELINE)
    options = [tmp_path / option if option.endswith(".yaml") else option for option in options]
    server = start("--takeset", TAKESET, *options, conversions=1)
    times = [START + number / 15 + (0.011 if number % 3 else 0) for number in range(30)]
    capture = camera(server, times)
    found = finished(server, capture)
    assert (found["status"], found["reason"], found["rows"]) == ("complete", None, 30), found
    (take,) = evidence(found)["takes"]
    assert (take["id"], take["reader"], take["variant"], take["outcome"]) == (capture, "stack-session", "live-stream", "written")
    assert [finding["code"] for finding in evidence(found)["findings"] if finding["severity"] != "info"] == []
    assert (server.data / "conversions" / capture / "thumbnail.jpg").exists()
    others = []
    if name == "default":
        # Other kinds of captures are in the same dataset.
        others = [queue(server.data, "video", bundle(tmp_path / "b"))]
        finished(server, *others)
    dataset = merged(server, capture, *others)
    with h5py.File(dataset / "dataset.h5") as file:
        demo = next(name for name, group in file["data"].items() if group.attrs["take_id"] == capture)
        stamps = file[f"meta/{demo}/timestamp_ns"][()]
        pictures = file[f"data/{demo}/obs/camera_image"][()]
        assert "pose" not in file[f"data/{demo}/obs"]
    assert numpy.abs((stamps - stamps[0]) / 1e9 - (numpy.array(times) - times[0])).max() < 2e-6
    assert len(pictures) == 30
    if name == "given":
        assert [bytes(numpy.asarray(picture)) for picture in pictures] == [jpeg(number) for number in range(30)]
        return
    # Each row has its own frame: that of no other number is nearer.
    sent = numpy.stack([numpy.asarray(Image.open(io.BytesIO(jpeg(number))).resize((8, 6), Image.Resampling.BOX), float) for number in range(30)])
    kept = numpy.stack([numpy.asarray(Image.fromarray(picture).resize((8, 6), Image.Resampling.BOX), float) for picture in pictures])
    distances = numpy.abs(kept[:, None] - sent[None]).mean((2, 3, 4))
    assert distances.argmin(1).tolist() == list(range(30))
