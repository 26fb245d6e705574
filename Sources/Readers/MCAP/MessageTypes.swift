import Model

/// The definitions of messages that a file carries, by the full names of their types.
struct MessageTypes {
  enum Primitive {
    case bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float32, float64

    var bytes: Int {
      switch self {
      case .bool, .int8, .uint8: 1
      case .int16, .uint16: 2
      case .int32, .uint32, .float32: 4
      case .int64, .uint64, .float64: 8
      }
    }
  }

  /// How a number is written in Protocol Buffers.
  enum Wire { case varint, zigzag, fixed }

  enum Kind {
    case number(Primitive, Wire)
    case text, bytes
    /// A type of this name.
    case record(String)
  }

  struct Field {
    var name: String
    var kind: Kind
    /// Of Protocol Buffers.
    var number = 0
    var isList = false
    /// The length of a list that has always the same.
    var fixedCount: Int?
  }

  private(set) var types: [String: [Field]] = [:]
  /// Longest definition, and most records in records, that are followed.
  static let limit = 4 << 20, depth = 24

  // MARK: ROS 2

  /// Reads message definitions of ROS 2, which name the types they use below lines of `=`.
  init(ros text: String, name: String) throws {
    guard text.utf8.count <= Self.limit else { throw MessageFault("its definition has more than \(Self.limit) bytes") }
    var current = Self.rosName(name)
    var fields: [Field] = []
    for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
      if line.hasPrefix("====") {
        types[current] = fields
        (current, fields) = ("", [])
        continue
      }
      if line.hasPrefix("MSG:") {
        current = Self.rosName(line.dropFirst(4).trimmed)
        continue
      }
      if let field = try Self.rosField(line, of: current) { fields.append(field) }
    }
    types[current] = fields
  }

  /// `geometry_msgs/msg/Point` as `geometry_msgs/Point`.
  static func rosName(_ name: some StringProtocol) -> String {
    let parts = name.split(separator: "/")
    return parts.count == 3 && parts[1] == "msg" ? "\(parts[0])/\(parts[2])" : String(name)
  }

  private static func rosField(_ line: Substring, of type: String) throws -> Field? {
    let plain = line.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).first ?? ""
    let words = plain.split(whereSeparator: \.isWhitespace)
    // A constant has a value after "=", which belongs to no message.
    guard words.count >= 2, !words[1].contains("="), !(words.count > 2 && words[2].hasPrefix("=")) else { return nil }
    var word = words[0]
    var field = Field(name: String(words[1]), kind: .text)
    if word.hasSuffix("]"), let open = word.lastIndex(of: "[") {
      let count = word[word.index(after: open)...].dropLast()
      field.isList = true
      if !count.isEmpty, !count.hasPrefix("<=") {
        guard let fixed = Int(count), (0...1_000_000).contains(fixed) else { throw MessageFault("its definition has the type \(word)") }
        field.fixedCount = fixed
      }
      word = word[..<open]
    }
    if let bound = word.firstIndex(of: "<") { word = word[..<bound] }
    switch word {
    case "string": field.kind = .text
    default:
      if let primitive = rosPrimitives[String(word)] {
        field.kind = .number(primitive, .fixed)
      } else if word.contains("/") {
        field.kind = .record(rosName(word))
      } else if word == "Header" {
        field.kind = .record("std_msgs/Header")
      } else {
        field.kind = .record("\(type.split(separator: "/").first ?? "")/\(word)")
      }
    }
    return field
  }

  private static let rosPrimitives: [String: Primitive] = [
    "bool": .bool, "byte": .uint8, "char": .uint8, "int8": .int8, "uint8": .uint8, "int16": .int16, "uint16": .uint16, "int32": .int32,
    "uint32": .uint32, "int64": .int64, "uint64": .uint64, "float32": .float32, "float64": .float64,
  ]

  // MARK: Protocol Buffers

  /// Reads a `FileDescriptorSet`.
  init(descriptors bytes: [UInt8]) throws {
    guard bytes.count <= Self.limit else { throw MessageFault("its definition has more than \(Self.limit) bytes") }
    try bytes.withUnsafeBytes { set in
      try ProtobufFields.forEach(in: set) { number, value in
        guard number == 1, case .bytes(let file) = value else { return }
        var package = ""
        var messages: [UnsafeRawBufferPointer] = []
        try ProtobufFields.forEach(in: file) { number, value in
          guard case .bytes(let bytes) = value else { return }
          if number == 2 { package = String(decoding: bytes, as: UTF8.self) }
          if number == 4 { messages.append(bytes) }
        }
        for message in messages { try add(message, in: package, depth: 0) }
      }
    }
  }

  private mutating func add(_ message: UnsafeRawBufferPointer, in scope: String, depth: Int) throws {
    guard depth < Self.depth else { throw MessageFault("its definition has types in types, more than \(Self.depth) deep") }
    var name = ""
    var (fields, nested): ([Field], [UnsafeRawBufferPointer]) = ([], [])
    try ProtobufFields.forEach(in: message) { number, value in
      guard case .bytes(let bytes) = value else { return }
      switch number {
      case 1: name = String(decoding: bytes, as: UTF8.self)
      case 2: if let field = try Self.protobufField(bytes) { fields.append(field) }
      case 3: nested.append(bytes)
      default: break
      }
    }
    let full = scope.isEmpty ? name : "\(scope).\(name)"
    types[full] = fields
    for type in nested { try add(type, in: full, depth: depth + 1) }
  }

  /// `nil` for a group, which nothing writes any more.
  private static func protobufField(_ bytes: UnsafeRawBufferPointer) throws -> Field? {
    var field = Field(name: "", kind: .text)
    var (type, record) = (UInt64(0), "")
    try ProtobufFields.forEach(in: bytes) { number, value in
      switch (number, value) {
      case (1, .bytes(let bytes)): field.name = String(decoding: bytes, as: UTF8.self)
      case (3, .number(let number)): field.number = Int(clamping: number)
      case (4, .number(let label)): field.isList = label == 3
      case (5, .number(let number)): type = number
      case (6, .bytes(let bytes)): record = String(decoding: bytes, as: UTF8.self)
      default: break
      }
    }
    // FieldDescriptorProto.Type
    switch type {
    case 1: field.kind = .number(.float64, .fixed)
    case 2: field.kind = .number(.float32, .fixed)
    case 3: field.kind = .number(.int64, .varint)
    case 4: field.kind = .number(.uint64, .varint)
    case 5, 14: field.kind = .number(.int32, .varint)
    case 6: field.kind = .number(.uint64, .fixed)
    case 7: field.kind = .number(.uint32, .fixed)
    case 8: field.kind = .number(.bool, .varint)
    case 9: field.kind = .text
    case 11: field.kind = .record(record.hasPrefix(".") ? String(record.dropFirst()) : record)
    case 12: field.kind = .bytes
    case 13: field.kind = .number(.uint32, .varint)
    case 15: field.kind = .number(.int32, .fixed)
    case 16: field.kind = .number(.int64, .fixed)
    case 17: field.kind = .number(.int32, .zigzag)
    case 18: field.kind = .number(.int64, .zigzag)
    default: return nil
    }
    return field
  }
}

extension StringProtocol {
  fileprivate var trimmed: SubSequence {
    var text = self[...]
    while text.first?.isWhitespace == true { text.removeFirst() }
    while text.last?.isWhitespace == true { text.removeLast() }
    return text
  }
}
