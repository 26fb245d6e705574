import Steps

/// Rules that are the same for every loader.
extension DoctorRule {
  static let noEpisodes = DoctorRule(
    .noEpisodes, .breaks, "there is nothing to load",
    Remedy("read why takes were rejected or failed", command: "takeset inspect INPUT --summary")
  ) { $0.withoutEpisodes() }

  static let episodeUnreadable = DoctorRule(
    .episodeUnreadable, .breaks, "the loader stops there",
    Remedy("see what changed, and make these episodes again", command: "takeset verify DATASET")
  ) { $0.unreadable() }

  static let rowsDiffer = DoctorRule(
    .rowsDiffer, .breaks, "rows no longer belong together, or are read beyond the end", .again
  ) { $0.withOtherRows() }

  static let typeWrong = DoctorRule(
    .typeWrong, .breaks, "the loader expects actions (T, A) of numbers, images (T, H, W, 3) of bytes, and numbers elsewhere", .again
  ) { $0.withWrongType() }

  /// The rule of policies about copies: a scene is not tested on another one.
  static let duplicateContent = DoctorRule(
    .duplicateContent, .trainsBadly, "copies count twice in training",
    Remedy("remove the copies from the inputs, and run again", command: "takeset run INPUT --output DATASET --prune")
  ) { $0.withSameContent() }

  /// The rules of every loader about a file.
  static let sound = [noEpisodes, episodeUnreadable, rowsDiffer, typeWrong]

  static let quaternionNorm = DoctorRule(
    .quaternionNorm, .trainsBadly, "rotations computed from it are wrong", .again
  ) { $0.withBadNorms() }

  static let quaternionSign = DoctorRule(
    .quaternionSign, .trainsBadly, "the same rotation has two values, which a policy cannot tell from a jump", .again
  ) { $0.withSignFlips() }

  /// Returns the rules about faulty poses, with the consequences for a loader.
  static func poses(jump: String, repeated: String, interpolated: String) -> [DoctorRule] {
    return [
      quaternionNorm, quaternionSign,
      DoctorRule(.poseJump, .trainsBadly, jump, .dropping("pose-jump")) { $0.withJumps() },
      DoctorRule(.poseRepeated, .trainsBadly, repeated, .dropping("pose-repeated")) { $0.withRepeatedPoses() },
      DoctorRule(.poseInterpolated, .trainsBadly, interpolated, .dropping("pose-interpolated")) { $0.withInterpolatedPoses() },
    ]
  }

  /// The rules of a policy that learns from poses.
  static let policyPoses = poses(
    jump: "the actions there are no motion of a hand", repeated: "tracking was lost, and the actions there say that nothing moved",
    interpolated: "nobody measured the motion there")

  static let scaleArbitrary = DoctorRule(
    .scaleArbitrary, .trainsBadly, "a motion of one length has other numbers in each recording",
    Remedy("find the scale of each recording, or leave these takes out: convert the others into a dataset of their own")
  ) { $0.withArbitraryScale() }

  static let originDiffers = DoctorRule(
    .originDiffers, .trainsBadly, "the same place in front of the camera has other numbers in each of them",
    Remedy("store poses relative to the first row", steps: "pose-frame: {origin: first-frame}")
  ) { $0.withOtherOrigins() }

  static let jointDead = DoctorRule(
    .jointDead, .trainsBadly, "nothing is learned from it", Remedy("check the sensor, or leave the joints out")
  ) { $0.withDeadJoints() }

  static let columnConstant = DoctorRule(
    .columnConstant, .trainsBadly, "dividing by its spread magnifies noise, and the policy never moves there",
    Remedy("check that the camera and the joints moved, or record takes in which they do")
  ) { $0.withConstantColumns() }

  /// The rules about numbers that cannot teach a policy anything.
  static let policyContent = [duplicateContent, scaleArbitrary, columnConstant, jointDead]

  static let imagesRepeated = DoctorRule(
    .imagesRepeated, .trainsBadly, "a policy learns that nothing is seen to move",
    Remedy("resample no faster than the camera, or leave these takes out", steps: "resample: {rate: 20}")
  ) { $0.withRepeatedImages() }

  static let ratesDiffer = DoctorRule(
    .rateOther, .trainsBadly, "the same motion has actions of another size at another rate", .resampling(20)
  ) { $0.withOtherRates() }
}

extension Remedy {
  /// The remedy for damage that only another program can have done.
  static let again = Remedy("another program changed this; make the dataset again", command: "takeset run INPUT --output DATASET --replace")

  /// Takes without the poses, which actions are computed from.
  static let withActions = Remedy(
    "convert the takes that have poses, with actions, and leave out the others", steps: "actions: {kind: relative-6d}")

  /// Actions of takes that have numbers and no poses.
  static func actions(of streams: [String]) -> Remedy {
    Remedy(
      "make actions of joints or other numbers, without poses", steps: "actions: {kind: none, of: [\(streams.joined(separator: ", "))]}")
  }

  static func size(_ width: Int, _ height: Int) -> Remedy {
    Remedy("give all images one size", steps: "resize-image: {width: \(width), height: \(height), mode: cover}")
  }

  /// Returns the remedy that drops the frames with a quality bit.
  static func dropping(_ bit: String) -> Remedy {
    Remedy("drop these rows, and cut episodes there", steps: "drop-frames: {with: [\(bit)]}", "split-episodes: {at: gaps}")
  }

  static let oneUnit = Remedy(
    "convert all takes to one unit and the same axes", steps: "resample-depth: {unit: m}", "pose-frame: {axes: arkit}")

  /// The images that are undecodable can only come from the device again.
  static let copyAgain = Remedy("copy these files from the device again, or leave the takes out", command: "takeset inspect INPUT")

  /// An export of the episodes that have what others lack.
  static func choosing(_ ids: [String], for command: String) -> Remedy {
    Remedy(
      ids.count > 8 ? "export the other \(ids.count) episodes" : "export the other episodes",
      command: "\(command) --episodes \(shellWord(ids.joined(separator: ",")))")
  }

  /// A phone of a joined take that began later than the reference, or ended earlier.
  static let wholeEpisode = Remedy(
    "nothing was recorded near these rows; let all phones record for the whole episode, or leave it, or them, out")

  static let atGaps = Remedy("make each stretch without gaps an episode", steps: "split-episodes: {at: gaps}")
}
