/// Something that ends the command, as a sentence with the exit code.
package struct UploaderProblem: Error, Equatable, CustomStringConvertible {
  package var description: String
  package var exitCode: Int32

  package init(_ description: String, exitCode: Int32 = 1) {
    self.description = description
    self.exitCode = exitCode
  }

  /// A mistake in the command.
  package static func usage(_ description: String) -> UploaderProblem { UploaderProblem(description, exitCode: 64) }
  /// The server wants a registration that cannot be had.
  package static func registration(_ description: String) -> UploaderProblem { UploaderProblem(description, exitCode: 77) }
}
