"""HDR videos: Takeset's mapping to SDR, compared with decoding alone and with FFmpeg's own tone mapping, in interleaved rounds with one thread.

Usage: python Benchmarks/hdr.py [--rounds N]     needs ffmpeg with libx265 and zimg
"""

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path

from run import HERE, execute

SIZE, SMALL, SECONDS = "1920x1080", (320, 180), 10
COLORS = {"hlg": ("bt2020nc", "bt2020", "arib-std-b67"), "pq": ("bt2020nc", "bt2020", "smpte2084"), "sdr": ("bt709", "bt709", "bt709")}
# To linear light, BT.709's primaries, a tone curve, and back: the usual recipe.
FILTER = "zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,tonemap=mobius,zscale=t=bt709:m=bt709:r=tv,format=yuv420p"


def make(path, kind):
    matrix, primaries, transfer = COLORS[kind]
    color = ["-colorspace", matrix, "-color_primaries", primaries, "-color_trc", transfer, "-color_range", "tv"]
    source = ["-f", "lavfi", "-i", f"testsrc2=size={SIZE}:rate=30:duration={SECONDS},noise=alls=12:all_seed=3,format=yuv420p10le"]
    execute(["ffmpeg", "-v", "error", *source, "-c:v", "libx265", "-preset", "fast", "-b:v", "20M", "-x265-params", "log-level=error", "-tag:v", "hvc1", *color, path])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    takeset = HERE.parent / ".build/release/takeset"
    with tempfile.TemporaryDirectory(prefix="takeset-hdr-") as folder:
        os.chdir(folder)
        Path("p.yaml").write_text(f"version: 1\ntransforms: [{{resize-image: {{width: {SMALL[0]}, height: {SMALL[1]}}}}}]\nwriter: {{hdf5: {{image: raw}}}}\n")
        commands = {}
        for kind in COLORS:
            make(f"{kind}.mov", kind)
            commands[kind, "Takeset"] = [takeset, "run", f"{kind}.mov", "--output", "out", "--pipeline", "p.yaml", "--jobs", 1, "--progress", "none"]
            decode = ["ffmpeg", "-nostdin", "-v", "error", "-threads", 1, "-i", f"{kind}.mov"]
            commands[kind, "decoding alone"] = [*decode, "-f", "null", "-"]
            size = f"scale={SMALL[0]}:{SMALL[1]}:flags=bilinear"
            filters = size if kind == "sdr" else f"{size},{FILTER}"
            commands[kind, "FFmpeg's filters"] = [*decode, "-filter_threads", 1, "-vf", f"{filters},format=rgb24", "-f", "null", "-"]
        found = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                shutil.rmtree("out", ignore_errors=True)  # or there would be nothing to do
                found[name].append(execute(command)[0]["cpu_seconds"])
        print(f"CPU seconds of {30 * SECONDS} frames of {SIZE}, HEVC 10 bit, to {SMALL[0]}x{SMALL[1]}, median of {options.rounds}\n")
        print("| video | Takeset, with writing and digests | decoding alone | FFmpeg's filters, nothing written | decoding by Takeset |")
        print("|---|--:|--:|--:|--:|")
        for kind in COLORS:
            ours, alone, filters = (statistics.median(found[kind, name]) for name in ("Takeset", "decoding alone", "FFmpeg's filters"))
            print(f"| {kind.upper()} | {ours:.2f} | {alone:.2f} | {filters:.2f} | {alone / ours:.2f} |")


if __name__ == "__main__":
    main()
