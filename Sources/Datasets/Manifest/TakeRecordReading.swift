import Evidence
import Model
import Steps

/// A take's record read straight from JSON: `JSONDecoder` takes ten times as long, which counts where a dataset has 100,000 takes.
extension TakeRecord {
  /// Reads a record that `canonicalBytes` made, or one of a manifest. Throws `JSONError` or `IncompleteRecord`.
  package init(json bytes: [UInt8]) throws {
    let reader = JSONReader(bytes)
    try self.init(reader)
    try reader.expectEnd()
  }

  /// Reads the record that is next.
  private init(_ json: JSONReader) throws {
    var outcome: Outcome?
    var findings: [Finding]?
    var lists: (inputs: [Input]?, streams: [StreamRecord]?, alignment: [Alignment]?, steps: [Step]?)
    var texts: [String: String] = [:]
    var (digest, number): (Digest?, Int?)
    var (details, verification): ([String: JSONValue]?, JSONValue?)
    var output: OutputRecord?
    var additions: [Addition] = []
    var measures: Measures?
    try json.members { key in
      switch key {
      case "id": texts[key] = try json.plainName()
      case "outcome": outcome = try json.word(Outcome.self)
      case "take": texts[key] = try json.optional { try json.plainName() }
      case "reader", "variant", "reason": texts[key] = try json.optional { try json.line() }
      case "part": number = try json.optional { try json.count() }
      case "input_sha256": digest = try json.optional { try json.digest() }
      case "findings": findings = try json.list { try Finding(json) }
      case "inputs": lists.inputs = try json.list { try Input(json) }
      case "streams": lists.streams = try json.list { try StreamRecord(json) }
      case "alignment": lists.alignment = try json.list { try Alignment(json) }
      case "steps": lists.steps = try json.list { try Step(json) }
      case "details": details = try json.optional { try json.object { _ in nil } }
      case "verification": verification = try json.optional { try json.value() }
      case "output": output = try json.optional { try OutputRecord(json) }
      case "additions": additions = try json.list { try Addition(json) }
      case "measures": measures = try json.optional { try Measures(json) }
      default: return false
      }
      return true
    }
    self.init(
      id: try EpisodeID(texts["id"].required("id"), take: texts["take"], part: number), reader: texts["reader"],
      outcome: try outcome.required("outcome"), reason: texts["reason"],
      findings: try findings.required("findings"))
    (variant, inputDigest) = (texts["variant"], digest)
    (inputs, streams) = (try lists.inputs.required("inputs"), try lists.streams.required("streams"))
    (alignment, steps) = (try lists.alignment.required("alignment"), try lists.steps.required("steps"))
    (self.details, self.verification, self.output, self.additions, self.measures) = (details, verification, output, additions, measures)
  }
}

/// A record goes to a process of its own, and back, in the form of the manifest, so that it is read with the same care.
extension TakeRecord: Codable {
  package init(from decoder: any Decoder) throws {
    self = try TakeRecord(json: Array(decoder.singleValueContainer().decode(String.self).utf8))
  }

  /// Encodes the record as the text of its canonical JSON.
  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(String(decoding: canonicalBytes, as: UTF8.self))
  }
}

extension EpisodeID {
  /// The members of a record that are an id: `take` and `part` only where the take was split. Throws for members that contradict each other.
  init(_ id: String, take: String?, part: Int?) throws {
    self.init(take: take ?? id, part: part)
    guard text == id, (take == nil) == (part == nil) else {
      throw UnexpectedValue(expected: "the id of episode \(part.map { "\($0)" } ?? "") of the take \(take ?? id), found \(id)")
    }
  }

  func addMembers(to members: inout [String: JSONValue]) {
    members["id"] = .string(text)
    if let part { (members["take"], members["part"]) = (.string(take), JSONValue(part)) }
  }
}

/// A member that a record must have and lacks.
struct IncompleteRecord: Error, CustomStringConvertible {
  var member: String
  var description: String { "\(member) is missing" }
}

extension Optional {
  fileprivate func required(_ member: String) throws -> Wrapped {
    guard let self else { throw IncompleteRecord(member: member) }
    return self
  }
}

extension TakeRecord.Input {
  fileprivate init(_ reader: JSONReader) throws {
    var (path, bytes, digest): (String?, Int?, Digest?)
    var role: TakeInputs.Role?
    try reader.members { key in
      switch key {
      case "path": path = try reader.string()
      case "bytes": bytes = try reader.count()
      case "sha256": digest = try reader.digest()
      case "role": role = try reader.word(TakeInputs.Role.self)
      default: return false
      }
      return true
    }
    self.init(
      path: try path.required("path"), bytes: Int64(try bytes.required("bytes")), digest: try digest.required("sha256"),
      role: try role.required("role"))
  }
}

extension TakeRecord.Addition {
  fileprivate init(_ reader: JSONReader) throws {
    var (texts, digest): ([String: String], Digest?) = ([:], nil)
    try reader.members { key in
      switch key {
      case "stream", "file", "unit": texts[key] = try reader.line()
      case "sha256": digest = try reader.digest()
      default: return false
      }
      return true
    }
    self.init(
      stream: StreamName(try texts["stream"].required("stream")), file: try texts["file"].required("file"),
      digest: try digest.required("sha256"), unit: try texts["unit"].required("unit"))
  }
}

extension TakeRecord.StreamRecord {
  fileprivate init(_ reader: JSONReader) throws {
    var (name, samples, rate): (String?, Int?, Double?)
    var clock: Clock?
    try reader.members { key in
      switch key {
      case "name": name = try reader.line()
      case "samples": samples = try reader.count()
      case "rate_hz": rate = try reader.optional { try reader.decimal() }
      case "clock": clock = try reader.word(Clock.self)
      default: return false
      }
      return true
    }
    self.init(
      name: StreamName(try name.required("name")), samples: try samples.required("samples"), rateHz: rate,
      clock: try clock.required("clock"))
  }
}

extension TakeRecord.Alignment {
  fileprivate init(_ reader: JSONReader) throws {
    var texts: [String: String] = [:]
    var residual: Int?
    try reader.members { key in
      switch key {
      case "stream", "method", "member": texts[key] = try reader.line()
      case "offset_ns", "latency_ns": texts[key] = try reader.optional { try reader.line() }
      case "residual_ns": residual = try reader.optional { try reader.whole() }
      default: return false
      }
      return true
    }
    self.init(
      stream: StreamName(try texts["stream"].required("stream")), method: try texts["method"].required("method"),
      offset: texts["offset_ns"], residual: residual.map { Int64($0) }, latency: texts["latency_ns"],
      member: texts["member"])
  }
}

extension TakeRecord.Step {
  fileprivate init(_ reader: JSONReader) throws {
    var name: String?
    var options: JSONValue?
    var counts: [String: Int] = [:]
    var dropped: [Dropped]?
    try reader.members { key in
      switch key {
      case "name": name = try reader.line()
      case "options": options = try reader.value()
      case "frames_in", "frames_out": counts[key] = try reader.count()
      case "repeated", "skipped_ticks": counts[key] = try reader.optional { try reader.count() }
      case "dropped": dropped = try reader.list { try Dropped(reader) }
      default: return false
      }
      return true
    }
    self.init(
      name: try name.required("name"), options: try options.required("options"), framesIn: try counts["frames_in"].required("frames_in"),
      framesOut: try counts["frames_out"].required("frames_out"), dropped: try dropped.required("dropped"), repeated: counts["repeated"],
      skippedTicks: counts["skipped_ticks"])
  }
}

extension TakeRecord.Step.Dropped {
  fileprivate init(_ reader: JSONReader) throws {
    var (reason, count): (String?, Int?)
    try reader.members { key in
      switch key {
      case "reason": reason = try reader.line()
      case "count": count = try reader.count()
      default: return false
      }
      return true
    }
    self.init(reason: try reason.required("reason"), count: try count.required("count"))
  }
}

extension OutputRecord {
  /// Reads the canonical form of `json`. Throws as a record does.
  package init(json bytes: [UInt8]) throws { try self.init(JSONReader(bytes)) }

  fileprivate init(_ reader: JSONReader) throws {
    var (path, bytes, samples): (String?, Int?, Int?)
    var arrays: [ArrayRecord]?
    var digests: [String: Digest] = [:]
    try reader.members { key in
      switch key {
      case "path": path = try reader.insidePath()
      case "bytes": bytes = try reader.count()
      case "samples": samples = try reader.count()
      case "datasets": arrays = try reader.list { try ArrayRecord(reader) }
      case "content_sha256", "structure_sha256", "attributes_sha256": digests[key] = try reader.digest()
      default: return false
      }
      return true
    }
    self.init(
      path: try path.required("path"), bytes: Int64(try bytes.required("bytes")), samples: try samples.required("samples"),
      arrays: try arrays.required("datasets"), structureDigest: try digests["structure_sha256"].required("structure_sha256"),
      attributesDigest: try digests["attributes_sha256"].required("attributes_sha256"),
      contentDigest: try digests["content_sha256"].required("content_sha256"))
  }
}

extension ArrayRecord {
  fileprivate init(_ reader: JSONReader) throws {
    var (path, dtype, digest): (String?, String?, Digest?)
    var (shape, chunk, filters): ([Int]?, [Int]?, [String]?)
    var scope: DigestScope?
    try reader.members { key in
      switch key {
      case "path": path = try reader.line()
      case "dtype": dtype = try reader.line()
      case "shape": shape = try reader.list { try reader.count() }
      case "chunk": chunk = try reader.optional { try reader.list { try reader.count() } }
      case "filters": filters = try reader.list { try reader.line() }
      case "sha256": digest = try reader.optional { try reader.digest() }
      case "sha256_of": scope = try reader.optional { try reader.word(DigestScope.self) }
      default: return false
      }
      return true
    }
    self.init(
      path: try path.required("path"), dtype: try dtype.required("dtype"), shape: try shape.required("shape"), chunk: chunk,
      filters: try filters.required("filters"))
    (self.digest, digestOf) = (digest, scope)
    guard hasPlausibleSize else { throw UnexpectedValue(expected: "an array of at most 1 TiB, found \(self.shape)") }
  }
}

extension Finding {
  init(_ reader: JSONReader) throws {
    var code: FindingCode?
    var severity: Severity?
    var texts: [String: String] = [:]
    var count: Int?
    try reader.members { key in
      switch key {
      case "code":
        // Builds of 0.3.0 before its release spelled three codes the British way.
        let text = try reader.string()
        let word = text.hasPrefix("colour-") ? "color-" + text.dropFirst("colour-".count) : text
        guard let known = FindingCode(rawValue: word) else { throw UnexpectedValue(expected: "the code of a finding, found \(text)") }
        code = known
      case "severity": severity = try reader.word(Severity.self)
      case "message": texts[key] = try reader.line()
      case "file", "field": texts[key] = try reader.optional { try reader.string() }
      case "count": count = try reader.optional { try reader.count() }
      default: return false
      }
      return true
    }
    self.init(
      try code.required("code"), "", severity: try severity.required("severity"), file: texts["file"], field: texts["field"], count: count)
    // As it is recorded: the initializer shortens what readers say.
    message = try texts["message"].required("message")
  }
}

extension JSONReader {
  /// Reads the members of an object; `read` returns false for a key whose value it has not read, which is skipped. A key that is there
  /// twice is refused.
  func members(_ read: (_ key: String) throws -> Bool) throws {
    try beginObject()
    var keys: [String] = []
    var isFirst = true
    while let key = try nextKey(isFirst: &isFirst) {
      // Keys are sorted in what Takeset writes.
      if let last = keys.last, last >= key, keys.contains(key) { throw RepeatedKey(key: key) }
      keys.append(key)
      if try !read(key) { try skip() }
    }
  }

  func list<Element>(_ element: () throws -> Element) throws -> [Element] {
    var elements: [Element] = []
    var isFirst = true
    try beginArray()
    while try nextElement(isFirst: &isFirst) { elements.append(try element()) }
    return elements
  }

  func optional<Value>(_ read: () throws -> Value) throws -> Value? { try skipNull() ? nil : read() }

  /// A count that a take can have.
  func count() throws -> Int {
    let count = try whole()
    guard TakeRecord.isPlausibleCount(count) else { throw UnexpectedValue(expected: "a count that a take can have, found \(count)") }
    return count
  }

  /// A text that Takeset has written as one line, and somebody may have changed.
  func line() throws -> String { try string().onOneLine }

  /// Reads the name of a take or an episode, which is never a path that leads elsewhere.
  func plainName() throws -> String {
    guard let name = PlainName(try string()) else { throw UnexpectedValue(expected: "the name of a take that a file can have") }
    return name.text
  }

  /// The path of a dataset's file, relative to the dataset and inside of it.
  func insidePath() throws -> String {
    let path = try string()
    guard DatasetFiles.isInside(path) else { throw UnexpectedValue(expected: "a path inside the dataset, found \(path)") }
    return path
  }

  func whole() throws -> Int {
    guard let number = try value().integer else { throw UnexpectedValue(expected: "a whole number") }
    return Int(number)
  }

  /// A number; not one of the words for infinity that are no JSON.
  func decimal() throws -> Double {
    let number = try number()
    guard number.isFinite else { throw UnexpectedValue(expected: "a number") }
    return number
  }

  func digest() throws -> Digest {
    guard let digest = Digest(hex: try string()) else { throw UnexpectedValue(expected: "64 hexadecimal digits") }
    return digest
  }

  func word<Word: RawRepresentable<String>>(_: Word.Type) throws -> Word {
    let text = try string()
    guard let word = Word(rawValue: text) else { throw UnexpectedValue(expected: "one of the words of \(Word.self), found \(text)") }
    return word
  }
}

private struct RepeatedKey: Error, CustomStringConvertible {
  var key: String
  var description: String { "the key \"\(key)\" is twice in one object" }
}

struct UnexpectedValue: Error, CustomStringConvertible {
  var expected: String
  var description: String { "expected \(expected)".onOneLine }
}
