"""Exports datasets for LeRobot, version 3.0 of its format.

    takeset run sessions/ --output dataset/ --pipeline lerobot.yaml
    python -m takeset.lerobot dataset/ lerobot/ --fps 30 --task "pick up the cup"

    import takeset.lerobot
    summary = takeset.lerobot.export("dataset/", "lerobot/", fps=30, task="pick up the cup")

Needs pyarrow, Pillow and, for videos, PyAV: `pip install 'takeset[lerobot]'`. LeRobot itself need not be installed.
"""

from ._export import Summary, export

__all__ = ["Summary", "export"]
