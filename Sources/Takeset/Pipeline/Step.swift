import Foundation
package import Model

/// Anything a pipeline file can name. Stored properties are its options, their initial values the defaults; the property
/// `keepLocation` is the option `keep-location`.
package protocol Step: Codable, Sendable {
  static var name: String { get }
  /// What it does, in a line.
  static var summary: String { get }
  init()
  /// Throws `OptionError` when the values make no sense together.
  func validate() throws
}

extension Step {
  package func validate() throws {}
}

/// An option whose value makes no sense.
package struct OptionError: Error, Equatable {
  package var option: String
  package var message: String
  package init(_ option: String, _ message: String) {
    self.option = option
    self.message = message
  }
}

/// Finds takes of one format and opens them.
package protocol Reader: Step {
  /// Whether takes have streams that a pipeline must align to the frames.
  static var needsAlign: Bool { get }
  /// What is recognized at a place; `nil` when nothing is. Looks at names and first bytes, never at pixels. Throws where the system does not
  /// tell.
  func recognize(_ place: TakePlace) throws -> Candidate?
  /// Reads what is needed to know every stream's timestamps. Throws `TakeFailure`, or `Rejection` where a take is intact but lacks something.
  func open(_ take: Take) throws -> Episode
}

extension Reader {
  package static var needsAlign: Bool { true }

  /// The files of a take that this reader recognized before. Throws `TakeFailure` where it no longer does.
  package func inputs(of location: TakeLocation) throws -> TakeInputs {
    guard let candidate = try recognize(TakePlace(location)) else {
      throw TakeFailure(.changedWhileReading, "what was recognized as a take of \(Self.name) is no longer there")
    }
    return try candidate.inputs()
  }
}

/// Makes an episode out of another.
package protocol Transform: Step {
  /// Whether it has to look at images or depth before any is written.
  static var readsSamples: Bool { get }
  /// Throws `Rejection` to leave the episode out.
  func apply(to episode: Episode, in context: RunContext) throws -> Episode
}

extension Transform {
  package static var readsSamples: Bool { false }
}

/// A transform that also divides the takes of a dataset.
package protocol SplitRule: Transform {
  /// The part of each take, given the takes' groups.
  func assign(_ groups: [String]) -> [SplitPart]
  /// The rule in words, for the manifest.
  var words: String { get }
  var seed: Int { get }
}

package enum SplitPart: String, Sendable, CaseIterable { case train, valid, test }

/// What steps need from outside of the take.
package struct RunContext: Sendable {
  /// Public keys of devices, against which signatures are checked.
  package var keys: DeviceKeys?
  package init(keys: DeviceKeys? = nil) { self.keys = keys }
}

extension Episode {
  /// Whether what becomes of the take depends on the keys of the run.
  package var dependsOnKeys: Bool {
    get { extensions[KeyDependence.self] != nil }
    set { extensions[KeyDependence.self] = newValue ? KeyDependence() : nil }
  }

  /// What the reader and the transforms found out about the take, for its record.
  package var details: [String: JSONValue] {
    get { extensions[Details.self]?.members ?? [:] }
    set { extensions[Details.self] = Details(members: newValue) }
  }

  private struct KeyDependence: Sendable {}
  private struct Details: Sendable { var members: [String: JSONValue] }
}

/// A place in the file system where a take may be.
package struct TakeLocation: Hashable, Sendable, Codable {
  package var path: String
  package var isDirectory: Bool
  package init(path: String, isDirectory: Bool) {
    self.path = path
    self.isDirectory = isDirectory
  }

  var name: String { URL(fileURLWithPath: path).lastPathComponent }
  /// The name without its ending.
  var stem: String { URL(fileURLWithPath: name).deletingPathExtension().lastPathComponent }
}

/// One raw recording.
package struct Take: Sendable {
  package var id: String
  package var location: TakeLocation
  package var inputs: TakeInputs
  /// For an archive, the folder of its name beside it, where that is another take of the run: it may hold the same files.
  package var duplicateFolder: TakeLocation?
  package init(id: String, location: TakeLocation, inputs: TakeInputs, duplicateFolder: TakeLocation? = nil) {
    (self.id, self.location, self.inputs, self.duplicateFolder) = (id, location, inputs, duplicateFolder)
  }
}
