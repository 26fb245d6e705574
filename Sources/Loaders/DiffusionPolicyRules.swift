/// Diffusion policy and UMI, which read the replay buffer that `takeset export --to zarr` writes. What UMI alone needs trains badly here,
/// because the buffer itself loads.
///
/// Source: `diffusion_policy/common/replay_buffer.py`, `sampler.py`, `dataset/umi_dataset.py`, `model/vision/timm_obs_encoder.py` and
/// `config/task/umi.yaml` of UMI (d095ba9).
extension Loader {
  /// UMI's recordings, in Hz, of which it takes every third row.
  private static let umiRate = 59.94
  private static let umiStride = 3
  private static let incomplete = "a replay buffer has no masks, so the export ends the episode there"

  static let diffusionPolicyRules: [DoctorRule] =
    DoctorRule.sound + [
      DoctorRule(
        .actionsMissing, .breaks, "the export leaves data/action out, which policies train on", .withActions
      ) { $0.withoutActions() },
      DoctorRule(
        .imagesMissing, .breaks, "the export leaves images out, which policies are trained on",
        Remedy("convert with images, or leave these takes out")
      ) { $0.withoutImages() },
      DoctorRule(
        .mixedSizes, .breaks, "an array of the replay buffer has rows of one shape, so the export refuses several", .size(224, 224)
      ) { $0.withMixedShapes() },
      DoctorRule(
        .mixedUnits, .trainsBadly, "the buffer has numbers without their unit, and an array has one type", .oneUnit
      ) { $0.withMixedUnits(ifTypes: .breaks) },
      DoctorRule(
        .keyMissing, .trainsBadly, "the export leaves a key out that not every episode has", Remedy("leave the key out")
      ) { $0.withoutKeys(Remedy.without) },
      DoctorRule(
        .posesMissing, .trainsBadly, "the export leaves poses out, and refuses --layout umi",
        Remedy("leave these takes out, or compute poses with SLAM")
      ) { $0.withoutPoses() },
      DoctorRule(
        .shortEpisode, .trainsBadly, "UMI pads no actions, so such an episode has no sample",
        Remedy("leave them out", steps: "min-frames: {count: 46}")
      ) { examined in
        // The rows that a window spans: UMI takes every third one of its own rate.
        let stride = examined.usualRate.map { abs($0 / umiRate - 1) < 0.05 } ?? false ? umiStride : 1
        return examined.shorter(than: (examined.window - 1) * stride + 1, ifAll: .breaks)
      },
      DoctorRule(
        .gripperMissing, .trainsBadly, "with --layout umi, gripper_width is 0 everywhere",
        Remedy(
          "record joints, and name the one that opens the gripper",
          command: "takeset export DATASET --to zarr --layout umi --gripper joints:0 --output OUT")
      ) { $0.withoutGripper() },
      DoctorRule(
        .imageSize, .trainsBadly, "UMI's configuration says 224x224, and the export refuses other sizes with --layout umi", .size(224, 224)
      ) { $0.withImages { $0.width != 224 || $0.height != 224 } },
      DoctorRule(
        .notFinite, .trainsBadly, incomplete, .dropping("joints-missing")
      ) { $0.withoutNumbers(ifAll: .breaks) },
      DoctorRule(.rowsMasked, .trainsBadly, incomplete, .atGaps) { $0.withMaskedRows() },
      DoctorRule(
        .imageUndecodable, .trainsBadly, incomplete,
        .copyAgain
      ) { $0.withUndecodableImages() },
    ] + DoctorRule.policyContent + DoctorRule.policyPoses + [
      DoctorRule(
        .gaps, .trainsBadly, "the export ends the episode there, and pieces shorter than a window are of no use", .atGaps
      ) { $0.withGaps() },
      DoctorRule(
        .timesUneven, .trainsBadly, "no times are read: rows are steps of one length", .resampling(20)
      ) { $0.withUnevenTimes() },
      .ratesDiffer,
      DoctorRule(
        .rateOther, .trainsBadly, "UMI takes rows to be at 59.94 Hz and uses every third one",
        Remedy(
          "set down_sample_steps in UMI's task to the step that gives 20 Hz (1 at 20 Hz), or resample to UMI's rate",
          steps: "resample: {rate: 59.94}")
      ) { $0.withRate(otherThan: umiRate) },
      .imagesRepeated,
    ]
}
