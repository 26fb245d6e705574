import ArgumentParser
import Foundation
import Model
import Synchronization

/// Prints a line. An output that is closed is no reason to stop.
func standardError(_ line: String) { try? FileHandle.standardError.write(contentsOf: Data((printable(line) + "\n").utf8)) }

/// Prints a result. Ends the program where the reader has closed the pipe: `takeset inspect … | head`.
///
/// - Parameter asIs: Whether unprintable characters stay what they are: in a file that another command reads.
func standardOutput(_ text: String, asIs: Bool) {
  do {
    try FileHandle.standardOutput.write(contentsOf: Data(((asIs ? text : printable(text)) + "\n").utf8))
  } catch {
    if errno == EPIPE { Foundation.exit(0) }
    standardError("takeset: cannot write the output: \(error.localizedDescription)")
    Foundation.exit(1)
  }
}

/// Prints a result for people. A function of its own, because it is passed to `forEach`.
func standardOutput(_ text: String) { standardOutput(text, asIs: false) }

/// Prints a line for people: if it cannot be written, the result and the exit code stay the same.
func logLine(_ line: String) { try? FileHandle.standardOutput.write(contentsOf: Data((printable(line) + "\n").utf8)) }

/// Text for a terminal: names and messages of takes could otherwise move its cursor or change its title. Unprintable characters other than
/// tabs, line ends and, on terminals, those of the styles become visible, such as `\u001B`, which JSON reads as the same character.
func printable(_ text: String) -> String {
  func isControl(_ character: Unicode.Scalar) -> Bool { character.isUnprintable && character != "\n" && character != "\t" }
  guard text.unicodeScalars.contains(where: isControl) else { return text }
  var result = String.UnicodeScalarView()
  var rest = text.unicodeScalars[...]
  while let first = rest.popFirst() {
    if first == "\u{1B}", Style.isInUse.load(ordering: .relaxed),
      let code = Style.codes.first(where: { rest.starts(with: "[\($0)m".unicodeScalars) })
    {
      result.append(contentsOf: "\u{1B}[\(code)m".unicodeScalars)
      rest = rest.dropFirst(code.count + 2)
    } else if isControl(first) {
      result.append(contentsOf: first.escaped.unicodeScalars)
    } else {
      result.append(first)
    }
  }
  return String(result)
}

/// Lines of columns that are as wide as their longest text.
func columned(_ lines: [[String]]) -> [String] {
  let widths = (0..<(lines.first?.count ?? 0)).map { column in lines.map { $0[column].count }.max() ?? 0 }
  return lines.map { line in
    zip(line, widths).map { $0.padded(to: $1) }.joined(separator: "  ")
      .replacing(/\ +$/, with: "")
  }
}

/// A field of a table whose fields are separated by commas, in quotes where it needs them.
func commaSeparated(_ field: String) -> String {
  // By bytes: a comma with an accent after it is another character.
  let isPlain = !field.utf8.contains { ",\"\n\r".utf8.contains($0) } && field.utf8.first != 0x20 && field.utf8.last != 0x20
  return isPlain ? field : "\"" + field.unicodeScalars.map { $0 == "\"" ? "\"\"" : String($0) }.joined() + "\""
}

/// Output options of every command that prints text for people.
struct OutputOptions: ParsableArguments {
  @Flag(name: .shortAndLong, help: "Print problems only.")
  var quiet = false
  @Flag(name: .shortAndLong, help: "Print more: every take and every note.")
  var verbose = false
  @Option(help: ArgumentHelp("Color: auto, always or never. auto respects NO_COLOR.", valueName: "when"))
  var color = Color.auto

  enum Color: String, ExpressibleByArgument, CaseIterable { case auto, always, never }

  func validate() throws {
    if quiet, verbose { throw ValidationError("give either --quiet or --verbose, not both") }
  }

  /// The styles for a stream: `STDOUT_FILENO` or `STDERR_FILENO`.
  func style(for descriptor: Int32) -> Style {
    let isColored =
      switch color {
      case .always: true
      case .never: false
      case .auto: isatty(descriptor) == 1 && Self.environmentAllowsColor
      }
    if isColored { Style.isInUse.store(true, ordering: .relaxed) }
    return Style(isColored: isColored)
  }

  /// Whether the environment allows color; any nonempty `NO_COLOR` disables it (https://no-color.org).
  private static var environmentAllowsColor: Bool {
    let environment = ProcessInfo.processInfo.environment
    return (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
  }
}

/// Text in the colors of a terminal (ECMA-48 SGR), or plain.
struct Style {
  /// Whether the program has painted anything.
  static let isInUse = Atomic<Bool>(false)
  static let codes = ["31", "33", "32", "2", "1", "0"]

  var isColored: Bool

  func error(_ text: String) -> String { painted(text, "31") }
  func warning(_ text: String) -> String { painted(text, "33") }
  func success(_ text: String) -> String { painted(text, "32") }
  func dim(_ text: String) -> String { painted(text, "2") }
  func bold(_ text: String) -> String { painted(text, "1") }

  private func painted(_ text: String, _ code: String) -> String { isColored ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text }
}

/// A size in MB: `12.3 MB`, and `less than 0.1 MB` in place of 0.0.
func megabytes(_ bytes: some BinaryInteger) -> String {
  let size = Double(bytes) / 1e6
  return size > 0 && size < 0.05 ? "less than 0.1 MB" : String(format: "%.1f MB", size)
}

extension String {
  func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
