/// robomimic, which reads the dataset as it is: `SequenceDataset`, its training and its scripts.
///
/// Source: robomimic 0.3.0, `utils/dataset.py`, `utils/file_utils.py`, `utils/obs_utils.py`, `scripts/train.py`,
/// `scripts/get_dataset_info.py`.
extension Loader {
  static let robomimicRules: [DoctorRule] =
    DoctorRule.sound + [
      DoctorRule(
        .actionsMissing, .breaks, "training stops at the shape of the actions (KeyError), and its cache fills in zeros of one column",
        .withActions
      ) { $0.withoutActions() },
      DoctorRule(
        .keyMissing, .breaks, "robomimic stops at a key that not every episode has (KeyError)", Remedy("leave the key out")
      ) { $0.withoutKeys(ofEveryKind: true, Remedy.without) },
      DoctorRule(
        .imagesEncoded, .breaks, "robomimic reads arrays of pixels only", Remedy("store images as arrays", writer: "hdf5: {image: raw}")
      ) { $0.withEncodedImages() },
      DoctorRule(
        .mixedSizes, .breaks, "robomimic stacks rows of all episodes into batches, which must have one shape", .size(84, 84)
      ) { $0.withMixedShapes() },
      DoctorRule(
        .maskEmpty, .trainsBadly, "a filter of this name has length 0, and reading its first item stops (KeyError)",
        Remedy("draw single takes instead of whole days, or set experiment.validate to false", steps: "split: {valid: 0.1, group: take}")
      ) { $0.masksWithoutEpisode() },
      DoctorRule(
        .nextMissing, .info,
        "offline reinforcement learning (BCQ, CQL, IQL, TD3-BC, HBC) stops there (KeyError), and behavior cloning does not read it",
        Remedy("for offline reinforcement learning, store the observations of the next row", steps: "actions: {next-obs: true}")
      ) { $0.withoutNext() },
      DoctorRule(
        .notFinite, .trainsBadly, "robomimic has no masks, and the loss becomes NaN", .dropping("joints-missing")
      ) { $0.withoutNumbers() },
      DoctorRule(
        .rowsMasked, .trainsBadly, "robomimic has no masks, and learns the zeros", .atGaps
      ) { $0.withMaskedRows() },
      DoctorRule(
        .imageUndecodable, .trainsBadly, "robomimic has no masks, and learns from black images",
        .copyAgain
      ) { $0.withUndecodableImages() },
      DoctorRule(
        .actionsOutOfRange, .trainsBadly, "its policies end in tanh and cannot reach them, and get_dataset_info ends with an error",
        Remedy(
          "divide the actions by the scale in /stats/actions, and multiply again what the policy says", steps: "normalize: {method: minmax}"
        )
      ) { $0.withActionsOutOfRange() },
      DoctorRule(
        .depthClipped, .trainsBadly, "robomimic clips depth to 0 to 1, so everything beyond is 1",
        Remedy("leave depth out", steps: "select: {streams: [pose, camera_image]}")
      ) { $0.withDepthAboveOne() },
      DoctorRule(
        .mixedUnits, .trainsBadly, "robomimic reads numbers without their unit, and mixes them", .oneUnit
      ) { $0.withMixedUnits() },
    ] + DoctorRule.policyContent + DoctorRule.policyPoses + [
      DoctorRule(
        .gaps, .trainsBadly, "sequences run across them as if no time had passed", .atGaps
      ) { $0.withGaps() },
      DoctorRule(
        .timesUneven, .trainsBadly, "robomimic reads no times: an action over a longer step looks like a faster motion", .resampling(20)
      ) { $0.withUnevenTimes() },
      .ratesDiffer,
      .originDiffers,
      .imagesRepeated,
      DoctorRule(
        .shortEpisode, .trainsBadly, "the last row is repeated to fill a sequence",
        Remedy("leave them out", steps: "min-frames: {count: 10}")
      ) { $0.shorter(than: $0.window) },
      DoctorRule(
        .tooFewRows, .breaks,
        "a batch has 100 by default, and robomimic drops an incomplete one, so training, or validation, stops without any (StopIteration)",
        Remedy("record more takes, or set train.batch_size, which is 100 by default, to the rows of the smallest part")
      ) { $0.withFewerRows(thanBatch: 100) },
    ]
}
