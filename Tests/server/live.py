"""Cameras and viewers of the slow-motion app, by Python's websockets."""

import asyncio
import contextlib
import functools
import io
import json
import struct
import time

import numpy
import websockets
from PIL import Image

SECONDS_TO_2001 = 978_307_200
# By default a client leaves after 20 s without an answer to its ping.
QUIET = {"open_timeout": 300, "close_timeout": 300, "ping_interval": None}


@functools.cache
def jpeg(number=0, size=(64, 48)):
    """An image of more than 1000 bytes that differs for each number."""
    pixels = numpy.random.default_rng(number).integers(0, 255, (size[1], size[0], 3), dtype=numpy.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "JPEG", quality=80)
    assert data.tell() > 1000
    return data.getvalue()


def frame(at, number=0, size=(64, 48)):
    return struct.pack("<d", at) + jpeg(number, size)


@contextlib.asynccontextmanager
async def socket(server, path, **options):
    async with websockets.connect(f"ws://127.0.0.1:{server.port}{path}", max_size=None, **{**QUIET, **options}) as connection:
        # The server answers once it knows the socket; the handshake is over before. A viewer is told of the cameras that it finds.
        await asyncio.wait_for(await connection.ping(), 300)
        yield connection


async def next_binary(connection, timeout=300):
    """The next frame, and the texts before it."""
    texts = []
    while True:
        message = await asyncio.wait_for(connection.recv(), timeout)
        if isinstance(message, bytes):
            return message, texts
        texts.append(json.loads(message))


async def next_text(connection, timeout=300):
    while True:
        message = await asyncio.wait_for(connection.recv(), timeout)
        if isinstance(message, str):
            return json.loads(message)


async def counts(server, cameras, viewers, key=""):
    """Waits until the server knows so many."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        status = await asyncio.to_thread(lambda: server.get(f"/status{key and '?key=' + key}").json())
        if (status["cameras"], status["viewers"]) == (cameras, viewers):
            return status
        await asyncio.sleep(0.025)
    raise AssertionError(status)


def live(test):
    """Runs an asynchronous test."""

    @functools.wraps(test)
    def run(**fixtures):
        asyncio.run(asyncio.wait_for(test(**fixtures), 600))

    return run
