import Foundation
import Model
import Steps

/// Whether a take whose files rest has all the files that it lists.
enum TakeCompleteness {
  /// What is still missing, as a sentence; `nil` for a take that is complete. Throws the reason that the take cannot be listed at all.
  static func obstacle(_ place: TakeLocation, _ reader: any Reader, hasRestedLong: Bool) throws -> String? {
    let inputs = try reader.inputs(of: place)
    _ = try inputs.stamp()
    if inputs.archive != nil { return nil }
    return try reader.missing(in: inputs, hasRestedLong: hasRestedLong)
  }

  static func words(_ error: any Error) -> String {
    switch error {
    case let error as TakeFailure: error.description
    case let error as FileError: error.failure().description
    default: "\(error)"
    }
  }
}
