import Evidence
import Media
import Model
import Steps

/// Depth maps one after the other in a file, without a header: rows of 16-bit floats, meters.
struct ConcatenatedDepth: SampleSource {
  let inputs: TakeInputs
  let entry: Int
  let slice: FileSlice
  let size: ImageSize

  static func mapBytes(_ size: ImageSize) -> Int64 { Int64(2 * size.width * size.height) }

  var access: SampleAccess { .random }

  func origins(of sample: Int) throws -> [SampleOrigin] {
    var origin = try InputOrigin(inputs: inputs, entry: entry)()
    let bytes = Self.mapBytes(size)
    origin.range = Int64(sample) * bytes..<Int64(sample + 1) * bytes
    return [origin]
  }

  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor(source: self) }

  private struct Cursor: SampleCursor {
    let source: ConcatenatedDepth
    var size: ImageSize? { nil }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let count = ConcatenatedDepth.mapBytes(source.size)
      let path = source.inputs.entries[source.entry].path
      let half: [UInt8]
      do {
        half = try source.slice.bytes(Int64(index) * count..<Int64(index + 1) * count)
      } catch let failure as FileSlice.Failure {
        throw TakeFailure(.unreadable, "\(failure)", file: path)
      }
      guard half.count == Int(count) else {
        throw SampleFailure(finding: Finding(.depthUndecodable, "the file ends in map \(index)", severity: .warning, file: path))
      }
      if bytes.count != 2 * half.count { bytes = [UInt8](repeating: 0, count: 2 * half.count) }
      bytes.withUnsafeMutableBytes { bytes in
        let meters = bytes.bindMemory(to: Float.self)
        half.withUnsafeBytes { half in
          for pixel in meters.indices {
            meters[pixel] = HalfFloat.value(half.loadUnaligned(fromByteOffset: 2 * pixel, as: UInt16.self).littleEndian)
          }
        }
      }
      clearInvalidDepth(in: &bytes)
    }
  }
}
