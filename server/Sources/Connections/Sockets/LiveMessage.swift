import Evidence
import Foundation
package import NIOCore

/// A message of a camera or a viewer.
package enum LiveMessage {
  case text(LiveText)
  case frame(ByteBuffer)
  /// Neither; it is lost, as it always was.
  case other

  /// Smaller binary messages are no frames.
  static let smallestFrame = 1001
  /// Bytes of a text; an offer has some 10,000. A longer one is lost.
  private static let textLimit = 256 << 10

  /// A message that parses as a JSON object is text, however it was sent; any other that is binary and large enough is a frame.
  package init(_ bytes: ByteBuffer, isBinary: Bool) {
    if let text = Self.json(bytes) {
      self = .text(text)
    } else if isBinary, bytes.readableBytes >= Self.smallestFrame {
      self = .frame(bytes)
    } else {
      self = .other
    }
  }

  private static let encoder: JSONEncoder = {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return encoder
  }()

  private static func json(_ bytes: ByteBuffer) -> LiveText? {
    let view = bytes.readableBytesView
    let isSpace: (UInt8) -> Bool = { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
    // No image gets past this, so a frame costs no parse.
    guard view.count <= textLimit, view.first(where: { !isSpace($0) }) == UInt8(ascii: "{"),
      view.last(where: { !isSpace($0) }) == UInt8(ascii: "}"),
      let value = try? JSONDecoder().decode(JSONValue.self, from: Data(view)), let members = value.object,
      let parsed = try? encoder.encode(value)
    else { return nil }
    var isOn: Bool?
    if case .bool(let truth)? = members["on"] { isOn = truth }
    return LiveText(
      bytes: ByteBuffer(bytes: parsed), type: members["type"]?.string, command: members["command"].map { $0.string ?? "" },
      status: members["status"]?.string, isOn: isOn)
  }
}

/// The part of a text message that matters.
package struct LiveText {
  /// The message as it was understood: of a member that it has twice, another parser would take the other.
  package var bytes: ByteBuffer
  var type: String?
  /// Empty for a command that is no text.
  var command: String?
  /// A word, such as `recording`.
  var status: String?
  var isOn: Bool?

  /// The news of a camera to its viewers.
  package enum News: Equatable {
    case status(String)
    /// A message by which two ends find a direct way.
    case signal
  }

  private static let statusLimit = 256

  /// The message as a camera's; `nil` for one that viewers need not know.
  package var news: News? {
    guard command == nil else { return nil }
    switch type {
    case "status": return status.flatMap { $0.utf8.count <= Self.statusLimit ? .status($0) : nil }
    case "offer", "ice": return .signal
    default: return nil
    }
  }

  /// The wish of a viewer.
  package enum Wish: Equatable {
    case signal
    /// A command to the cameras: `start`, `stop` or `reconnect`.
    case command(String)
    /// The wish to keep what it sees, or no longer.
    case record(Bool)
  }

  /// The message as a viewer's; `nil` for one that is not understood.
  package var wish: Wish? {
    switch (command, type) {
    case (nil, "answer"?), (nil, "ice"?): .signal
    case ("start"?, _), ("stop"?, _): command.map(Wish.command)
    case (nil, "reconnect_request"): .command("reconnect")
    case (nil, "record"): isOn.map(Wish.record)
    default: nil
    }
  }
}

/// A frame of a live stream: a JPEG, after its time or alone.
package struct LiveFrame: Sendable {
  package let jpeg: ByteBuffer
  /// Time at which the sender handled it, in microseconds since 1970 by its clock; `nil` where it gives none.
  package let time: Int64?

  /// Seconds from 1970 to 2001, and the number of seconds below which a time counts from 2001: the iOS app writes those.
  static let secondsTo2001 = 978_307_200.0
  static let smallestUnixTime = 1.2e9

  /// `nil` where it is no JPEG.
  package init?(_ bytes: ByteBuffer) {
    func isJPEG(at offset: Int) -> Bool {
      bytes.getBytes(at: bytes.readerIndex + offset, length: 3) == [0xFF, 0xD8, 0xFF]
    }
    if isJPEG(at: 8) {
      var rest = bytes
      guard let bits = rest.readInteger(endianness: .little, as: UInt64.self) else { return nil }
      (jpeg, time) = (rest, Self.microseconds(Double(bitPattern: bits)))
    } else if isJPEG(at: 0) {
      (jpeg, time) = (bytes, nil)
    } else {
      return nil
    }
  }

  /// A time in either epoch; `nil` outside the years 1970 to 2105.
  static func microseconds(_ seconds: Double) -> Int64? {
    guard seconds.isFinite, seconds >= 0 else { return nil }
    let unix = seconds < smallestUnixTime ? seconds + secondsTo2001 : seconds
    guard unix < 0x1p32 else { return nil }
    return Int64((unix * 1e6).rounded())
  }

  /// Width and height in pixels from the frame header (ITU-T T.81, B.2.2); `nil` where there is none.
  package var size: StreamSize? {
    let bytes = jpeg.readableBytesView
    var index = bytes.startIndex + 2
    while index + 9 < bytes.endIndex, bytes[index] == 0xFF {
      let marker = bytes[index + 1]
      if marker == 0xFF {
        index += 1
        continue
      }
      if (0xC0...0xCF).contains(marker), ![0xC4, 0xC8, 0xCC].contains(marker) {
        return StreamSize(
          width: Int(bytes[index + 7]) << 8 | Int(bytes[index + 8]), height: Int(bytes[index + 5]) << 8 | Int(bytes[index + 6]))
      }
      if marker == 0xDA || marker == 0xD9 { return nil }
      index += 2 + (Int(bytes[index + 2]) << 8 | Int(bytes[index + 3]))
    }
    return nil
  }
}

/// Size of a stream's frames in pixels.
package struct StreamSize: Codable, Equatable, Sendable {
  package var width: Int
  package var height: Int
}
