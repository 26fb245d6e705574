import Dispatch
import Evidence
import Foundation
import Media
import Model
import TakesetRecorder

// What an app brings to the recorder, here for a simulated phone.

/// The chain's digest by libcrypto.
package struct ChainHasher: FrameHasher {
  private let hasher = SHA256()
  package init() {}
  package mutating func update(_ bytes: UnsafeRawBufferPointer) { hasher.update(bytes) }
  package mutating func finish() -> [UInt8] { hasher.finish().bytes }
}

/// The encoder: `MovieEncoder` in segments of half a second, which are handed over on a queue.
///
/// `@unchecked Sendable`: the recorder calls one method at a time, and the queue has only the segments.
final class SegmentEncoder: SegmentSink, @unchecked Sendable {
  private let encoder: MovieEncoder
  private let timescale: Int
  private let coded: (_ pixels: [UInt8]) -> [UInt8]
  private let receive: SegmentReceiver
  private let queue = DispatchQueue(label: "takeset.simulate.segments")

  /// - Parameter coded: Makes the image that is encoded of the upright one.
  init(_ options: MovieEncoder.Options, _ receive: @escaping SegmentReceiver, coded: @escaping (_ pixels: [UInt8]) -> [UInt8]) throws {
    encoder = try MovieEncoder(segmentsOf: 0.5, options)
    (timescale, self.receive, self.coded) = (options.timescale, receive, coded)
  }

  func encode(_ frame: borrowing CameraFrame, at seconds: Double) throws -> Bool {
    try encoder.add(coded(frame.pixels.flatMap(Array.init)), at: Int64((seconds * Double(timescale)).rounded()))
    deliver()
    return true
  }

  private func deliver() {
    let segments = encoder.takeSegments()
    if !segments.isEmpty { queue.async { [receive] in for segment in segments { receive(segment.bytes, segment.frames) } } }
  }

  func finish(_ done: @escaping @Sendable ((any Error)?) -> Void) {
    let failure = Result { try encoder.finish() }
    deliver()
    queue.async { if case .failure(let error) = failure { done(error) } else { done(nil) } }
  }
}

/// The device's key. It counts its signatures, as a phone's does, or signs wrongly as a `SimulatedBundle.Signature` says.
///
/// `@unchecked Sendable`: `lock` guards the count.
final class SimulatedSigner: AssertionSigner, @unchecked Sendable {
  private let key: SigningKey
  private let signature: SimulatedBundle.Signature
  private let deviceID: String
  private let lock = NSLock()
  private var counter: UInt32

  /// - Parameter counter: Signatures that the key has made before.
  init(_ key: SigningKey, _ signature: SimulatedBundle.Signature, deviceID: String, counter: UInt32) {
    (self.key, self.signature, self.deviceID, self.counter) = (key, signature, deviceID, counter)
  }

  func sign(_ hash: [UInt8], _ done: @escaping @Sendable ([UInt8]?) -> Void) { done(assertion(over: hash)) }

  func assertion(over hash: [UInt8]) -> [UInt8]? {
    switch signature {
    case .absent: nil
    case .mock: Array("debug-mock-assertion".utf8)
    case .placeholder: Array("POST\n/api/v1/captures/video\n1700000000000\n\(deviceID.uppercased())".utf8)
    case .wrong: signed(Digest.of("other").bytes)
    case .final, .checkpoint: signed(hash)
    }
  }

  private func signed(_ hash: [UInt8]) -> [UInt8] {
    let count = lock.withLock {
      counter += 1
      return counter
    }
    return key.assertion(over: hash, appID: SimulatedBundle.appID, counter: count)
  }
}
