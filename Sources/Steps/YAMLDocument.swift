package import Evidence
import Yams

/// A YAML text in the core schema as a JSON value, with the places of its values. JSON is YAML, and is read too.
///
///     let document = try YAMLDocument("take-1: {task: fold the towel}")
///     document?.value["take-1"]?["task"]               // "fold the towel"
///     document?.place(of: "take-1.task")               // line 1, column 10
package struct YAMLDocument {
  package let value: JSONValue
  /// Places by path, such as `transforms[1].decimate.rate`.
  private var marks: [String: Mark] = [:]

  /// `nil` for a text without a value. Throws `PipelineFileError` with path, line and column of the first mistake: a syntax error, an alias, a
  /// key that is given twice, a number that is not decimal, nesting deeper than 32.
  package init?(_ text: String) throws {
    // Some editors begin a file with a byte order mark.
    let text = text.first == "\u{FEFF}" ? String(text.dropFirst()) : text
    let node: Node?
    do {
      node = try YAMLText.compose(text)
    } catch let error as YamlError {
      // YAML does not know JSON's escapes of characters beyond 16 bits.
      if let value = try? JSONReader(Array(text.utf8)).document() {
        self.value = value
        return
      }
      throw PipelineFileError(error, text)
    }
    guard let node else { return nil }
    var marks: [String: Mark] = [:]
    do {
      value = try Self.value(of: node, at: "", depth: 0, &marks)
    } catch var error as PipelineFileError {
      if let mark = Self.mark(of: error.path, marks) { (error.line, error.column) = (mark.line, mark.column) }
      throw error
    }
    self.marks = marks
  }

  /// Line and column, from 1, of the value at a path, or else of the nearest one around it.
  package func place(of path: String) -> (line: Int, column: Int)? { Self.mark(of: path, marks).map { ($0.line, $0.column) } }

  private static func mark(of path: String, _ marks: [String: Mark]) -> Mark? {
    var path = path[...]
    while marks[String(path)] == nil, let end = path.lastIndex(where: { ".[".contains($0) }) { path = path[..<end] }
    return marks[String(path)]
  }

  private static func value(of node: Node, at path: String, depth: Int, _ marks: inout [String: Mark]) throws -> JSONValue {
    marks[path] = marks[path] ?? node.mark
    if depth > 32 { throw PipelineFileError(path, "nested deeper than 32") }
    switch node {
    case .mapping(let mapping):
      var members: [String: JSONValue] = [:]
      for (keyNode, child) in mapping {
        guard let key = keyNode.string else { throw PipelineFileError(path, "expected text as a key") }
        let childPath = path.isEmpty ? key : "\(path).\(key)"
        if members[key] != nil { throw PipelineFileError(childPath, "the key is given twice") }
        marks[childPath] = keyNode.mark
        members[key] = try value(of: child, at: childPath, depth: depth + 1, &marks)
      }
      return .object(members)
    case .sequence(let sequence):
      return .array(
        try sequence.enumerated().map { try value(of: $1, at: "\(path)[\($0)]", depth: depth + 1, &marks) })
    case .scalar(let scalar):
      if scalar.style == .plain || scalar.style == .any {
        if node.null != nil { return .null }
        if node.int != nil || node.float != nil {
          guard node.float?.isFinite != false else { throw PipelineFileError(path, "expected a finite number, found \(scalar.string)") }
          guard DecimalNumber.isDecimal(scalar.string) else {
            throw PipelineFileError(
              path, "expected a number in decimal digits, found \(scalar.string); text that looks like one needs quotes")
          }
          if let whole = node.int { return .integer(Int64(whole)) }
          if let number = node.float { return .number(number) }
        }
        if let flag = node.bool { return .bool(flag) }
      }
      return .string(scalar.string)
    case .alias:
      throw PipelineFileError(path, "aliases are not supported")
    }
  }
}
