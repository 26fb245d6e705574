/// LeRobot 3.0, which reads what `takeset export --to lerobot` writes. It cuts episodes at gaps and at rows without a state, an image or an
/// action, so that no masked row reaches a policy.
///
/// Source: lerobot 0.6.1, `datasets/`.
extension Loader {
  static let lerobotRules: [DoctorRule] =
    DoctorRule.sound + [
      DoctorRule(.actionsMissing, .breaks, "policies of LeRobot train on the feature action", .withActions) { $0.withoutActions() },
      DoctorRule(
        .keyMissing, .breaks, "every episode of LeRobot has the same features, so the export refuses a key that not all have",
        Remedy("leave the key out", command: "takeset export DATASET --to lerobot --output OUT --drop-keys joints")
      ) { examined in
        examined.withoutKeys(ofEveryKind: true) { missing, _ in
          Remedy(
            "leave them out", command: "takeset export DATASET --to lerobot --output OUT --drop-keys \(missing.joined(separator: ","))")
        }
      },
      DoctorRule(
        .mixedSizes, .breaks, "a feature of LeRobot has one shape, so the export refuses several", .size(640, 480)
      ) { $0.withMixedShapes() },
      DoctorRule(
        .mixedUnits, .breaks, "a feature of LeRobot has one meaning, so the export refuses several", .oneUnit
      ) { $0.withMixedUnits(ofDepth: false) },
      DoctorRule(
        .timesUneven, .breaks, "LeRobot's time is row / fps, and the export refuses rows more than a tenth of a row off", .resampling(30)
      ) { $0.offTheGrid() },
      DoctorRule(
        .rateOther, .breaks, "LeRobot has one whole fps, and the export refuses rows at other times", .resampling(30)
      ) { $0.withOtherRates() + $0.withFractionalRate() },
      DoctorRule(
        .rateOther, .breaks, "the export takes 30 fps unless it is told another rate",
        Remedy("export at the rate of the rows", command: "takeset export DATASET --to lerobot --output OUT --fps 60")
      ) { examined in
        guard let usual = examined.usualRate else { return [] }
        let command = "takeset export DATASET --to lerobot --output OUT --fps \(Int(max(1, min(usual, 10_000)).rounded()))"
        return examined.withRate(otherThan: 30, Remedy("export at the rate of the rows", command: command))
      },
      DoctorRule(
        .imagesMissing, .trainsBadly, "most policies of LeRobot need an image", Remedy("convert with images, or leave these takes out")
      ) { $0.withoutImages() },
      DoctorRule(
        .taskMissing, .info, "policies that follow language read the task unspecified",
        Remedy("say what they show", command: "takeset label DATASET --episode ID --task TEXT")
      ) { $0.withoutTasks() },
      DoctorRule(
        .notFinite, .trainsBadly, "the export leaves these rows out and cuts the episode there", .dropping("joints-missing")
      ) { $0.withoutNumbers(ifAll: .breaks) },
      DoctorRule(
        .rowsMasked, .trainsBadly,
        "the export leaves rows without an action or an image out and cuts the episode there; depth is 0 where it is missing", .atGaps
      ) { $0.withMaskedRows() },
      DoctorRule(
        .imageUndecodable, .trainsBadly, "the export leaves these rows out and cuts the episode there",
        .copyAgain
      ) { $0.withUndecodableImages() },
      DoctorRule(
        .imageSize, .trainsBadly,
        "H.264 has even sides only, so the export refuses videos of it; images, which are the default, and AV1 may have odd ones",
        Remedy("export images, or videos of AV1", command: "takeset export DATASET --to lerobot --output OUT --images video --codec av1")
      ) { $0.withImages { $0.width % 2 != 0 || $0.height % 2 != 0 } },
    ] + DoctorRule.policyContent + [.originDiffers] + DoctorRule.policyPoses + [
      .imagesRepeated,
      DoctorRule(
        .shortEpisode, .trainsBadly, "every window of actions ends in padding", Remedy("leave them out", steps: "min-frames: {count: 16}")
      ) { $0.shorter(than: $0.window) },
      DoctorRule(
        .gaps, .trainsBadly, "the export ends the episode there, and windows at the end of a piece are padded", .atGaps
      ) { $0.withGaps() },
    ]
}
