import Foundation
import Model
import Steps

/// The subject of a check: all episodes of a dataset, measured, in their order.
struct Examined: Sendable {
  var episodes: [EpisodeMeasurements]
  /// Names of masks that select no episode although the pipeline asks for them.
  var emptyMasks: [String] = []
  /// Rows of a training window.
  var window: Int
  /// The path of the dataset, for commands.
  var dataset: String
  /// The command that makes what the loader reads; `nil` where it reads the dataset.
  var exportCommand: String?

  /// Those that can be read.
  var readable: [EpisodeMeasurements] { episodes.filter { $0.failure == nil } }

  /// Episodes in words: `a`, `a, b, c and 4 more`, `all 12 episodes`.
  func words(_ ids: [String]) -> String {
    ids.count == episodes.count && ids.count > 1 ? "all \(ids.count) episodes" : ids.abridged
  }

  /// The observation keys of any episode, sorted.
  var keys: [String] { Set(readable.flatMap(\.observations.keys)).sorted() }

  /// The arrays of a key, with the episodes that have it.
  func arrays(_ key: String) -> [(id: String, array: ArrayMeasurements)] {
    readable.compactMap { episode in
      (key == "actions" ? episode.actions : episode.observations[key]).map { (episode.id, $0) }
    }
  }
}

/// Something that a rule has found.
struct Problem: Sendable {
  /// A clause with numbers and episodes, without what follows from it.
  var sentence: String
  var episodes: [String]
  /// Another remedy or severity than the rule's.
  var remedy: Remedy?
  var severity: Diagnosis.Severity?
}

/// A rule of a loader: what to look for in the episodes, how bad it is there, why, and what to do.
/// The loaders share what is looked for; the rest is each loader's own.
struct DoctorRule: Sendable {
  var code: DiagnosisCode
  var severity: Diagnosis.Severity
  /// The loader's behavior then; a clause.
  var consequence: String
  var remedy: Remedy
  var find: @Sendable (Examined) -> [Problem]

  init(
    _ code: DiagnosisCode, _ severity: Diagnosis.Severity, _ consequence: String, _ remedy: Remedy,
    _ find: @escaping @Sendable (Examined) -> [Problem]
  ) {
    (self.code, self.severity, self.consequence, self.remedy, self.find) = (code, severity, consequence, remedy, find)
  }

  func diagnoses(of examined: Examined) -> [Diagnosis] {
    find(examined).map { problem in
      var remedy = problem.remedy ?? remedy
      remedy.command = remedy.command?.replacing("DATASET", with: shellWord(examined.dataset))
      return Diagnosis(
        code: code, severity: problem.severity ?? severity, message: "\(problem.sentence); \(consequence)", episodes: problem.episodes,
        remedy: remedy)
    }
  }
}

/// A program that reads datasets, or reads what an export makes of them.
package enum Loader: String, Sendable, CaseIterable {
  case robomimic, aloha, lerobot
  case diffusionPolicy = "diffusion-policy"
  case nerfstudio
  /// The question whether depth, poses and intrinsics agree; it stands for no program.
  case geometry

  /// The command that makes what it reads; `nil` where it reads the dataset.
  var exportCommand: String? {
    switch self {
    case .robomimic, .geometry: nil
    case .aloha: "takeset export DATASET --to aloha --output OUT"
    case .lerobot: "takeset export DATASET --to lerobot --output OUT"
    case .diffusionPolicy: "takeset export DATASET --to zarr --output OUT"
    case .nerfstudio: "takeset export DATASET --to nerfstudio --output OUT"
    }
  }

  /// Whether it reads an observation of an episode.
  func reads(_ array: ArrayMeasurements, of episode: EpisodeMeasurements) -> Bool {
    switch self {
    case .robomimic, .lerobot, .diffusionPolicy: true
    case .aloha:
      array.isImage || array.isPose || array.isAngles
        // Where actions are missing, it is one that they could be made of.
        || array.isVector && episode.poses == nil && (episode.actions == nil || episode.isActing(array))
    case .nerfstudio: array.isImage || array.isPose || array.isDepth
    case .geometry: array.isPose || array.isDepth
    }
  }

  /// Rows of the training window that is usual with it.
  package var window: Int {
    switch self {
    // The sequences of its policies with memory.
    case .robomimic: 10
    // ACT's chunk.
    case .aloha: 100
    // The horizon of diffusion policy in both.
    case .lerobot, .diffusionPolicy: 16
    case .nerfstudio, .geometry: 1
    }
  }

  var rules: [DoctorRule] {
    switch self {
    case .robomimic: Self.robomimicRules
    case .aloha: Self.alohaRules
    case .lerobot: Self.lerobotRules
    case .diffusionPolicy: Self.diffusionPolicyRules
    case .nerfstudio: Self.nerfstudioRules
    case .geometry: Self.geometryRules
    }
  }
}

/// A number with three significant digits.
func short(_ value: Double) -> String {
  abs(value) >= 1000 && abs(value) < 1e15 ? String(Int64(value.rounded())) : String(format: "%.3g", value)
}

/// A share in percent: `3 %`, `0.4 %`.
func percent(_ share: Double) -> String { "\(short(share * 100)) %" }
