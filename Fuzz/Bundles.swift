import Evidence
import Media
import Model

@testable import Readers

extension FuzzTarget {
  /// Parts of uploaded bundles, and the body of an upload.
  static let bundles = [bundleMetadata, hashChain, depthBlob, multipart]

  /// What a strict reader accepts, the other one does too.
  private static let bundleMetadata = FuzzTarget("bundle-metadata", throws: TakeFailure.self) { bytes in
    if let strict = try? BundleMetadata(bytes, file: "metadata.json", isStrict: true) {
      expect(strict.findings.allSatisfy { $0.code != .metadataRange }, "a strict reader accepts what is out of range")
      _ = must("the reader that is not strict") { try BundleMetadata(bytes, file: "metadata.json", isStrict: false) }
    }
    let metadata = try BundleMetadata(bytes, file: "metadata.json", isStrict: false)
    expect(metadata.frameCount >= 0 && metadata.durationMilliseconds >= 0, "a negative count")
    if let location = metadata.location {
      _ = must("the record") { try JSONReader(location.canonicalBytes).value() }
    }
  }

  private static let hashChain = FuzzTarget("hash-chain", throws: HashChain.Broken.self) { bytes in
    var chain = try HashChain(bytes, file: "hash_chain.json")
    expect(chain.hashes.allSatisfy { $0.count == 32 } && chain.final == chain.hashes.last, "hashes of a wrong length")
    for point in chain.checkpoints {
      expect((1...chain.hashes.count).contains(chain.frames(upTo: point)), "a checkpoint outside of the chain")
    }
    try chain.check(against: (nil, Int64(chain.hashes.count)), file: "hash_chain.json")
  }

  /// The first byte is the number of keyframes that the metadata say, or none.
  private static let depthBlob = FuzzTarget("depth-blob", throws: DepthBlob.Undecodable.self) { bytes in
    guard let first = bytes.first else { return }
    let slice = FileSlice(Array(bytes.dropFirst()))
    let blob = try DepthBlob(slice, claimed: first == 0 ? nil : Int64(first) - 1, file: "depth")
    expect((1...DepthBlob.keyframeLimit).contains(blob.keyframes), "\(blob.keyframes) keyframes")
    expect(blob.seconds.map { isAscending($0) && $0.count == blob.keyframes } ?? true, "times that do not ascend are used")
    var reader = DepthReader(blob: blob, slice: slice, file: "depth")
    for index in Set([0, blob.keyframes / 2, blob.keyframes - 1]).sorted() {
      let keyframe = must("keyframe \(index)") { try reader.read(index) }
      expect(keyframe.count == blob.keyframeBytes, "a keyframe of \(keyframe.count) bytes")
    }
  }

  /// The first byte is the length of the pieces in which the body arrives; the parts are the same in one piece.
  private static let multipart = FuzzTarget("multipart", throws: TakeFailure.self) { bytes in
    guard let first = bytes.first else { return }
    let body = Array(bytes.dropFirst())
    let boundary = String(decoding: body.dropFirst(2).prefix { $0 != UInt8(ascii: "\r") }.prefix(100), as: UTF8.self)
    _ = MultipartParser(contentType: "multipart/form-data; boundary=" + boundary)
    if let parser = MultipartParser(boundary: boundary) {
      let whole = Form(parser, body, piece: max(body.count, 1))
      expect(Form(parser, body, piece: Int(first % 40) + 1) == whole, "other parts in pieces of \(first % 40 + 1) bytes")
    }
    let found = try MultipartBody(FileSlice(body), file: "upload")
    for part in found.parts {
      expect(part.range.lowerBound >= 0 && part.range.upperBound <= Int64(body.count), "a part outside of the body")
    }
  }

  /// What a parser makes of a body.
  private struct Form: Equatable {
    var parts: [MultipartParser.Header] = []
    var data: [[UInt8]] = []
    var starts: [Int64] = []
    var isComplete = false
    var problem: String?

    init(_ parser: MultipartParser, _ body: [UInt8], piece: Int) {
      var parser = parser
      var rest = body[...]
      do {
        while true {
          while let event = try parser.next() {
            switch event {
            case .part(let header):
              parts.append(header)
              data.append([])
              starts.append(parser.dataStart)
            case .data(let bytes): data[data.count - 1] += bytes
            case .endOfPart: break
            case .end:
              isComplete = true
              return
            }
          }
          if rest.isEmpty { parser.end() } else { parser.append(rest.prefix(piece)) }
          rest = rest.dropFirst(piece)
        }
      } catch {
        problem = "\(error)"
      }
    }
  }
}
