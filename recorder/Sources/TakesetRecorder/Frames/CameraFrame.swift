/// A frame of the camera. Its memory is the camera's: it is valid until the callback that brought it returns, and cannot be kept.
public struct CameraFrame: ~Copyable {
  /// Seconds on the camera's clock.
  public let time: Double
  /// The image's bytes, in parts: the planes of a pixel buffer.
  public let pixels: [UnsafeRawBufferPointer]
  /// The depth map, 32-bit floats in meters, rows without padding; `nil` where the camera has none for this frame.
  public let depth: UnsafeRawBufferPointer?

  public init(time: Double, pixels: [UnsafeRawBufferPointer], depth: UnsafeRawBufferPointer?) {
    (self.time, self.pixels, self.depth) = (time, pixels, depth)
  }

  /// Calls a function with the rows of a map without the padding that a camera's memory may have after each; with `nil` where the memory is shorter than
  /// its rows.
  ///
  /// - Parameters:
  ///   - row: Bytes of a row without padding.
  ///   - stride: Bytes from the start of a row to that of the next.
  ///   - count: The number of rows.
  public static func withoutPadding(
    _ map: UnsafeRawBufferPointer, row: Int, stride: Int, count: Int, _ body: (UnsafeRawBufferPointer?) -> Void
  ) {
    guard row >= 0, row <= stride, count >= 0, stride == 0 || count <= map.count / stride else { return body(nil) }
    if row == stride { return body(UnsafeRawBufferPointer(rebasing: map[..<(row * count)])) }
    var packed: [UInt8] = []
    packed.reserveCapacity(row * count)
    for index in 0..<count { packed += map[(index * stride)..<(index * stride + row)] }
    packed.withUnsafeBytes(body)
  }
}

/// An encoder of a movie in self-contained segments, such as AVAssetWriter. It calls `SegmentReceiver` for each of them, in order, on a thread of its
/// own.
public protocol SegmentSink {
  /// Takes an image of the recording, with its seconds since the first. Returns `false` where the encoder is busy, which drops the frame.
  func encode(_ frame: borrowing CameraFrame, at seconds: Double) throws -> Bool
  /// Encodes what is pending, and calls `done` when all segments have been received, with what failed.
  func finish(_ done: @escaping @Sendable ((any Error)?) -> Void)
}

/// Receives a segment of the movie, the first with the initialization before it, and the number of frames up to its end.
public typealias SegmentReceiver = @Sendable (_ bytes: [UInt8], _ frames: Int) -> Void

/// Signs hashes with the device's key, such as App Attest.
public protocol AssertionSigner: Sendable {
  /// Calls `done` with the assertion over a hash of 32 bytes, in CBOR, or with `nil` where it cannot be made.
  func sign(_ hash: [UInt8], _ done: @escaping @Sendable ([UInt8]?) -> Void)
}

/// Compresses to raw DEFLATE (RFC 1951): takes pieces from `next` until there is none, and gives what it has made of them to `write`.
public typealias Deflate = @Sendable (_ next: () throws -> [UInt8]?, _ write: ([UInt8]) throws -> Void) throws -> Void
