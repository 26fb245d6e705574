"""Grasp a cube with a hand-held gripper and place it on a disc, in MuJoCo.

The hand's frame has its origin between the fingertips; the fingers point along -z and close along x. A phone on the hand sees both. Lengths are in meters, the
world has z up. The trigger that closes the fingers goes from 0 (open) to 1 (closed).
"""

import atexit
import io
import os
from dataclasses import dataclass

os.environ.setdefault("MUJOCO_GL", "osmesa")  # it needs no display
import mujoco
import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

CUBE = 0.018  # half a side
RATE = 60  # the phone's images per second
STEP = 1 / 240  # of the simulation, in seconds
SECONDS = 4.0  # that an attempt may take
SUCCESS = 0.025  # from the cube's center to the disc's; the expert stops at half of it
IMAGE, DEPTH = (128, 96), (64, 48)
FIELD = 88  # of view of the phone, vertically, in degrees

# The phone in the hand's frame: behind the fingers, looking ahead of them. Camera axes are ARKit's: x right, y up, z back.
CAMERA_POSITION = np.array([0, -0.075, 0.10])
CAMERA_ROTATION = Rotation.from_euler("x", 30, degrees=True)

# Angles of a glove's four joints at triggers 0 and 1, in degrees.
JOINTS_OPEN, JOINTS_CLOSED = np.array([12.0, 8, 15, 10]), np.array([72.0, 88, 70, 95])

_XML = f"""
<mujoco>
  <option timestep="{STEP}" cone="elliptic" impratio="10" integrator="implicitfast"/>
  <visual><quality shadowsize="0" offsamples="0"/><map znear="0.005"/><global offwidth="640" offheight="480"/></visual>
  <asset>
    <texture name="wood" type="2d" builtin="checker" rgb1=".55 .5 .45" rgb2=".5 .45 .4" width="64" height="64"/>
    <material name="wood" texture="wood" texrepeat="12 12"/>
  </asset>
  <worldbody>
    <light pos="0 -.3 1.2" dir="0 .2 -1" diffuse=".7 .7 .7" castshadow="false"/>
    <camera name="outside" pos=".33 -.42 .36" xyaxes=".79 .61 0 -.33 .42 .84"/>
    <geom type="plane" size=".6 .6 .1" material="wood" friction="1 .005 .0001"/>
    <body name="goal" mocap="true"><geom type="cylinder" size=".028 .001" rgba=".1 .7 .2 1" contype="0" conaffinity="0"/></body>
    <body name="cube" pos="0 0 {CUBE}">
      <freejoint/>
      <geom name="cube" type="box" size="{CUBE} {CUBE} {CUBE}" mass=".06" rgba=".85 .15 .1 1" friction="1.2 .02 .001" condim="4"/>
    </body>
    <body name="wrist" mocap="true"/>
    <body name="hand" gravcomp="1">
      <freejoint/>
      <geom type="box" size=".05 .02 .008" pos="0 -.01 .118" mass=".4" rgba=".2 .2 .25 1" contype="0" conaffinity="0"/>
      <camera name="phone" fovy="{FIELD}" pos="{" ".join(map(str, CAMERA_POSITION))}" quat="{" ".join(map(str, CAMERA_ROTATION.as_quat(scalar_first=True)))}"/>
      <body name="left" gravcomp="1">
        <joint name="left" type="slide" axis="-1 0 0" range="0 .04" damping="4"/>
        <geom type="box" size=".005 .011 .03" pos="-.005 0 .022" mass=".04" rgba=".15 .25 .6 1" friction="1.2 .02 .001" condim="4"/>
        <geom type="box" size=".003 .006 .03" pos="-.005 0 .08" mass=".01" rgba=".2 .2 .25 1" contype="0" conaffinity="0"/>
      </body>
      <body name="right" gravcomp="1">
        <joint name="right" type="slide" axis="1 0 0" range="0 .04" damping="4"/>
        <geom type="box" size=".005 .011 .03" pos=".005 0 .022" mass=".04" rgba=".15 .25 .6 1" friction="1.2 .02 .001" condim="4"/>
        <geom type="box" size=".003 .006 .03" pos=".005 0 .08" mass=".01" rgba=".2 .2 .25 1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <equality><weld body1="wrist" body2="hand" solref=".012 1"/></equality>
  <contact><exclude body1="left" body2="right"/></contact>
  <actuator>
    <position joint="left" kp="250" ctrlrange="-.02 .04"/>
    <position joint="right" kp="250" ctrlrange="-.02 .04"/>
  </actuator>
</mujoco>
"""


_MODEL = mujoco.MjModel.from_xml_string(_XML)
_renderers = {}
# Before Python takes OpenGL apart.
atexit.register(lambda: [renderer.close() for renderer in _renderers.values()])


@dataclass
class Motion:
    """What a hand does next: its pose in the world and the trigger."""

    position: np.ndarray
    rotation: Rotation
    trigger: float


class Task:
    """One attempt. Times are seconds since its start."""

    def __init__(self, seed):
        self.data = mujoco.MjData(_MODEL)
        chance = np.random.default_rng(seed)
        while True:
            cube, goal = chance.uniform(-0.1, 0.1, (2, 2))
            if np.linalg.norm(cube - goal) > 0.1:
                break
        self.goal = np.array([*goal, 0.0])
        turn = Rotation.from_euler("z", chance.uniform(-0.5, 0.5))
        self.data.joint(0).qpos = [*cube, CUBE, *turn.as_quat(scalar_first=True)]
        start = np.array([*chance.uniform(-0.08, 0.08, 2), chance.uniform(0.13, 0.18)])
        self.hand = Motion(start, Rotation.from_euler("z", chance.uniform(-0.4, 0.4)), 0.0)
        self.data.joint(1).qpos = [*start, *self.hand.rotation.as_quat(scalar_first=True)]
        self.data.mocap_pos[0] = self.goal
        for name in ("left", "right"):
            self.data.joint(name).qpos = 0.036
        self._command(self.hand)
        mujoco.mj_forward(_MODEL, self.data)

    # Where things are

    @property
    def time(self):
        return self.data.time

    @property
    def cube(self):
        return self.data.body("cube").xpos.copy()

    @property
    def hand_pose(self):
        """Position and rotation of the hand as it is, which follows what it is told with a little delay."""
        body = self.data.body("hand")
        return body.xpos.copy(), Rotation.from_quat(body.xquat, scalar_first=True)

    @property
    def camera_pose(self):
        position, rotation = self.hand_pose
        return position + rotation.apply(CAMERA_POSITION), rotation * CAMERA_ROTATION

    @property
    def state(self):
        """Cube and disc in the hand's frame, and the sine and cosine of four times the angle to the cube's side, which is the same for all sides (8)."""
        position, rotation = self.hand_pose
        turn = self.turn()
        cube, goal = rotation.inv().apply(self.cube - position), rotation.inv().apply(self.goal - position)
        return np.array([*cube, *goal, np.sin(4 * turn), np.cos(4 * turn)])

    def turn(self):
        """Angle about z from the hand to the nearest side of the cube, in radians, within an eighth of a turn."""
        _, rotation = self.hand_pose
        cube = Rotation.from_quat(self.data.body("cube").xquat, scalar_first=True)
        x = (rotation.inv() * cube).as_matrix()[:2, 0]
        return (np.arctan2(x[1], x[0]) + np.pi / 4) % (np.pi / 2) - np.pi / 4

    @property
    def joints(self):
        """Angles of the glove in degrees (4)."""
        return JOINTS_OPEN + self.hand.trigger * (JOINTS_CLOSED - JOINTS_OPEN)

    @property
    def is_done(self):
        """The cube lies on the disc and the hand has let go and left."""
        position, _ = self.hand_pose
        cube = self.cube
        return bool(np.linalg.norm(cube[:2] - self.goal[:2]) < SUCCESS and cube[2] < CUBE + 0.006 and position[2] > 0.06)

    # Motion

    def move(self, motion, seconds):
        """Moves the hand evenly to where it shall be after so many seconds, which are a whole number of the phone's frames."""
        start, frames = self.hand, round(seconds * RATE)
        turn = (start.rotation.inv() * motion.rotation).as_rotvec()
        for frame in range(1, frames + 1):
            part = frame / frames
            position = start.position + part * (motion.position - start.position)
            trigger = start.trigger + part * (motion.trigger - start.trigger)
            self._command(Motion(position, start.rotation * Rotation.from_rotvec(part * turn), trigger))
            mujoco.mj_step(_MODEL, self.data, nstep=round(1 / RATE / STEP))
        self.hand = motion

    def _command(self, motion):
        self.data.mocap_pos[1] = motion.position
        self.data.mocap_quat[1] = motion.rotation.as_quat(scalar_first=True)
        # Closed is further than the cube lets the fingers go, which is what holds it.
        self.data.ctrl[:] = 0.036 - 0.04 * motion.trigger

    def image(self, size=IMAGE, camera="phone"):
        """RGB bytes (height, width, 3)."""
        return self._render("color", size, camera)

    def depth(self, size=DEPTH):
        """Meters along the phone's axis (height, width), as float32; 0 where nothing is within 5 m."""
        meters = self._render("depth", size, "phone")
        return np.where(meters < 5, meters, 0).astype(np.float32)

    def _render(self, kind, size, camera):
        if (kind, size) not in _renderers:
            renderer = _renderers[kind, size] = mujoco.Renderer(_MODEL, width=size[0], height=size[1])
            for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
                renderer.scene.flags[flag] = False
            if kind == "depth":
                renderer.enable_depth_rendering()
        _renderers[kind, size].update_scene(self.data, camera)
        return _renderers[kind, size].render()


def photo(image):
    """The JPEG that a phone makes of an image, as bytes."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "JPEG", quality=92)
    return out.getvalue()


def row_image(jpeg, turned=False):
    """What a policy sees of a photo, or of one after a quarter turn to the left: RGB bytes (48, 64, 3)."""
    image = Image.open(io.BytesIO(jpeg))
    if turned:
        image = image.transpose(Image.Transpose.ROTATE_90)
    return np.asarray(image.resize((64, 48), Image.Resampling.BOX))


class Expert:
    """Does the task, by looking only at where things are now, as a policy has to."""

    SPEED, TURN, GRIP = 0.25, 1.5, 4.0  # m/s, rad/s, 1/s

    def motion(self, task, seconds):
        hand, trigger = task.hand, task.hand.trigger
        position, cube, goal = hand.position, task.cube, task.goal
        beside = np.linalg.norm(cube[:2] - position[:2])
        is_placed = np.linalg.norm(cube[:2] - goal[:2]) < 0.012 and cube[2] < CUBE + 0.008
        is_held = trigger > 0.8 and np.linalg.norm(cube - position) < 0.03
        turn, grip = 0.0, 0.0
        if is_placed:
            # Let go, then leave upwards.
            target = position if trigger > 0.3 else np.array([*position[:2], 0.12])
        elif is_held:
            away = np.linalg.norm(goal[:2] - cube[:2])
            offset = position - cube
            if away > 0.01:
                height = 0.09 if away > 0.05 else 0.03 + 1.2 * away
                # Up first, then across.
                target = np.array([*(goal + offset)[:2], height]) if position[2] > 0.06 else np.array([*position[:2], 0.09])
            else:
                target = np.array([*(goal + offset)[:2], CUBE])
            grip = 1.0
        else:
            turn = task.turn()
            height = CUBE if beside < 0.008 and abs(turn) < 0.1 else cube[2] + min(0.07, 0.03 + beside)
            target = np.array([*cube[:2], height])
            grip = 1.0 if beside < 0.01 and abs(position[2] - CUBE) < 0.006 else 0.0
            if trigger > 0.02 and grip:
                target = position
        step = target - position
        # Slower near the target, as a hand is.
        distance = np.linalg.norm(step)
        step *= min(1, self.SPEED * seconds / max(distance, 1e-9), 10 * seconds)
        change = np.clip(grip - trigger, -self.GRIP * seconds, self.GRIP * seconds)
        # About the fingers to the cube's side, and upright again.
        twist = [*(8 * np.cross([0, 0, 1], hand.rotation.inv().apply([0, 0, 1]))[:2]), np.clip(10 * turn, -self.TURN, self.TURN)]
        return Motion(position + step, hand.rotation * Rotation.from_rotvec(np.array(twist) * seconds), trigger + change)
