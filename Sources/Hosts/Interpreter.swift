import Foundation

/// The Python that runs steps: the interpreter itself, and the folders that it reads.
///
///     try Interpreter(nil).executable                                      // /home/ann/venv/bin/python3
package struct Interpreter: Sendable {
  package let executable: String
  /// Where its programs, its library and its packages are.
  let folders: [String]

  /// Finds the interpreter: `path`, or else `$TAKESET_PYTHON`, or else `python3` of PATH, which is that of an active environment. It is asked where
  /// its folders are.
  ///
  /// - Throws: `StepMistake` where there is none, none that answers, or where the name is `none`, by which steps are not called.
  package init(_ path: String?) throws {
    let environment = ProcessInfo.processInfo.environment
    let named = [path, environment["TAKESET_PYTHON"]].compactMap(\.self).first { !$0.isEmpty }
    if named == "none" { throw StepMistake("the pipeline has steps in Python, and --python none does not call any") }
    let remedy = "name one by --python or TAKESET_PYTHON, or activate an environment"
    let name = named ?? "python3"
    let places = name.contains("/") ? [name] : (environment["PATH"] ?? "").split(separator: ":").map { "\($0)/\(name)" }
    guard let found = places.first(where: { access($0, X_OK) == 0 }) ?? named else {
      throw StepMistake("there is no python3 in PATH; \(remedy)")
    }
    guard let answer = Self.ask(found) else { throw StepMistake("\(found) is no Python that runs; \(remedy)") }
    executable = answer[0]
    folders = Array(answer.dropFirst())
  }

  /// Returns the interpreter behind a name, which may be a script that chooses one, and its folders.
  private static func ask(_ path: String) -> [String]? {
    let script =
      "import sys, sysconfig; print('\\n'.join([sys.executable, sys.prefix, sys.base_prefix, sysconfig.get_path('stdlib'), *filter(None, sys.path)]))"
    let process = Process()
    let output = Pipe()
    process.executableURL = URL(fileURLWithPath: path)
    // Isolated: neither the working directory nor the environment says what is imported.
    process.arguments = ["-I", "-c", script]
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return nil }
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    let lines = String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
    guard process.terminationStatus == 0, lines.count > 3, lines[0].hasPrefix("/") else { return nil }
    // A prefix of / would open everything.
    return lines.filter { $0 != "/" }
  }
}

/// A step that cannot be used as it is written, or a machine that cannot run it: exit code 64.
package struct StepMistake: Error, CustomStringConvertible {
  package var message: String
  package init(_ message: String) { self.message = message }
  package var description: String { message }
}
