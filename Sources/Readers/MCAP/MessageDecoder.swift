import Evidence
import Model

/// A field of a decoded message.
enum MessageValue {
  case number(Double)
  case text(String)
  case numbers([Double])
  case texts([String])
  /// Bytes of the message.
  case bytes(Range<Int>)
  /// Bytes that the message has in another form.
  case data([UInt8])
  /// The records of a list, each with the fields that were asked for.
  case records([[MessageValue?]])
}

/// The fields that are wanted of a message, each by one or more paths, of which the first that its definition has is taken: `header.stamp.sec`.
struct WantedFields {
  struct Field {
    var paths: [String]
    /// The fields that are wanted of each record, where the field is a list of these.
    var records: WantedFields?
  }

  var fields: [Field]

  init(_ fields: [Field]) { self.fields = fields }
}

/// Decodes the messages of one channel by the definition that the file carries.
protocol MessageDecoder {
  /// Whether the definition has each of the wanted fields.
  var has: [Bool] { get }
  /// The wanted fields of a message, in their order. Throws `MessageFault`.
  func decode(_ message: UnsafeRawBufferPointer) throws -> [MessageValue?]
}

/// A definition that is understood once for all channels that have it.
final class DefinedSchema {
  let schema: MCAPRecord.Schema
  private(set) lazy var types: Result<MessageTypes, any Error> = Result {
    schema.encoding == "protobuf"
      ? try MessageTypes(descriptors: schema.data)
      : try MessageTypes(ros: String(decoding: schema.data, as: UTF8.self), name: schema.name)
  }

  init(_ schema: MCAPRecord.Schema) { self.schema = schema }
}

enum MessageDecoders {
  /// A decoder for messages of a channel. Throws `MessageFault` where their encoding or definition is not understood.
  static func make(_ channel: MCAPRecord.Channel, _ schema: DefinedSchema?, _ wanted: WantedFields) throws -> any MessageDecoder {
    switch (channel.encoding, schema?.schema.encoding) {
    case ("json", _): return JSONMessageDecoder(wanted)
    case ("protobuf", "protobuf"):
      if let schema { return try ProtobufDecoder(schema.types.get(), schema.schema.name, wanted) }
    case ("cdr", "ros2msg"):
      if let schema { return try CDRDecoder(schema.types.get(), schema.schema.name, wanted) }
    default: break
    }
    throw MessageFault(
      "messages are encoded as \(channel.encoding.onOneLine.prefix(40)) by definitions as \((schema?.schema.encoding ?? "none").onOneLine.prefix(40)); protobuf, json, and cdr by ros2msg are read"
    )
  }
}

/// Messages in JSON. Their fields are looked up by name, whatever the schema says.
struct JSONMessageDecoder: MessageDecoder {
  private let wanted: WantedFields
  let has: [Bool]

  init(_ wanted: WantedFields) {
    self.wanted = wanted
    has = wanted.fields.map { _ in true }
  }

  func decode(_ message: UnsafeRawBufferPointer) throws -> [MessageValue?] {
    do {
      let value = try JSONReader(Array(message)).document()
      return Self.values(value, wanted)
    } catch let error as JSONError {
      throw MessageFault(error.message)
    }
  }

  private static func values(_ value: JSONValue, _ wanted: WantedFields) -> [MessageValue?] {
    wanted.fields.map { field in
      let found = field.paths.lazy.compactMap { path -> JSONValue? in
        path.split(separator: ".").reduce(JSONValue?.some(value)) { $0?[String($1)] }
      }.first
      guard let found else { return nil }
      if let records = field.records { return found.array.map { .records($0.map { values($0, records) }) } }
      if let number = found.double { return .number(number) }
      if let text = found.string { return .text(text) }
      guard let list = found.array else { return nil }
      let texts = list.compactMap(\.string)
      if texts.count == list.count, !list.isEmpty { return .texts(texts) }
      let numbers = list.compactMap { $0 == .null ? .nan : $0.double }
      return numbers.count == list.count ? .numbers(numbers) : nil
    }
  }
}
