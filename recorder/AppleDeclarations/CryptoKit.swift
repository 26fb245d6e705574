// https://developer.apple.com/documentation/cryptokit/sha256
import Foundation

public struct SHA256Digest: Sequence, Sendable {
  public func makeIterator() -> Array<UInt8>.Iterator { fatalError() }
}
public struct SHA256: Sendable {
  public init() { fatalError() }
  public static func hash(data: some DataProtocol) -> SHA256Digest { fatalError() }
  public mutating func update(bufferPointer: UnsafeRawBufferPointer) { fatalError() }
  public func finalize() -> SHA256Digest { fatalError() }
}
