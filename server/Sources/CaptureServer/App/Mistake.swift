import Foundation
import GRDB

/// A mistake of the operator, as a sentence.
package struct Mistake: Error, CustomStringConvertible, Equatable {
  package var description: String
  package init(_ description: String) { self.description = description }

  /// Makes the reason why a server cannot start.
  package init(_ error: any Error) {
    switch error {
    case let mistake as Mistake: self = mistake
    case let failure as Failure: self.init(failure.reason ?? failure.message)
    case let error as DatabaseError: self.init("the database cannot be used: \(error.message ?? "\(error.resultCode)")")
    case let error as CocoaError:
      let reason = (error.underlying ?? error).localizedDescription
      self.init((error.filePath ?? error.url?.path).map { "\($0): \(reason)" } ?? reason)
    default: self.init("\(error)")
    }
  }
}
