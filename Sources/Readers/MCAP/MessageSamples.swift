import Evidence
import Foundation
import Media
import Model

/// The data of messages of a topic, such as images.
struct MessageSamples: SampleBytes {
  let log: MCAPLog
  let topic: String
  let places: [MessagePlace]
  let numbers: [Int]
  let areJPEG: Bool
  /// Bytes before the image, which ROS puts before depth maps.
  var headBytes = 0

  var count: Int { places.count }

  func place(of sample: Int) -> (file: String, field: String?) {
    (log.files[Int(places[sample].file)].path, ", message \(numbers[sample]) of \(topic.onOneLine)")
  }

  func read(_ sample: Int, hasher: SHA256, as code: FindingCode, into bytes: inout [UInt8]) throws {
    let place = place(of: sample)
    do {
      try log.read(places[sample], into: &bytes)
    } catch {
      throw SampleFailure(finding: Finding(code, "\(error)", severity: .warning, file: place.file, field: place.field))
    }
    if places[sample].isText {
      let fields = try? bytes.withUnsafeBytes { try JSONMessageDecoder(TopicKind.image.wanted).decode($0) }
      guard case .text(let text)? = fields?[TopicKind.Slot.data], let data = Data(base64Encoded: text) else {
        throw SampleFailure(
          finding: Finding(code, "its data are not Base64", severity: .warning, file: place.file, field: place.field))
      }
      bytes = Array(data)
    }
    if headBytes > 0 { bytes.removeFirst(min(headBytes, bytes.count)) }
  }

  func origin(of sample: Int) throws -> SampleOrigin { try log.origin(of: places[sample], numbers[sample]) }
}
