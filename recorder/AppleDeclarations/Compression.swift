// https://developer.apple.com/documentation/compression/outputfilter
import Foundation

public enum FilterOperation: Sendable { case compress, decompress }
public enum Algorithm: Sendable { case lzfse, zlib, lz4, lzma }
public final class OutputFilter {
  public init(
    _ operation: FilterOperation, using algorithm: Algorithm, bufferCapacity: Int = 65_536,
    writingTo writeBlock: @escaping (Data?) throws -> Void
  ) throws { fatalError() }
  public func write(_ data: (some DataProtocol)?) throws { fatalError() }
  public func finalize() throws { fatalError() }
}
