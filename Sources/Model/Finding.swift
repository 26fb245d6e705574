/// An anomaly of a take that conversion survives, or the reason why the take could not be converted.
package struct Finding: Hashable, Sendable, Codable {
  /// The weight of a finding: `error` is the reason why a take failed, `warning` may matter to a user, `info` is for the record.
  package enum Severity: String, Sendable, Codable { case info, warning, error }

  package var code: FindingCode
  package var severity: Severity
  /// A sentence: what was found and what was expected.
  package var message: String
  /// Path inside the take, `/`-separated.
  package var file: String?
  /// Place in the file: `[412].timestamp`, `line 3, column 7`.
  package var field: String?
  /// Number of occurrences, when several samples are affected.
  package var count: Int?

  /// `severity`: The severity of the code unless given.
  package init(
    _ code: FindingCode, _ message: String, severity: Severity? = nil, file: String? = nil, field: String? = nil, count: Int? = nil
  ) {
    self.code = code
    self.severity = severity ?? code.severity
    self.message = Self.shortened(message)
    self.file = file
    self.field = field
    self.count = count
  }

  /// The finding of a member of a joined take, whose files are below its name; the same without one.
  package func ofMember(_ member: String?) -> Finding {
    var own = self
    (own.file, own.message) = Self.place(file, message, of: member)
    return own
  }

  /// The file and the message of a finding or failure of a member: what has no file begins with its name.
  fileprivate static func place(_ file: String?, _ message: String, of member: String?) -> (String?, String) {
    guard let member else { return (file, message) }
    guard let file else { return (nil, message.hasPrefix("\(member): ") ? message : "\(member): \(message)") }
    return (file.hasPrefix("\(member)/") ? file : "\(member)/\(file)", message)
  }

  /// A message of one line of bounded length: what a file says is quoted in it, and may be long.
  fileprivate static func shortened(_ message: String) -> String {
    (message.utf8.count <= 1000 ? message : String(String.UnicodeScalarView(message.unicodeScalars.prefix(500))) + "...").onOneLine
  }
}

extension [Finding] {
  /// Adds a finding about one more sample. Findings of one code, and of one member of a joined take, are merged into the first, with their count.
  package mutating func note(_ finding: Finding, of member: String? = nil) {
    let finding = finding.ofMember(member)
    func isOfMember(_ other: Finding) -> Bool {
      member.map { other.file?.hasPrefix("\($0)/") ?? other.message.hasPrefix("\($0): ") } ?? true
    }
    if let known = firstIndex(where: { $0.code == finding.code && isOfMember($0) }) {
      self[known].count = (self[known].count ?? 0) + 1
    } else {
      append(finding)
      self[count - 1].count = 1
    }
  }
}

/// The findings of one take, collected from all steps of opening it, in the order in which they were made.
///
///     let notes = FindingCollector()
///     notes.add(.depthMissing, "depth maps without a file of their number", count: 3)
///     episode.findings += notes.findings
package final class FindingCollector {
  package private(set) var findings: [Finding] = []
  package init() {}

  /// Adds a finding, with the severity of its code unless another one is given.
  package func add(
    _ code: FindingCode, _ message: String, severity: Finding.Severity? = nil, file: String? = nil, field: String? = nil,
    count: Int? = nil
  ) {
    findings.append(Finding(code, message, severity: severity, file: file, field: field, count: count))
  }

  /// Adds a finding if there is one.
  package func add(_ finding: Finding?) { findings += [finding].compactMap(\.self) }
  /// Adds the findings of another check, in their order.
  package func add(_ more: [Finding]) { findings += more }
}

/// A take that cannot be converted: unreadable, corrupt, or over a limit. Its outcome is `failed`.
package struct TakeFailure: Error, CustomStringConvertible, Equatable {
  package var code: FindingCode
  package var message: String
  package var file: String?
  package var field: String?

  package init(_ code: FindingCode, _ message: String, file: String? = nil, field: String? = nil) {
    self.code = code
    self.message = Finding.shortened(message)
    self.file = file
    self.field = field
  }

  /// The failure of a member of a joined take, whose files are below its name.
  package func ofMember(_ member: String) -> TakeFailure {
    var own = self
    (own.file, own.message) = Finding.place(file, message, of: member)
    return own
  }

  package var description: String { [place, message].compactMap(\.self).joined(separator: ": ") }
  private var place: String? { file.map { ($0 + (field ?? "")).onOneLine } }

  package var finding: Finding { Finding(code, message, severity: .error, file: file, field: field) }

  /// Whether the machine did not let the files be read; that says nothing of what is in them.
  package var isOfMachine: Bool { FindingCode.ofMachine.contains(code) }

  /// The failure of a take with more than a fifth of its images undecodable; `first` is the finding of the first of them.
  package static func tooManyUndecodable(of count: Int, first: Finding) -> TakeFailure {
    TakeFailure(
      first.code, "more than a fifth of the \(count) images cannot be decoded, the first: \(first.message)", file: first.file)
  }
}

/// A take that a rule of the pipeline rejects. Its outcome is `rejected`.
package struct Rejection: Error, CustomStringConvertible {
  /// The rule, which has the name of the step if a step rejects.
  package var code: FindingCode
  package var message: String
  /// The episode as the transform had it at that point.
  package var episode: Episode?
  /// The variant, as far as the reader had determined it.
  package var variant: String?

  package init(_ code: FindingCode, _ message: String = "", episode: Episode? = nil, variant: String? = nil) {
    (self.code, self.message, self.episode, self.variant) = (code, message, episode, variant)
  }

  /// The text in the take's record: `min-frames: 3 frames; at least 30 are needed`, `needs-slam`. `FindingCode(ofRejection:)` reads it.
  package var reason: String { code.rawValue + (message.isEmpty ? "" : ": " + message) }
  package var description: String { reason }
}

/// A sample that could not be read. Its row is kept and masked, and the take continues.
package struct SampleFailure: Error, Equatable {
  package var finding: Finding
  package init(finding: Finding) { self.finding = finding }
}

extension [String] {
  /// The first three names, and how many more there are: `a, b, c and 4 more`.
  package var abridged: String { prefix(3).joined(separator: ", ") + (count > 3 ? " and \(count - 3) more" : "") }
}
