import Foundation
import Model

/// A parser of bytes from outside, and what must hold of its results.
///
/// The parser may throw errors of the types that it declares, each with a message of reasonable length. Everything else ends the process,
/// which libFuzzer reports: another error, a trap, a sanitizer's report, and a property that does not hold.
struct FuzzTarget: Sendable {
  let name: String
  /// Types of the errors that the parser is meant to throw.
  let errors: [any Error.Type]
  let run: @Sendable ([UInt8]) throws -> Void

  /// Longest message of an error in bytes: it goes to the manifest and to a terminal.
  private static let messageLimit = 4096

  init(_ name: String, throws errors: any Error.Type..., run: @escaping @Sendable ([UInt8]) throws -> Void) {
    (self.name, self.errors, self.run) = (name, errors, run)
  }

  static let all: [FuzzTarget] = documents + sessions + tables + bundles + archives + media + phones + settings + batches

  static func named(_ name: String) -> FuzzTarget? { all.first { $0.name == name } }

  func test(_ bytes: [UInt8]) {
    do {
      try run(bytes)
    } catch {
      guard errors.contains(where: { $0 == type(of: error) }) else { fatalError("\(name) throws \(type(of: error)): \(error)") }
      let words = (error as? SampleFailure)?.finding.message ?? "\(error)"
      expect(!words.isEmpty, "an error without a message")
      expect(words.utf8.count <= Self.messageLimit, "a message of \(words.utf8.count) bytes: \(words.prefix(200))")
    }
  }
}

/// Ends the process where a property does not hold.
func expect(_ condition: @autoclosure () throws -> Bool, _ message: @autoclosure () -> String) rethrows {
  if try !condition() { fatalError(message()) }
}

/// The result of a call that may not fail, because its input was made or accepted by its counterpart.
func must<Result>(_ what: String, _ body: () throws -> Result) -> Result {
  do { return try body() } catch { fatalError("\(what): \(error)") }
}
