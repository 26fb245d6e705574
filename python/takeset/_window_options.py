"""The options of windows that do not depend on PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from ._motion import RotationLayout

ActionKind = Literal["relative-6d", "stored", "stored-chunk"]
FirstAction = Literal["next", "current"]
JointUse = Literal["separate", "append", "none"]
Method = Literal["minmax", "gaussian", "quantile"]


@dataclass(frozen=True)
class WindowOptions:
    """What a window has. `takeset.torch.Windows` describes each option.

    Raises `ValueError` for values that are no option, and for options that exclude each other.
    """

    observation_horizon: int = 2
    action_horizon: int = 16
    keys: Sequence[str] = ("camera_image", "pose")
    stride: int = 1
    actions: ActionKind | None = "relative-6d"
    rotation_layout: RotationLayout = "columns"
    first_action: FirstAction = "next"
    joints: JointUse | None = None
    skip_masked: bool | Collection[str] | None = None
    pad: bool = False
    normalize: bool | Collection[str] = False
    normalization: Method | None = None
    normalize_rotation: bool = True
    labels: bool = False

    def __post_init__(self) -> None:
        for name in ("observation_horizon", "action_horizon", "stride"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        for name in ("keys", "skip_masked", "normalize"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is a collection of names, found {getattr(self, name)!r}; write [{getattr(self, name)!r}]")
        self._one_of("actions", "relative-6d", "stored", "stored-chunk", None)
        self._one_of("rotation_layout", "columns", "rows")
        self._one_of("first_action", "next", "current")
        self._one_of("joints", "separate", "append", "none", None)
        self._one_of("normalization", "minmax", "gaussian", "quantile", None)
        if self.actions == "relative-6d":
            if self.normalization == "quantile" and self.normalizes("actions"):
                raise ValueError("normalization='quantile' needs stored actions: quantiles of relative-6d actions are not computed")
            return
        for name, default in (("rotation_layout", "columns"), ("first_action", "next")):
            if (value := getattr(self, name)) != default:
                raise ValueError(f"{name}={value!r} needs actions='relative-6d': stored actions are as the pipeline made them")
        if self.joints == "append":
            raise ValueError("joints='append' needs actions='relative-6d'; the pipeline stores joints with actions: {joints: absolute}")
        if self.pad and self.actions == "stored-chunk":
            raise ValueError("pad=True needs actions='relative-6d' or 'stored': a stored chunk has nothing past the end")

    def normalizes(self, name: str) -> bool:
        """Whether `normalize` is True or has this name."""
        return self.normalize if isinstance(self.normalize, bool) else name in self.normalize

    @property
    def joints_are_separate(self) -> bool:
        """Whether the joints of the action rows are an entry of their own, if there are any."""
        wanted = self.joints or ("separate" if self.actions == "relative-6d" else "none")
        return wanted == "separate" and self.actions is not None

    def _one_of(self, name: str, *known: str | None) -> None:
        if getattr(self, name) not in known:
            raise ValueError(f"{name} is {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, found {getattr(self, name)!r}")
