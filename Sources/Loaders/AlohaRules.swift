/// ACT and its relatives, which read what `takeset export --to aloha` writes: one file per episode, `/action`, `/observations/qpos` and
/// images. ACT knows no masks, so that the export refuses incomplete rows unless `--masked` says what to do about them.
///
/// Source: `utils.py` of ACT (742c753).
extension Loader {
  private static let incomplete = "ACT has no masks, so the export refuses rows that lack values without --masked"
  private static let masked = Remedy(
    "keep the longest complete part of each take, or make each part an episode",
    command: "takeset export DATASET --to aloha --masked split --fixed-length pad --output OUT")

  static let alohaRules: [DoctorRule] =
    DoctorRule.sound + [
      DoctorRule(.actionsMissing, .breaks, "there is no /action to export", .withActions) { $0.withoutActions() },
      DoctorRule(
        .posesMissing, .breaks, "there is no /observations/qpos to export", Remedy("leave these takes out, or compute poses with SLAM")
      ) { $0.withoutState() },
      DoctorRule(
        .imagesMissing, .breaks, "ACT reads an image of each camera", Remedy("convert with images, or leave these takes out")
      ) { $0.withoutImages() },
      DoctorRule(
        .keyMissing, .breaks, "ACT stacks qpos and images of all episodes (RuntimeError)",
        Remedy("leave it out of qpos", command: "takeset export DATASET --to aloha --qpos pose --output OUT")
      ) { examined in
        examined.withoutKeys { missing, common in
          // qpos can do without joints, but ACT needs every camera.
          !missing.contains(where: examined.isImage)
            ? Remedy("leave it out of qpos", command: "takeset export DATASET --to aloha --qpos pose --output OUT")
            : .without(missing, common)
        }
      },
      DoctorRule(
        .mixedSizes, .breaks, "ACT stacks actions, qpos and images of all episodes (RuntimeError)", .size(640, 480)
      ) { $0.withMixedShapes() },
      DoctorRule(
        .lengthsDiffer, .breaks, "ACT stacks whole episodes (RuntimeError), so the export refuses them without --fixed-length",
        Remedy(
          "cut all to the shortest, or pad all to the longest", command: "takeset export DATASET --to aloha --fixed-length pad --output OUT"
        )
      ) { $0.withDifferentLengths() },
      DoctorRule(
        .tooFewEpisodes, .breaks, "ACT trains on four fifths of the episodes, which of one is none (IndexError)",
        Remedy("record more takes, or make several episodes of one", steps: "split-episodes: {at: 10}")
      ) { $0.withFewerEpisodes(than: 2) },
      DoctorRule(
        .notFinite, .breaks, incomplete, masked
      ) { $0.withoutNumbers(masked) },
      DoctorRule(.rowsMasked, .breaks, incomplete, masked) { $0.withMaskedRows(masked) },
      DoctorRule(.imageUndecodable, .breaks, incomplete, masked) { $0.withUndecodableImages() },
      DoctorRule(.gaps, .breaks, "ACT takes rows as evenly spaced, so the export refuses them without --masked", masked) { $0.withGaps() },
      DoctorRule(
        .spreadClipped, .trainsBadly,
        "ACT divides by deviations that it clips to 0.01 to 10, so such a column counts less than half, or more than twice, as much as others",
        Remedy("use absolute poses as actions", steps: "actions: {kind: absolute-quat}")
      ) { $0.withSpread(outside: 0.005...20) },
      DoctorRule(
        .mixedUnits, .trainsBadly, "ACT reads numbers without their unit, and mixes them", .oneUnit
      ) { $0.withMixedUnits() },
    ] + DoctorRule.policyContent + [.originDiffers] + DoctorRule.policyPoses + [
      DoctorRule(
        .timesUneven, .trainsBadly, "ACT reads no times: rows are steps of one length (50 Hz on ALOHA)", .resampling(50)
      ) { $0.withUnevenTimes() },
      .ratesDiffer,
      .imagesRepeated,
      DoctorRule(
        .shortEpisode, .trainsBadly, "every chunk of actions ends in padding", Remedy("leave them out", steps: "min-frames: {count: 100}")
      ) { $0.shorter(than: $0.window) },
    ]
}
