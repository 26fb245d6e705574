"""Converting lone videos."""

from conversions import converted


def convert(takeset, tmp_path, data, name="pour.mov", arguments=()):
    """The record, demo, meta and path of one converted video."""
    (tmp_path / name).write_bytes(data)
    return *converted(takeset, tmp_path / name, arguments), tmp_path / name
