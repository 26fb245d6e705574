/// A commented pipeline file for one use of the data. `takeset init` prints it, and `examples/recipes/` has a copy.
package enum Recipe: String, CaseIterable, Sendable {
  case act
  case diffusionPolicy = "diffusion-policy"
  case robomimic
  case nerf
  case lerobot

  /// What the data is for, in a few words.
  package var title: String {
    switch self {
    case .act: "ACT: absolute poses at 50 Hz, images of 640x480"
    case .diffusionPolicy: "diffusion policy, as for UMI: relative motions at 20 Hz, 16 steps ahead, images of 224x224"
    case .robomimic: "robomimic: relative motions at 20 Hz, images of 84x84"
    case .nerf: "NeRF and Gaussian splatting: unchanged images with camera poses and depth"
    case .lerobot: "LeRobot: relative motions at 30 Hz, JPEG images of 640x480, depth in millimeters"
    }
  }

  /// The path of the copy, relative to the repository.
  package var path: String { "examples/recipes/\(rawValue).yaml" }

  /// The pipeline file, with a newline at its end.
  package var pipeline: String {
    switch self {
    case .act: Self.actPipeline
    case .diffusionPolicy: Self.diffusionPolicyPipeline
    case .robomimic: Self.robomimicPipeline
    case .nerf: Self.nerfPipeline
    case .lerobot: Self.lerobotPipeline
    }
  }

  private static let actPipeline = """
    # For ACT (action chunking with transformers): absolute poses at the 50 Hz of ALOHA, images of 640x480.
    #
    #     takeset run sessions/ --output dataset/ --pipeline act.yaml
    #     takeset export dataset/ --to aloha --masked longest --fixed-length pad --output act/
    #
    # The export has a file for each episode, its longest part in which nothing is missing, all of one length. ACT cuts its action
    # chunks itself. What it calls /observations/images/<camera>, /observations/qpos and /action, the dataset has as follows:
    #
    #     import h5py, numpy as np
    #     with h5py.File("dataset/dataset.h5") as file:
    #         demo = file["data/demo_000000"]
    #         images = demo["obs/camera_image"]                           # (T, 480, 640, 3) u1
    #         qpos = np.hstack([demo["obs/pose"], demo["obs/joints"]])    # (T, 11): x y z, qx qy qz qw, 4 joints
    #         action = demo["actions"][:]                                 # (T, 11): the same, one row later
    #         offset, scale = (file[f"stats/actions/{name}"][:] for name in ("offset", "scale"))
    #         normalized = (action - offset) / scale                      # train with this
    #
    # Takes without joints have actions of 7 columns. Do not mix the two kinds in one dataset, or set joints: none.

    version: 1
    reader: auto

    transforms:
      # Pairs each frame with the samples of the other streams that are nearest in time.
      - align: {tolerance: 0.05}

      # ALOHA records at 50 Hz. Poses and joints are interpolated, and each row gets the image nearest in time.
      - resample: {rate: 50}

      # ALOHA's image size. cover fills it completely and cuts off what does not fit.
      - resize-image: {width: 640, height: 480, mode: cover}

      # Absolute actions need one origin for all takes. The world of a recording begins wherever the app was started, so
      # poses are stored relative to the first row instead.
      - pose-frame: {axes: arkit, origin: first-frame}

      # Row t is the pose and the joint angles of row t+1: the target to move to, as in ALOHA.
      - actions: {kind: absolute-quat, joints: absolute, horizon: 1}

      # ACT validates on a fifth of the episodes. Takes of one day stay together, because they share room, light and objects.
      - split: {valid: 0.2, group: day, seed: 0}

      # ACT subtracts the mean and divides by the standard deviation. The numbers go to /stats; actions are stored as they are.
      - normalize: {method: gaussian}

    # ACT reads single rows at random, which is fastest with uncompressed images.
    writer:
      hdf5: {compression: 4, image: raw}

    """

  private static let diffusionPolicyPipeline = """
    # For diffusion policy as UMI trains it: at 20 Hz, relative motions 16 steps ahead, images of 224x224.
    #
    #     takeset run sessions/ --output dataset/ --pipeline diffusion-policy.yaml
    #     takeset export dataset/ --to zarr --output buffer/
    #
    # The export is a replay buffer. UMI's own code makes the actions itself, from the poses in a buffer with --layout umi.
    #
    # A training sample is two observed rows and the chunk of actions that follows them:
    #
    #     import h5py
    #     with h5py.File("dataset/dataset.h5") as file:
    #         demo, t = file["data/demo_000000"], 1
    #         images = demo["obs/camera_image"][t - 1 : t + 1]      # (2, 224, 224, 3) u1
    #         chunk = demo["action_chunk"][t]                       # (16, 13): position, 6 of rotation, 4 joints
    #         valid = demo["action_chunk_valid"][t]                 # (16,): 0 past the end and across gaps
    #         offset, scale = (file[f"stats/action_chunk/{name}"][:] for name in ("offset", "scale"))
    #         normalized = (chunk - offset) / scale                 # in [-1, 1]; UMI leaves the 6 of rotation as they are
    #
    # Chunks begin with row t+1. UMI's begin with row t, whose motion is none. UMI's gripper width takes the place of the joints.
    # Takes without joints have actions of 9 columns. Do not mix the two kinds in one dataset, or set joints: none.
    #
    # The steps that are commented out with "StackCapture" make what the trainer of the StackCapture app uses: every frame (60 Hz),
    # the whole image in a square, and the columns of rotations. Use each in place of the step above it, and delete resample.

    version: 1
    reader: auto

    transforms:
      # Pairs each frame with the samples of the other streams that are nearest in time.
      - align: {tolerance: 0.05}
      # If a sensor reports late by a known time, say by how much (seconds):
      # - align: {tolerance: 0.05, latency: {joints: 0.02}}

      # UMI uses every third frame of its 59.94 Hz. Poses and joints are interpolated, and each row gets the image nearest in time.
      - resample: {rate: 20}

      # A take with fewer rows than two observed ones and a chunk of 16 has no complete sample.
      - min-frames: {count: 18}

      # The input size of the usual vision encoders. cover keeps the aspect ratio and cuts off the sides, as UMI does.
      - resize-image: {width: 224, height: 224, mode: cover}
      # StackCapture:
      # - resize-image: {width: 224, height: 224, mode: stretch}

      # The same camera axes in all takes, because motions are expressed in them.
      - pose-frame: {axes: arkit}
      # To train on the pose of a tool instead of the camera, give its pose in the camera's axes (meters, quaternion):
      # - pose-frame: {axes: arkit, body: [0, -0.05, -0.12, 0, 0, 0, 1]}

      # Motion relative to the pose at t, with the first two rows of the rotation, as UMI has them, and the joints' own angles.
      - actions: {kind: relative-6d, rotation-layout: rows, joints: absolute, horizon: 16}
      # StackCapture:
      # - actions: {kind: relative-6d, rotation-layout: columns, joints: absolute, horizon: 16}

      # UMI validates on a twentieth of the episodes. Takes of one day stay together, because they share room, light and objects.
      - split: {valid: 0.05, group: day, seed: 0}
      # StackCapture (as many takes, but not the same ones as its trainer draws):
      # - split: {valid: 0.2, group: take, seed: 42}

      # Scale and offset that map actions to [-1, 1]. The numbers go to /stats; actions are stored as they are.
      - normalize: {method: minmax}

    # Windows are read at random, which is fastest with uncompressed images.
    writer:
      hdf5: {compression: 4, image: raw}

    """

  private static let robomimicPipeline = """
    # For robomimic: at 20 Hz, relative motions as actions, images of 84x84.
    #
    #     takeset run sessions/ --output dataset/ --pipeline robomimic.yaml
    #
    # robomimic reads dataset/dataset.h5 as it is. In its configuration, set
    #
    #     train.data                                dataset/dataset.h5
    #     train.hdf5_filter_key                     train
    #     train.hdf5_validation_filter_key          valid
    #     train.hdf5_load_next_obs                  false, unless next-obs is true below
    #     train.batch_size                          16, or at most the rows of the smaller part: a part with fewer stops training
    #     train.num_epochs                          20 to begin with; its own is 2000
    #     experiment.epoch_every_n_steps            the rows of train divided by the batch size; its own is 100
    #     experiment.validation_epoch_every_n_steps the rows of valid divided by the batch size; its own is 10
    #     observation.modalities.obs.low_dim        ["pose"]
    #     observation.modalities.obs.rgb            ["camera_image"]
    #     experiment.validate                       true, if there are takes for validation
    #     experiment.rollout.enabled                false: a recording has no environment to act in
    #
    # Whether that fits, and what else robomimic would stop at:
    #
    #     takeset verify --for robomimic dataset/
    #
    # Without recordings of your own, simulate enough takes to try it, of different days so that some are for validation:
    #
    #     for i in 1 2 3 4 5 6 7 8; do takeset simulate stack-session --output sessions/session_2026-01-0${i}_120000 --seconds 8 --seed $i; done

    version: 1
    reader: auto

    transforms:
      # Pairs each frame with the samples of the other streams that are nearest in time.
      - align: {tolerance: 0.05}

      # robomimic's own datasets are at 20 Hz. Poses are interpolated, and each row gets the image nearest in time.
      - resample: {rate: 20}

      # robomimic has no masks. Each stretch without gaps becomes an episode, so that no motion spans a gap.
      - split-episodes: {at: gaps}

      # Shorter episodes than a sequence of the policies with memory are left out.
      - min-frames: {count: 10}

      # Every episode must have the same keys. robomimic clips depth to 1 m, so it is left out too.
      - select: {streams: [pose, camera_image]}

      # All images must have one size; 84x84 is that of robomimic's datasets. cover cuts off what does not fit.
      - resize-image: {width: 84, height: 84, mode: cover}

      # The pose is an input of the policy. The world of a recording begins wherever the app was started, so poses are stored
      # relative to the first row.
      - pose-frame: {axes: arkit, origin: first-frame}

      # robomimic's actions are rows of numbers from -1 to 1. The motion of one step is: 3 of position in meters, 6 of rotation.
      - actions: {kind: relative-6d, joints: none, horizon: 1}
      # Offline reinforcement learning (BCQ, CQL, IQL, TD3-BC) also needs the next observations. Rewards are 0; write your own.
      # - actions: {kind: relative-6d, joints: none, horizon: 1, next-obs: true}

      # /mask/train and /mask/valid. Takes of one day stay together, because they share room, light and objects.
      - split: {valid: 0.1, group: day, seed: 0}

    # robomimic reads images as arrays.
    writer:
      hdf5: {compression: 4, image: raw}

    """

  private static let nerfPipeline = """
    # For NeRF and Gaussian splatting (nerfstudio and others): every good frame with its image, pose, intrinsics and depth.
    #
    #     takeset run sessions/ --output dataset/ --pipeline nerf.yaml
    #     takeset export dataset/ --to nerfstudio --output scenes/
    #     ns-train splatfacto nerfstudio-data --data scenes/take-1 --center-method none --auto-scale-poses False
    #
    # The export has a transforms.json for each take, --to colmap a COLMAP model. Centering and scaling are off to keep meters. The
    # numbers of the first frame, in Python:
    #
    #     import h5py, numpy as np
    #     with h5py.File("dataset/dataset.h5") as file:
    #         demo, meta = file["data/demo_000000"], file["meta/demo_000000"]
    #         jpeg = demo["obs/camera_image"][0].tobytes()                  # the file that the phone wrote
    #         fx, fy, cx, cy = meta["intrinsics"][0]                        # pixels, from the outer corner of the image
    #         x, y, z, a, b, c, w = demo["obs/pose"][0]                     # camera to world, meters
    #         transform_matrix = np.array([
    #             [1 - 2 * (b * b + c * c), 2 * (a * b - c * w), 2 * (a * c + b * w), x],
    #             [2 * (a * b + c * w), 1 - 2 * (a * a + c * c), 2 * (b * c - a * w), y],
    #             [2 * (a * c - b * w), 2 * (b * c + a * w), 1 - 2 * (a * a + b * b), z],
    #             [0, 0, 0, 1]])
    #
    # Not every recording has intrinsics; `takeset inspect` tells.

    version: 1
    reader: auto

    transforms:
      # Pairs each frame with the depth map that is nearest in time.
      - align: {tolerance: 0.05}

      # Frames whose pose cannot be trusted: it repeats the one before, jumps, or was made from its neighbors.
      - drop-frames: {with: [pose-repeated, pose-jump, pose-interpolated]}
      # Blurred images harm most. What counts as blurred depends on camera and scene: try a threshold and look at what is left.
      # - drop-frames: {with: [pose-repeated, pose-jump, pose-interpolated], blur: 100}

      # Neighboring frames show nearly the same. A few hundred views are enough for most scenes.
      # - decimate: {rate: 3}

      # The axes of nerfstudio: x right, y up, z back. ARKit's are the same; others are converted.
      - pose-frame: {axes: opengl}

      # Depth in meters, without values that the sensor itself calls unreliable (confidence 0) or that are beyond its range.
      - resample-depth: {unit: m, min-confidence: 1, max-range: 5}

    # The phone's own JPEGs at full size, byte for byte; frames of videos, which have none, are encoded.
    writer:
      hdf5: {compression: 4, image: jpeg, quality: 95}

    """

  private static let lerobotPipeline = """
    # For LeRobot: at 30 Hz, relative motions as actions, JPEG images of 640x480, depth in millimeters.
    #
    #     takeset run sessions/ --output dataset/ --pipeline lerobot.yaml
    #
    # Then, with Takeset's Python package:
    #
    #     python -m takeset.lerobot dataset/ lerobot/ --fps 30 --task "pick up the cup"
    #
    # In LeRobot, obs/camera_image is observation.images.camera, obs/camera_depth observation.images.camera_depth, obs/pose
    # observation.state, and actions action. ACT takes no depth: leave it out with --drop-keys camera_depth.

    version: 1
    reader: auto

    transforms:
      # Pairs each frame with the samples of the other streams that are nearest in time.
      - align: {tolerance: 0.05}

      # LeRobot's time is row / fps, with a whole fps. Poses are interpolated, and each row gets the image nearest in time.
      - resample: {rate: 30}

      # A row number is a time only where no row is missing, so each stretch without gaps becomes an episode.
      - split-episodes: {at: gaps}

      # One size for all cameras of the dataset. letterbox keeps the aspect ratio and pads with black, so nothing is cut off;
      # smaller images are enlarged, so that they are no island in the black.
      - resize-image: {width: 640, height: 480, mode: letterbox, enlarge: true}

      # LeRobot's unit of depth.
      - resample-depth: {unit: mm}

      # The pose is an input of the policy. The world of a recording begins wherever the app was started, so poses are stored
      # relative to the first row.
      - pose-frame: {axes: arkit, origin: first-frame}

      # The motion from each row to the next. With joints: absolute, takes with a glove have 4 columns more.
      - actions: {kind: relative-6d, joints: none, horizon: 1}

      # LeRobot takes lists of episodes; /mask/train and /mask/valid name them. Takes of one day stay together, because they
      # share room, light and objects.
      - split: {valid: 0.1, group: day, seed: 0}

    # The export keeps JPEG files as they are.
    writer:
      hdf5: {compression: 4, image: jpeg, quality: 95}

    """
}
