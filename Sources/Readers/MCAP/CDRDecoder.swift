/// Decodes messages of ROS 2, in the Common Data Representation (CDR), by their definitions.
///
/// Source: "DDS-XTypes" 1.3 of the Object Management Group, section 7.4, plain CDR in its first version.
struct CDRDecoder: MessageDecoder {
  /// What is done in turn. Records in records are part of the same list, because CDR writes nothing between them.
  private enum Action {
    case number(MessageTypes.Primitive, slot: Int?)
    case text(slot: Int?)
    /// A list of numbers; a length is written before it unless it is fixed.
    case numbers(MessageTypes.Primitive, fixed: Int?, slot: Int?)
    case texts(fixed: Int?, slot: Int?)
    case records(Plan, fixed: Int?, slot: Int?)
  }

  private struct Plan {
    var actions: [Action] = []
    var slots: Int
    var has: [Bool]
    /// Fewest bytes that a record takes.
    var least = 0

    init(_ wanted: WantedFields?) {
      slots = wanted?.fields.count ?? 0
      has = Array(repeating: false, count: slots)
    }
  }

  private let plan: Plan
  var has: [Bool] { plan.has }
  private static let mostActions = 100_000

  init(_ types: MessageTypes, _ name: String, _ wanted: WantedFields) throws {
    var plan = Plan(wanted)
    var left = Self.mostActions
    try Self.add(types, MessageTypes.rosName(name), "", wanted, depth: 0, to: &plan, &left)
    self.plan = plan
  }

  /// - Parameters:
  ///   - prefix: The path of the record, with a dot at its end.
  ///   - left: The number of actions that the definition may still have.
  private static func add(
    _ types: MessageTypes, _ name: String, _ prefix: String, _ wanted: WantedFields?, depth: Int, to plan: inout Plan, _ left: inout Int
  ) throws {
    guard let fields = types.types[name] else { throw MessageFault("its definition lacks the type \(name.prefix(80))") }
    left -= fields.count + 1
    guard depth < MessageTypes.depth, left > 0 else { throw MessageFault("its definition is too large") }
    // ROS gives a message without fields one byte.
    if fields.isEmpty {
      plan.least += 1
      return plan.actions.append(.number(.uint8, slot: nil))
    }
    for field in fields {
      let path = prefix + field.name
      let slot = slot(of: path, in: wanted, plan)
      if let slot { plan.has[slot] = true }
      // The records of a wanted list have fields of their own.
      switch (field.kind, field.isList) {
      case (.record(let type), false): try add(types, type, path + ".", wanted, depth: depth + 1, to: &plan, &left)
      case (.record(let type), true):
        let records = slot.flatMap { wanted?.fields[$0].records }
        var inner = Plan(records)
        try add(types, type, "", records, depth: depth + 1, to: &inner, &left)
        if records == nil, let slot { plan.has[slot] = false }
        plan.least += field.fixedCount.map { $0 * max(inner.least, 1) } ?? 4
        plan.actions.append(.records(inner, fixed: field.fixedCount, slot: records == nil ? nil : slot))
      case (.number(let primitive, _), false):
        plan.least += primitive.bytes
        plan.actions.append(.number(primitive, slot: slot))
      case (.number(let primitive, _), true):
        plan.least += field.fixedCount.map { $0 * primitive.bytes } ?? 4
        plan.actions.append(.numbers(primitive, fixed: field.fixedCount, slot: slot))
      case (_, false):
        plan.least += 4
        plan.actions.append(.text(slot: slot))
      case (_, true):
        plan.least += 4
        plan.actions.append(.texts(fixed: field.fixedCount, slot: slot))
      }
      // A definition may multiply, but no message is so long.
      guard plan.least < 1 << 31 else { throw MessageFault("its definition is too large") }
    }
  }

  /// The wanted field at a path, unless an earlier one of its paths is there already.
  private static func slot(of path: String, in wanted: WantedFields?, _ plan: Plan) -> Int? {
    wanted?.fields.indices.first { !plan.has[$0] && (wanted?.fields[$0].paths.contains(path) ?? false) }
  }

  func decode(_ message: UnsafeRawBufferPointer) throws -> [MessageValue?] {
    guard message.count >= 4 else { throw MessageFault("it has \(message.count) bytes") }
    // The second byte says how it is written: plain CDR, the greatest byte of a number first or last.
    guard message[1] <= 1 else { throw MessageFault("its representation is \(message[1]), and plain CDR is 0 or 1") }
    var reader = ByteReader(message, at: 4, isBigEndian: message[1] == 0)
    return try Self.decode(plan, &reader)
  }

  private static func decode(_ plan: Plan, _ reader: inout ByteReader) throws -> [MessageValue?] {
    var values = [MessageValue?](repeating: nil, count: plan.slots)
    for action in plan.actions {
      switch action {
      case .number(let primitive, let slot):
        try reader.align(to: primitive.bytes, after: 4)
        if let slot { values[slot] = .number(try reader.number(primitive)) } else { _ = try reader.skip(primitive.bytes) }
      case .text(let slot):
        let text = try reader.cdrText()
        if let slot { values[slot] = .text(String(decoding: reader.bytes[text], as: UTF8.self)) }
      case .numbers(let primitive, let fixed, let slot):
        let count = try reader.cdrCount(fixed, each: primitive.bytes)
        if count > 0 { try reader.align(to: primitive.bytes, after: 4) }
        if let slot, primitive != .uint8 {
          guard count <= reader.left / primitive.bytes else { throw MessageFault("a list ends too early") }
          var numbers: [Double] = []
          numbers.reserveCapacity(count)
          for _ in 0..<count { numbers.append(try reader.number(primitive)) }
          values[slot] = .numbers(numbers)
        } else {
          let range = try reader.skip(count * primitive.bytes)
          if let slot { values[slot] = .bytes(range) }
        }
      case .texts(let fixed, let slot):
        let count = try reader.cdrCount(fixed, each: 4)
        var texts: [String] = []
        for _ in 0..<count {
          let text = try reader.cdrText()
          if slot != nil { texts.append(String(decoding: reader.bytes[text], as: UTF8.self)) }
        }
        if let slot { values[slot] = .texts(texts) }
      case .records(let inner, let fixed, let slot):
        let count = try reader.cdrCount(fixed, each: max(inner.least, 1))
        var records: [[MessageValue?]] = []
        for _ in 0..<count {
          let record = try decode(inner, &reader)
          if slot != nil { records.append(record) }
        }
        if let slot { values[slot] = .records(records) }
      }
    }
    return values
  }
}

extension ByteReader {
  fileprivate mutating func number(_ primitive: MessageTypes.Primitive) throws -> Double {
    switch primitive {
    case .bool, .uint8: Double(try integer(UInt8.self))
    case .int8: Double(try integer(Int8.self))
    case .int16: Double(try integer(Int16.self))
    case .uint16: Double(try integer(UInt16.self))
    case .int32: Double(try integer(Int32.self))
    case .uint32: Double(try integer(UInt32.self))
    case .int64: Double(try integer(Int64.self))
    case .uint64: Double(try integer(UInt64.self))
    case .float32: Double(try float())
    case .float64: try double()
    }
  }

  /// The length of a list, which the rest of the message can hold.
  fileprivate mutating func cdrCount(_ fixed: Int?, each bytes: Int) throws -> Int {
    let count: Int
    if let fixed {
      count = fixed
    } else {
      try align(to: 4, after: 4)
      count = Int(try integer(UInt32.self))
    }
    guard count <= left / bytes else { throw MessageFault("a list of \(count) does not fit into the \(left) bytes that follow") }
    return count
  }

  /// The place of a text without the 0 at its end.
  fileprivate mutating func cdrText() throws -> Range<Int> {
    try align(to: 4, after: 4)
    let count = Int(try integer(UInt32.self))
    let range = try skip(count)
    return range.isEmpty ? range : range.dropLast()
  }
}
