package import Model

/// A synthetic take of an app, whose form has no options but its quirks.
package protocol SimulatedApp: Sendable {
  associatedtype Quirk: RawRepresentable<String>, CaseIterable & Sendable

  /// Name of the subcommand of `takeset simulate`, and its help.
  static var command: String { get }
  static var abstract: String { get }
  static var usualSize: ImageSize { get }

  init()
  var seconds: Double { get set }
  var seed: UInt64 { get set }
  /// Size of the images.
  var size: ImageSize { get set }
  /// Forms that takes have of some versions, and damage.
  var quirks: [Quirk] { get set }

  /// Writes the take into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
  func write(to directory: String) throws
}
