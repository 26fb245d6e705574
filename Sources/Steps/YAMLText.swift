package import Yams

/// YAML that people write: without anchors and aliases, by which a page of text stands for more values than memory holds.
package enum YAMLText {
  /// The root node; `nil` for an empty text. Throws `YamlError`, or `PipelineFileError` with the place of the first alias.
  package static func compose(_ text: String) throws -> Node? {
    // Yams puts copies in place of aliases, and compares keys with all that is in them, before anybody could look.
    if let place = firstAlias(in: text) {
      var error = PipelineFileError("", "anchors and aliases are not supported; write the value again where the alias is")
      (error.line, error.column) = place
      throw error
    }
    return try Yams.compose(yaml: text)
  }

  /// Line and column, from 1, of the first `*name` for which there is an `&name`, each where a value may start (YAML 1.2.2, 7.1). In quotes
  /// and comments, too; both together do not occur there.
  private static func firstAlias(in text: String) -> (Int, Int)? {
    var anchors: Set<[UInt8]> = [], aliases: [(name: [UInt8], line: Int, column: Int)] = []
    let bytes = Array(text.utf8)
    var (line, start) = (1, 0)
    for (index, byte) in bytes.enumerated() {
      if byte == UInt8(ascii: "\n") { (line, start) = (line + 1, index + 1) }
      guard byte == UInt8(ascii: "&") || byte == UInt8(ascii: "*"), index == 0 || precedesValue(bytes[index - 1]) else { continue }
      let name = Array(bytes[(index + 1)...].prefix(while: isNamed))
      guard !name.isEmpty else { continue }
      if byte == UInt8(ascii: "&") { anchors.insert(name) } else { aliases.append((name, line, index - start + 1)) }
    }
    return aliases.first { anchors.contains($0.name) }.map { ($0.line, $0.column) }
  }

  /// White space, indicators of flow collections, and the end of a byte order mark.
  private static func precedesValue(_ byte: UInt8) -> Bool { byte <= 0x20 || "[{,:?".utf8.contains(byte) || byte >= 0x80 }

  private static func isNamed(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
      UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }
}

extension PipelineFileError {
  /// A YAML syntax error with its likely remedy.
  package init(_ error: YamlError, _ text: String) {
    if case .duplicatedKeysInMapping(let keys, let context) = error {
      self.init(keys.sorted().first ?? "", "the key is given twice")
      (line, column) = (context.mark.line, context.mark.column)
      return
    }
    guard case .scanner(_, let problem, let mark, _) = error.withContext else {
      self.init("", "not YAML: \(error)")
      return
    }
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let line = mark.line >= 1 && mark.line <= lines.count ? lines[mark.line - 1] : ""
    let remedy =
      if line.prefix(while: { $0 == " " || $0 == "\t" }).contains("\t") {
        "; indent with spaces, not tabs"
      } else if problem.contains("mapping values are not allowed") {
        "; quote the value, or indent the lines below a key further than the key"
      } else {
        "; check the indentation and quotes there"
      }
    self.init("", "not YAML: \(problem)\(remedy)")
    (self.line, column) = (mark.line, mark.column)
  }
}

extension YamlError {
  /// The same error, with a parser error as a scanner error.
  fileprivate var withContext: YamlError {
    if case .parser(let context, let problem, let mark, let yaml) = self {
      return .scanner(context: context, problem: problem, mark, yaml: yaml)
    }
    return self
  }
}
