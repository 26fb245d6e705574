import Foundation

/// Anything a pipeline file can name. Stored properties are its options, their initial values the defaults; the property
/// `keepLocation` is the option `keep-location`.
package protocol Step: Codable, Sendable {
  static var name: String { get }
  /// What it does, in a line.
  static var summary: String { get }
  /// A line for each option, by option name: meaning and unit.
  static var help: [String: String] { get }
  init()
  /// Throws `OptionError` when the values make no sense together.
  func validate() throws
}

extension Step {
  package static var help: [String: String] { [:] }
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
  /// Whether a take of this format stands at `place`; looks at names and headers, never at pixels.
  func recognises(_ place: TakeLocation) -> Bool
  /// The take's name, from which its id is made.
  func name(of place: TakeLocation) -> String
  /// Whether a take's name is one that many have, so that it does not serve as an id.
  func hasGenericName(_ stem: String) -> Bool
  /// The files of the take, by name.
  func inputs(of place: TakeLocation) throws -> TakeInputs
  /// Reads what is needed to know every stream's timestamps. Throws `TakeFailure`, or `Rejection` where a take is sound
  /// but lacks something.
  func open(_ take: Take) throws -> Episode
}

extension Reader {
  package func name(of place: TakeLocation) -> String { place.isDirectory ? place.name : place.stem }
  package func hasGenericName(_ stem: String) -> Bool { false }
}

/// Turns an episode into another.
package protocol Transform: Step {
  /// Whether it has to look at samples before any is written.
  static var readsSamples: Bool { get }
  /// Throws `Rejection` to leave the episode out.
  func apply(to episode: Episode) throws -> Episode
}

extension Transform {
  package static var readsSamples: Bool { false }
}

/// A place in the file system where a take may be.
package struct TakeLocation: Hashable, Sendable {
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
  /// For an archive, the folder of its name beside it, where that is another take of the run: older versions of the app left both.
  package var twin: TakeLocation?
  /// Keys of devices, against which signatures are checked.
  package var keys: DeviceKeys?
  package init(id: String, location: TakeLocation, inputs: TakeInputs, twin: TakeLocation? = nil) {
    (self.id, self.location, self.inputs, self.twin) = (id, location, inputs, twin)
  }
}
