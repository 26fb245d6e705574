import Evidence
import Model

/// How messages hold images or depth maps without compression.
struct RawLayout: Equatable {
  var size: ImageSize
  /// ROS's name, such as `rgb8`.
  var encoding: String
  /// Bytes from one row to the next.
  var step: Int
  var isBigEndian: Bool

  /// Longest side, in pixels.
  static let sideLimit = 16_384

  /// - Parameter fields: Of `TopicKind.raw`. Throws `MessageFault` where its numbers contradict each other or the data.
  init(_ fields: [MessageValue?], bytes: Int) throws {
    func number(_ slot: Int) -> Int? { if case .number(let number)? = fields[slot] { Int(exactly: number) } else { nil } }
    guard case .text(let encoding)? = fields[TopicKind.Slot.format], let width = number(TopicKind.Slot.width),
      let height = number(TopicKind.Slot.height), (1...Self.sideLimit).contains(width), (1...Self.sideLimit).contains(height)
    else { throw MessageFault("it has no size between 1 and \(Self.sideLimit) pixels") }
    (size, self.encoding) = (ImageSize(width: width, height: height), encoding)
    isBigEndian = number(TopicKind.Slot.isBigEndian) == 1
    step = number(TopicKind.Slot.step) ?? 0
    guard let pixel = Self.bytes[encoding] else { return }
    guard step >= width * pixel, step <= 1 << 24, bytes >= leastBytes else {
      throw MessageFault("\(bytes) bytes in rows of \(step) are no image of \(size) as \(encoding)")
    }
  }

  /// Bytes of a pixel.
  static let bytes = ["rgb8": 3, "bgr8": 3, "8UC3": 3, "mono8": 1, "8UC1": 1, "rgba8": 4, "bgra8": 4, "16UC1": 2, "mono16": 2, "32FC1": 4]

  /// Bytes of the data, without what may follow the last row.
  var leastBytes: Int { step * (size.height - 1) + size.width * (Self.bytes[encoding] ?? 0) }

  var words: String { "\(size) as \(encoding) in rows of \(step) bytes\(isBigEndian ? ", big-endian" : "")" }

  var isDepth: Bool { ["16UC1", "mono16", "32FC1"].contains(encoding) }

  /// Whole millimeters, or meters.
  var depthType: (ScalarType, unit: String) { encoding == "32FC1" ? (.float32, "m") : (.uint16, "mm") }
}

/// Images or depth maps that messages hold without compression.
struct RawMessages: SampleSource {
  let samples: MessageSamples
  let layout: RawLayout

  var access: SampleAccess { .random }

  func origins(of sample: Int) throws -> [SampleOrigin] { [try samples.origin(of: sample)] }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private final class Cursor: SampleCursor {
    private let source: RawMessages
    private let hasher = SHA256()
    private var data: [UInt8] = []

    init(source: RawMessages) { self.source = source }

    var size: ImageSize? { source.layout.isDepth ? nil : source.layout.size }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let code: FindingCode = source.layout.isDepth ? .depthUndecodable : .imageUndecodable
      try source.samples.read(index, hasher: hasher, as: code, into: &data)
      guard data.count >= source.layout.leastBytes else {
        let place = source.samples.place(of: index)
        throw SampleFailure(
          finding: Finding(
            code, "it has \(data.count) of \(source.layout.leastBytes) bytes", severity: .warning, file: place.file, field: place.field))
      }
      source.layout.isDepth ? depth(into: &bytes) : color(into: &bytes)
    }

    private func depth(into bytes: inout [UInt8]) {
      let (layout, width) = (source.layout, source.layout.size.width * (RawLayout.bytes[source.layout.encoding] ?? 1))
      bytes.removeAll(keepingCapacity: true)
      for row in 0..<layout.size.height { bytes += data[(row * layout.step)..<(row * layout.step + width)] }
      let value = layout.encoding == "32FC1" ? 4 : 2
      if layout.isBigEndian {
        for start in stride(from: 0, to: bytes.count, by: value) { bytes[start..<(start + value)].reverse() }
      }
      if value == 4 { clearInvalidDepth(in: &bytes) }
    }

    private func color(into bytes: inout [UInt8]) {
      let (layout, pixel) = (source.layout, RawLayout.bytes[source.layout.encoding] ?? 1)
      let (width, height) = (layout.size.width, layout.size.height)
      let isReversed = ["bgr8", "bgra8", "8UC3"].contains(layout.encoding)
      let (red, green, blue) = pixel == 1 ? (0, 0, 0) : isReversed ? (2, 1, 0) : (0, 1, 2)
      if bytes.count != 3 * width * height { bytes = [UInt8](repeating: 0, count: 3 * width * height) }
      data.withUnsafeBytes { data in
        bytes.withUnsafeMutableBytes { bytes in
          var to = 0
          for row in 0..<height {
            var from = row * layout.step
            for _ in 0..<width {
              bytes[to] = data[from + red]
              bytes[to + 1] = data[from + green]
              bytes[to + 2] = data[from + blue]
              (to, from) = (to + 3, from + pixel)
            }
          }
        }
      }
    }
  }
}
