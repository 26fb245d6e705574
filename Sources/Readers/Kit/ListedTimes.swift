import Model
import Steps

/// Options of readers of a video with a list of its frames' times.
package struct MoviePairingOptions: StepOptionGroup {
  /// The treatment of a video that fits its list of times after several shifts.
  package enum Ambiguity: String, OptionChoice { case mask, assume }

  @StepOption(
    "a video that fits its list of times after several shifts; mask: no row gets an image; assume: its first frame is the first of the list"
  )
  var ambiguousMovie = Ambiguity.mask

  package init() {}

  /// Returns the finding about a video that has other frames than a list, where it is unknown which are missing.
  ///
  /// - Parameters:
  ///   - count: Number of times in the list.
  ///   - listed: The list with it: `rgbTimes has 60 times`.
  func finding(frames: Int, of count: Int, listed: String, file: String) -> Finding {
    let risk = "; the first is taken to be there, and if it is not, each image is of a frame \(abs(count - frames)) rows away"
    return Finding(
      .movieAlignmentAmbiguous,
      "the video has \(frames) frames, \(listed), and it is unknown whether the first or the last ones are missing"
        + (ambiguousMovie == .mask ? ", so all images are masked" : risk), file: file)
  }
}

/// A check of a list of frames' times against the video, before any of its times is believed.
enum ListedTimes {
  /// Throws `TakeFailure` where the clock of the list was set during the take.
  ///
  /// - Parameter listed: In the order of the list.
  /// - Parameter presented: Presentation times of the video's samples in nanoseconds, ascending; empty where they are an encoder's, which may lack the
  ///   camera's gaps.
  /// - Parameter tolerance: Greatest difference between a listed time and that of its sample (nanoseconds).
  static func refuseStep(_ listed: [Timestamp?], presented: [Int64], named list: String, file: String, tolerance: Int64) throws {
    let known = listed.compactMap { $0?.nanoseconds }
    guard known.count > 3, let step = back(known, tolerance) ?? ahead(known, presented, tolerance) else { return }
    let seconds = Double(step.nanoseconds) / 1e9
    throw TakeFailure(
      .clockSet,
      "the clock of \(list) was set by \(seconds > 0 ? "+" : "")\((seconds * 1000).rounded() / 1000) s at its time \(step.index + 1) of \(known.count), "
        + "while the recording went on; which image, pose and depth map belong together is not certain after that; expected times of one clock",
      file: file)
  }

  private typealias Step = (index: Int, nanoseconds: Int64)

  /// Returns the step at which times go back for longer than one line that is wrong.
  private static func back(_ known: [Int64], _ tolerance: Int64) -> Step? {
    let steps = zip(known.dropFirst(), known).map { $0 &- $1 }
    let usual = steps.sorted()[steps.count / 2]
    return (1..<(known.count - 1)).first {
      known[$0] < known[$0 - 1] &- tolerance && known[$0 + 1] < known[$0 - 1] && known[$0 + 1] > known[$0]
    }
    .map { ($0, known[$0] &- known[$0 - 1] &- usual) }
  }

  /// Returns the step before and after which the differences of as many times and samples are two constants.
  private static func ahead(_ known: [Int64], _ presented: [Int64], _ tolerance: Int64) -> Step? {
    guard known.count == presented.count, let last = presented.last, let first = presented.first else { return nil }
    let period = (last &- first) / Int64(presented.count - 1)
    let apart = zip(known, presented).map { $0 &- $1 }
    let steps = zip(apart.dropFirst(), apart).map { $0 &- $1 }
    guard let largest = steps.indices.max(by: { steps[$0].magnitude < steps[$1].magnitude }),
      steps[largest].magnitude > max(UInt64(2 * tolerance), UInt64(clamping: period) * 5 / 2)
    else { return nil }
    func isConstant(_ part: ArraySlice<Int64>) -> Bool {
      let median = part.sorted()[part.count / 2]
      return part.allSatisfy { ($0 &- median).magnitude <= tolerance.magnitude }
    }
    return isConstant(apart[...largest]) && isConstant(apart[(largest + 1)...]) ? (largest + 1, steps[largest]) : nil
  }
}
