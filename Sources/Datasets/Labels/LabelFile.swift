package import Evidence
import Foundation
package import Model
package import Steps

/// Labels of takes as somebody writes them: a table with a line for a take or for a segment, or YAML or JSON with an object for each take.
///
///     take,task,success,tags,start,end,text
///     kitchen-*,put the cup away,true,night;left,,,
///     kitchen-3,,,,0.5,2.0,reach for the cup
///
/// A name is the id of a take or of an episode, or a pattern with `*`. A file in or beside a take has the labels of that take alone.
package struct LabelFile: Sendable {
  /// What one line or object says.
  package struct Line: Sendable {
    /// `nil` for the take that the file is in.
    package var name: String?
    package var values: [String: JSONValue]
    /// The line in the file, from 1, where known.
    package var number: Int?
  }

  /// A sentence on what cannot be, with its line.
  package struct Mistake: Sendable, Equatable {
    var line: Int?
    var message: String

    package var words: String { (line.map { "line \($0): " } ?? "") + message }
  }

  /// The file, as messages and sources name it, without its folder.
  package let name: String
  package private(set) var lines: [Line] = []
  package private(set) var mistakes: [Mistake] = []

  /// Bytes of a file, at most: of many takes, and of one. YAML takes a hundred times as much memory.
  static let (limit, limitOfOneTake) = (16 << 20, 1 << 20)

  /// The endings of names; of several files of one take, the first is read.
  package static let extensions = ["json", "yaml", "yml", "csv"]

  /// Whether it is the name of a file of labels in a take's folder.
  package static func isName(_ name: String) -> Bool { extensions.contains { name == "labels.\($0)" } }

  /// Reads a file that names takes. Throws `UsageError` where it is none.
  package init(_ path: String) throws {
    do {
      self.init(try Self.bytes(of: path), name: URL(fileURLWithPath: path).lastPathComponent, isOfOneTake: false)
    } catch let error as FileError {
      throw UsageError("\(error)")
    } catch let error as TakeFailure {
      throw UsageError("\(path): \(error.message)")
    }
    // Where nothing at all can be read, the person has given another file.
    if lines.isEmpty, let first = mistakes.first { throw UsageError("\(name): \(first.words)") }
  }

  static func bytes(of path: String, limit: Int = limit) throws -> [UInt8] {
    let file = try InputFile(path)
    guard file.stamp.bytes <= limit else {
      throw UsageError("\(path) has \(file.stamp.bytes) bytes; such a file of labels has at most \(limit >> 20) MiB")
    }
    var bytes: [UInt8] = []
    try file.readAll(limit: limit, into: &bytes)
    return bytes
  }

  /// - Parameter isOfOneTake: Whether it has the labels of one take, which need not be named.
  init(_ bytes: [UInt8], name: String, isOfOneTake: Bool) {
    self.name = name
    if name.lowercased().hasSuffix(".csv") { readTable(bytes, isOfOneTake) } else { readDocument(bytes, isOfOneTake) }
  }

  /// What a file of labels in the archive of a take says of its episodes, for their details; `nil` where there is none. The archive is an input,
  /// so this is read once, while files in folders are read by each run.
  package static func archived(_ inputs: TakeInputs) -> ((EpisodeID) -> JSONValue)? {
    for name in extensions.map({ "labels.\($0)" }) {
      let file: LabelFile
      do {
        guard let bytes = try inputs.archived(name, limit: limitOfOneTake) else { continue }
        file = LabelFile(bytes, name: name, isOfOneTake: true)
      } catch {
        let mistake = "\(name): \((error as? TakeFailure)?.message ?? "\(error)")"
        return { _ in ["file": .string(name), "mistakes": [.string(mistake)]] }
      }
      let mistakes = file.mistakes.map { JSONValue.string("\(name): \($0.words)") }, names = Names(file)
      return { ["file": .string(name), "labels": .object(file.values(of: $0, using: names).values), "mistakes": .array(mistakes)] }
    }
    return nil
  }

  private mutating func fail(_ message: String, _ line: Int? = nil) { mistakes.append(Mistake(line: line, message: message)) }

  /// The values that can be; the others are mistakes.
  private mutating func checked(_ values: [String: JSONValue], _ line: (String) -> Int?) -> [String: JSONValue] {
    var checked: [String: JSONValue] = [:]
    for (name, value) in values.sorted(by: { $0.key < $1.key }) {
      do { checked[name] = try LabelValue.checked(name, value) } catch { fail("\(error)", line(name)) }
    }
    return checked
  }

  private mutating func readDocument(_ bytes: [UInt8], _ isOfOneTake: Bool) {
    guard var text = String(validating: bytes, as: UTF8.self) else { return fail("the text is not UTF-8") }
    if name.lowercased().hasSuffix(".json") {
      // To YAML they end a line, with the spaces around them; in JSON they are characters of a text.
      for (character, escaped) in [("\u{85}", "\\u0085"), ("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029")] {
        text = text.replacingOccurrences(of: character, with: escaped, options: .literal)
      }
    }
    let document: YAMLDocument
    do {
      guard let found = try YAMLDocument(text) else { return fail("the file is empty; expected an object of labels") }
      document = found
    } catch let error as PipelineFileError {
      return fail(error.path.isEmpty ? error.message : "\(error.path): \(error.message)", error.line)
    } catch {
      return fail("\(error)")
    }
    guard case .object(let members) = document.value else {
      return fail("expected an object \(isOfOneTake ? "of labels" : "with the labels of each take"), found \(document.value.type)")
    }
    if isOfOneTake {
      let values = checked(members) { document.place(of: $0)?.line }
      lines.append(Line(name: nil, values: values, number: nil))
      return
    }
    func line(_ take: String) -> Int? { document.place(of: take)?.line }
    for (take, labels) in members.sorted(by: { (line($0.key) ?? 0, $0.key) < (line($1.key) ?? 0, $1.key) }) {
      guard case .object(let values) = labels else {
        fail("\(take.onOneLine.prefix(64)): expected an object of labels, found \(labels.type)", line(take))
        continue
      }
      let good = checked(values) { document.place(of: "\(take).\($0)")?.line }
      lines.append(Line(name: take, values: good, number: line(take)))
    }
  }

  private mutating func readTable(_ bytes: [UInt8], _ isOfOneTake: Bool) {
    var columns: [String]?
    do {
      try DelimitedText(bytes, fieldLimit: 256).forEachLine { line in
        guard let columns else {
          columns = try header(line, isOfOneTake)
          return
        }
        guard line.fields.count <= columns.count else {
          return fail("\(line.fields.count) fields, expected \(columns.count)", line.number)
        }
        read(line, columns)
      }
      if columns == nil { fail("the file is empty; expected a header such as take,task,success") }
    } catch {
      fail("\(error)")
    }
  }

  private func header(_ line: DelimitedText.Line, _ isOfOneTake: Bool) throws -> [String] {
    let names = line.fields
    if let twice = Dictionary(grouping: names, by: \.self).first(where: { $1.count > 1 }) {
      throw DelimitedText.Mistake(description: "line \(line.number): two columns are named \(twice.key.onOneLine.prefix(64))")
    }
    if !isOfOneTake, !names.contains("take") {
      throw DelimitedText.Mistake(description: "line \(line.number): expected a header with a column take, such as take,task,success")
    }
    return names
  }

  private mutating func read(_ line: DelimitedText.Line, _ columns: [String]) {
    var fields: [String: String] = [:]
    for (name, field) in zip(columns, line.fields) where !field.isEmpty { fields[name] = field }
    let take = fields.removeValue(forKey: "take")
    if take == nil, columns.contains("take") { return fail("it names no take", line.number) }
    var values: [String: JSONValue] = [:]
    if fields["start"] != nil || fields["end"] != nil || fields["text"] != nil {
      var segment: [String: JSONValue] = [:]
      for name in ["start", "end", "text", "success"] {
        segment[name] = fields.removeValue(forKey: name).map { LabelValue.ofField($0, name) }
      }
      values[LabelValue.segmentsName] = [.object(segment)]
    }
    for (name, field) in fields { values[name] = LabelValue.ofField(field, name) }
    lines.append(Line(name: take, values: checked(values) { _ in line.number }, number: line.number))
  }

  // MARK: Matching

  /// What the file says of an episode, by the numbers of the lines that name it. Of several the later one wins, but each adds its segments.
  package func values(of episode: EpisodeID, using names: Names) -> (values: [String: JSONValue], lines: [Int]) {
    let matching = names.lines(for: episode)
    var values: [String: JSONValue] = [:]
    var segments: [JSONValue]?
    for index in matching {
      values.merge(lines[index].values) { $1 }
      if case .array(let own) = lines[index].values[LabelValue.segmentsName] { segments = (segments ?? []) + own }
    }
    if let segments, values[LabelValue.segmentsName] != .null { values[LabelValue.segmentsName] = .array(segments) }
    return (values, matching)
  }

  /// The lines by the names in them.
  package struct Names {
    private var exact: [String: [Int]] = [:]
    private var patterns: [(pattern: String, line: Int)] = []
    private var unnamed: [Int] = []

    package init(_ file: LabelFile) {
      for (index, line) in file.lines.enumerated() {
        if let name = line.name {
          if name.contains("*") { patterns.append((name.shellPattern, index)) } else { exact[name, default: []].append(index) }
        } else {
          unnamed.append(index)
        }
      }
    }

    func lines(for episode: EpisodeID) -> [Int] {
      var found = unnamed + (exact[episode.take] ?? [])
      if episode.text != episode.take { found += exact[episode.text] ?? [] }
      found += patterns.filter { fnmatch($0.pattern, episode.take, 0) == 0 || fnmatch($0.pattern, episode.text, 0) == 0 }.map(\.line)
      return found.sorted()
    }
  }
}

extension String {
  /// A pattern in which only `*` stands for anything, as `fnmatch` reads it.
  package var shellPattern: String { reduce(into: "") { $0 += "?[\\".contains($1) ? "\\\($1)" : "\($1)" } }
}
