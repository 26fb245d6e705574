import Datasets
import Model
import Steps

/// Tells what a place among the inputs is. A search and a watch ask the same question, so that both find the same takes.
///
///     switch try TakeWalk(readers: readers).place(at: location) {
///     case .take(let claim, let rivals): …
///     case .foreign(let failure): …
///     case .recovery, .other: …
///     }
struct TakeWalk: Sendable {
  /// A reader's claim on a place.
  struct Claim {
    var reader: any Reader
    var candidate: Candidate
    /// The files of labels in the folder; `nil` for a file.
    var labelFiles: [Directory.Member]?
  }

  enum Place {
    /// A take, read by the surest reader, with the claims of the others that are as sure.
    case take(Claim, rivals: [Claim])
    /// A take of a format that is known and not read.
    case foreign(TakeFailure)
    /// A folder that `takeset recover` has kept or is writing.
    case recovery
    /// A folder to search, or a file that no reader recognizes.
    case other
  }

  /// The deepest folder below an input that is searched.
  static let depthLimit = 64

  let readers: [any Reader]

  /// Throws `FileError` or `TakeFailure` for a place that cannot be read, which may be a take.
  func place(at location: TakeLocation) throws -> Place {
    if ForeignFormats.isOfRecovery(location) { return .recovery }
    let place = TakePlace(location)
    let claims = try readers.compactMap { reader in try reader.recognize(place).map { Claim(reader: reader, candidate: $0) } }
    let surest = claims.map(\.candidate.confidence).max()
    // A reader that the pipeline names, or the folder itself, may take what looks like another format.
    if readers.count > 1, surest != .declared, let failure = try ForeignFormats.refusal(of: place) { return .foreign(failure) }
    guard let surest else { return .other }
    var best = claims.filter { $0.candidate.confidence == surest }
    // Names are read already, so that nobody has to ask for these.
    if location.isDirectory { best[0].labelFiles = try place.members().filter { LabelFile.isName($0.name) } }
    return .take(best[0], rivals: Array(best.dropFirst()))
  }

  /// Returns the reason why a folder this deep is not searched; `nil` for all others.
  static func notice(_ folder: TakeLocation, depth: Int) -> String? {
    depth < depthLimit ? nil : "\(folder.path.onOneLine) is nested deeper than \(depthLimit) directories and is not searched"
  }

  /// Returns the reason why a member of a directory is not read that is neither a file nor a directory.
  static func notice(_ kind: Directory.Kind, _ path: String) -> String {
    switch kind {
    case .link: "\(path.onOneLine) is a symbolic link and is not followed; name it as an input to read it"
    case .unnameable: "\(path.onOneLine) is not read, because its name is not UTF-8"
    default: "\(path.onOneLine) is neither a file nor a directory and is not read"
    }
  }
}
