import Datasets
import EdgeOverlay
import Foundation
import Media
import Model
import Rasters
import Runs

/// An image or depth map of a traced row, as a file that browsers show.
struct TracePicture {
  /// The picture's origin: `source`, `stored` or `made again`.
  var title: String
  var size: ImageSize
  /// `image/png` or `image/jpeg`.
  var type: String
  var file: [UInt8]
  /// The file as it is in the take.
  var isOriginal = false
  var isDepth = false

  var dataURL: String { "data:\(type);base64,\(Data(file).base64EncodedString())" }

  /// Pixels above which a picture is shown as a JPEG: a page with several of them stays a few megabytes.
  private static let pngPixels = 1 << 20
  /// Bytes of a source's own file up to which it is shown as it is.
  private static let originalBytes = 16 << 20

  private init(_ title: String, rgb: [UInt8], _ size: ImageSize) throws {
    (self.title, self.size) = (title, size)
    if size.width * size.height <= Self.pngPixels {
      (type, file) = ("image/png", try PNG.encode(rgb, size: size, isFast: true))
    } else {
      (type, file) = ("image/jpeg", try JPEGEncoder().encode(rgb, size: size, quality: 92))
    }
  }

  private init(_ title: String, file: [UInt8], type: String, _ size: ImageSize) {
    (self.title, self.file, self.type, self.size) = (title, file, type, size)
  }

  /// Pictures of a stream: the source's sample as it was recorded, the stored row, and the row made again where that differs.
  static func all(of stream: TracedStream, in trace: Trace) -> [TracePicture] {
    guard ["image", "depth", "confidence"].contains(stream.kind) else { return [] }
    var pictures: [TracePicture] = []
    if let source = try? source(of: stream.name, in: trace) { pictures.append(source) }
    guard let field = trace.stored?.field(of: stream.name) else { return pictures }
    if stream.isValid != false, let stored = try? picture("stored", field.bytes, field) { pictures.append(stored) }
    if stream.isReproduced == false, let again = trace.remade?.fields["data/obs/\(stream.name)"], again != field.bytes,
      let remade = try? picture("made again", again, field)
    {
      pictures.append(remade)
    }
    return pictures
  }

  /// The sample before any step. `nil` where the row has none.
  private static func source(of name: StreamName, in trace: Trace) throws -> TracePicture? {
    guard let take = trace.take, let row = take.episode.streams[name]?.rows?[trace.row], let first = take.trace.history.first else {
      return nil
    }
    let original = trace.steps.dropFirst().reversed().reduce(name) { $1.nameBefore($0) }
    guard let stream = first.streams[original] else { return nil }
    var request = SampleRequest()
    request.isStandalone = stream.source.access.runs != nil
    var bytes: [UInt8] = []
    let size = stream.spec.gridSize
    if stream.spec.sourceEncoding == .jpeg {
      request.form = .encoded
      var cursor = try stream.source.makeCursor(request)
      try cursor.read(row.nearest, into: &bytes)
      if bytes.count <= originalBytes {
        var picture = TracePicture("source", file: bytes, type: "image/jpeg", size)
        picture.isOriginal = true
        return picture
      }
      request.form = .decoded
    }
    var cursor = try stream.source.makeCursor(request)
    try cursor.read(row.nearest, into: &bytes)
    return try picture("source", bytes, stream.spec.kind.word, isMillimeters: stream.spec.type == .uint16, size)
  }

  private static func picture(_ title: String, _ bytes: [UInt8], _ field: StoredRow.Field) throws -> TracePicture? {
    if let encoding = field.encoding, encoding != "raw", let size = field.imageSize {
      return TracePicture(title, file: bytes, type: encoding == "png" ? "image/png" : "image/jpeg", size)
    }
    guard field.shape.count == 3, let kind = field.kind else { return nil }
    return try picture(title, bytes, kind, isMillimeters: field.type == .uint16, ImageSize(width: field.shape[1], height: field.shape[0]))
  }

  private static func picture(_ title: String, _ bytes: [UInt8], _ kind: String, isMillimeters: Bool, _ size: ImageSize) throws
    -> TracePicture
  {
    if kind == "image" { return try TracePicture(title, rgb: bytes, size) }
    var rgb: [UInt8]
    if kind == "depth" {
      let meters = StoredRow.Field.numbers(bytes, isMillimeters ? .uint16 : .float32).map { Float(isMillimeters ? $0 / 1000 : $0) }
      rgb = EdgeOverlay.painted(meters)
    } else {
      // Confidence: 0 is black, 2 is white.
      rgb = bytes.flatMap { [UInt8](repeating: UInt8(min(Int($0), 2) * 255 / 2), count: 3) }
    }
    rgb.resize(to: size.width * size.height * 3)
    var picture = try TracePicture(title, rgb: rgb, size)
    picture.isDepth = true
    return picture
  }
}
