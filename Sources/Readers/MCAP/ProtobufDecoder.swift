/// The fields of a message as Protocol Buffers write them.
///
/// Source: "Encoding" of Protocol Buffers' documentation.
enum ProtobufFields {
  enum Value {
    case number(UInt64)
    case fixed32(UInt32)
    case fixed64(UInt64)
    case bytes(UnsafeRawBufferPointer)
  }

  /// Passes each field's number and value to `body`. Throws `MessageFault`.
  static func forEach(in message: UnsafeRawBufferPointer, _ body: (Int, Value) throws -> Void) throws {
    var reader = ByteReader(message)
    while !reader.isAtEnd {
      let tag = try reader.varint()
      guard let number = Int(exactly: tag >> 3), number > 0 else { throw MessageFault("a field has the number \(tag >> 3)") }
      switch tag & 7 {
      case 0: try body(number, .number(reader.varint()))
      case 1: try body(number, .fixed64(reader.integer()))
      case 2:
        let count = try reader.varint()
        guard let count = Int(exactly: count) else { throw MessageFault("the length of field \(number) is \(count)") }
        let range = try reader.skip(count)
        try body(number, .bytes(UnsafeRawBufferPointer(rebasing: message[range])))
      case 5: try body(number, .fixed32(reader.integer()))
      default: throw MessageFault("field \(number) has the wire type \(tag & 7)")
      }
    }
  }
}

extension ByteReader {
  mutating func varint() throws -> UInt64 {
    var number: UInt64 = 0
    for shift in stride(from: 0, to: 64, by: 7) {
      let byte: UInt8 = try integer()
      number |= UInt64(byte & 127) << UInt64(shift)
      if byte < 128 { return number }
    }
    throw MessageFault("a number has more than 10 bytes")
  }
}

/// Decodes messages of Protocol Buffers by their descriptors. A field that is absent has its default.
struct ProtobufDecoder: MessageDecoder {
  private let plan: Plan
  let has: [Bool]

  /// The wanted part of a type.
  private final class Plan {
    enum Action {
      case store(Int, MessageTypes.Field)
      case enter(Plan)
      case records(Int, Plan)
    }
    var actions: [Int: Action] = [:]
    /// Values of the fields that a message lacks.
    var defaults: [MessageValue?]

    init(_ count: Int) { defaults = Array(repeating: nil, count: count) }
  }

  init(_ types: MessageTypes, _ name: String, _ wanted: WantedFields) throws {
    guard types.types[name] != nil else { throw MessageFault("its definition lacks \(name.prefix(80))") }
    plan = try Self.plan(types, name, wanted)
    has = plan.defaults.map { $0 != nil }
  }

  private static func plan(_ types: MessageTypes, _ name: String, _ wanted: WantedFields) throws -> Plan {
    let plan = Plan(wanted.fields.count)
    for (slot, field) in wanted.fields.enumerated() {
      for path in field.paths where plan.defaults[slot] == nil {
        plan.defaults[slot] = try add(path.split(separator: ".")[...], slot, field, types, name, to: plan)
      }
    }
    return plan
  }

  /// Adds the way to a field; returns its default, or `nil` where the type has no such field.
  private static func add(
    _ path: ArraySlice<Substring>, _ slot: Int, _ wanted: WantedFields.Field, _ types: MessageTypes, _ name: String, to plan: Plan
  ) throws -> MessageValue? {
    guard let first = path.first, let field = types.types[name]?.first(where: { $0.name == first }) else { return nil }
    let rest = path.dropFirst()
    if case .record(let type) = field.kind {
      if rest.isEmpty, field.isList, let records = wanted.records {
        plan.actions[field.number] = .records(slot, try self.plan(types, type, records))
        return .records([])
      }
      guard !rest.isEmpty, !field.isList else { return nil }
      let inner: Plan
      if case .enter(let known)? = plan.actions[field.number] { inner = known } else { inner = Plan(0) }
      guard let value = try add(rest, slot, wanted, types, type, to: inner) else { return nil }
      plan.actions[field.number] = .enter(inner)
      return value
    }
    guard rest.isEmpty, wanted.records == nil else { return nil }
    plan.actions[field.number] = .store(slot, field)
    switch field.kind {
    case .number: return field.isList ? .numbers([]) : .number(0)
    case .text: return field.isList ? .texts([]) : .text("")
    case .bytes: return field.isList ? nil : .bytes(0..<0)
    case .record: return nil
    }
  }

  func decode(_ message: UnsafeRawBufferPointer) throws -> [MessageValue?] {
    var values = plan.defaults
    try Self.decode(message, plan, &values, in: message)
    return values
  }

  private static func decode(
    _ part: UnsafeRawBufferPointer, _ plan: Plan, _ values: inout [MessageValue?], in message: UnsafeRawBufferPointer
  ) throws {
    try ProtobufFields.forEach(in: part) { number, value in
      switch (plan.actions[number], value) {
      case (nil, _): break
      case (.enter(let inner), .bytes(let bytes)): try decode(bytes, inner, &values, in: message)
      case (.records(let slot, let inner), .bytes(let bytes)):
        var record = inner.defaults
        try decode(bytes, inner, &record, in: message)
        guard case .records(var list)? = values[slot] else { return }
        values[slot] = nil
        list.append(record)
        values[slot] = .records(list)
      case (.store(let slot, let field), _): try store(value, field, &values[slot], in: message)
      default: throw MessageFault("field \(number) is of another type than its definition says")
      }
    }
  }

  private static func store(
    _ value: ProtobufFields.Value, _ field: MessageTypes.Field, _ stored: inout MessageValue?, in message: UnsafeRawBufferPointer
  ) throws {
    switch (field.kind, value, stored) {
    case (.text, .bytes(let bytes), .texts(var list)?):
      // Nothing else refers to the list, so that it is not copied.
      stored = nil
      list.append(String(decoding: bytes, as: UTF8.self))
      stored = .texts(list)
    case (.text, .bytes(let bytes), _): stored = .text(String(decoding: bytes, as: UTF8.self))
    case (.bytes, .bytes(let bytes), _):
      let start = bytes.baseAddress.flatMap { address in message.baseAddress.map { address - $0 } } ?? 0
      stored = .bytes(start..<(start + bytes.count))
    case (.number(let primitive, let wire), _, .numbers(var list)?):
      stored = nil
      if case .bytes(let bytes) = value {
        // Numbers of a list are packed together.
        var reader = ByteReader(bytes)
        while !reader.isAtEnd {
          switch (wire, primitive.bytes) {
          case (.fixed, 4): list.append(try number(.fixed32(reader.integer()), primitive, wire))
          case (.fixed, _): list.append(try number(.fixed64(reader.integer()), primitive, wire))
          default: list.append(try number(.number(reader.varint()), primitive, wire))
          }
        }
      } else {
        list.append(try number(value, primitive, wire))
      }
      stored = .numbers(list)
    case (.number(let primitive, let wire), _, _): stored = .number(try number(value, primitive, wire))
    default: throw MessageFault("field \(field.number) is of another type than its definition says")
    }
  }

  private static func number(_ value: ProtobufFields.Value, _ primitive: MessageTypes.Primitive, _ wire: MessageTypes.Wire) throws -> Double
  {
    switch (value, primitive, wire) {
    case (.fixed64(let bits), .float64, _): return Double(bitPattern: bits)
    case (.fixed32(let bits), .float32, _): return Double(Float(bitPattern: bits))
    case (.fixed64(let bits), .int64, .fixed): return Double(Int64(bitPattern: bits))
    case (.fixed64(let bits), .uint64, .fixed): return Double(bits)
    case (.fixed32(let bits), .int32, .fixed): return Double(Int32(bitPattern: bits))
    case (.fixed32(let bits), .uint32, .fixed): return Double(bits)
    case (.number(let bits), _, .zigzag): return Double(Int64(bitPattern: bits >> 1) ^ -Int64(bitPattern: bits & 1))
    case (.number(let bits), .uint32, .varint), (.number(let bits), .uint64, .varint): return Double(bits)
    case (.number(let bits), .bool, .varint): return bits == 0 ? 0 : 1
    case (.number(let bits), _, .varint): return Double(Int64(bitPattern: bits))
    default: throw MessageFault("a number is of another type than its definition says")
    }
  }
}
