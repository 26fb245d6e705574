import Foundation
import HTTPTypes

/// The three headers by which a capture app names the device and signs a request.
struct DeviceHeaders: Sendable {
  /// The id as it was sent, which is what is signed.
  let sentID: String
  let sentTimestamp: String
  let sentSignature: String
  /// The device's id in lower case.
  var id: String { sentID.lowercased() }
  /// Milliseconds since 1970.
  let timestamp: Int64
  let signature: [UInt8]

  /// Reads and checks the headers, in the order that the apps' server has always checked them in.
  ///
  /// - Parameter now: Milliseconds since 1970.
  /// - Throws: `Failure`: 401 for a header that is missing and for a timestamp outside its window, 400 for a malformed one.
  init(_ headers: HTTPFields, at now: Int64, _ configuration: Configuration) throws {
    func value(_ name: HTTPField.Name) throws -> String {
      guard let value = headers[name] else {
        throw Failure(.unauthorized, "DEVICE_AUTH_REQUIRED", "The header \(name.rawName) is missing")
      }
      return value
    }
    sentID = try value(.deviceID)
    guard UUID(uuidString: sentID) != nil else { throw Failure.invalid("X-Device-Id is not a UUID") }
    sentTimestamp = try value(.deviceTimestamp)
    guard let timestamp = Int64(sentTimestamp) else {
      throw Failure.invalid("X-Device-Timestamp is not a whole number of milliseconds since 1970")
    }
    self.timestamp = timestamp
    sentSignature = try value(.deviceSignature)
    // Written in its only standard form.
    guard let decoded = Data(base64Encoded: sentSignature), decoded.base64EncodedString() == sentSignature else {
      throw Failure.invalid("X-Device-Signature is not standard base64")
    }
    signature = Array(decoded)

    let (age, isTooLarge) = now.subtractingReportingOverflow(timestamp)
    guard !isTooLarge, age <= Int64(configuration.timestampAge) * 1000 else {
      throw Failure(
        .unauthorized, "TIMESTAMP_EXPIRED",
        "The request is older than \(configuration.timestampAge) s. Sign it anew and send it again; there is no need to register again.")
    }
    guard -age <= Int64(configuration.timestampLead) * 1000 else {
      throw Failure(
        .unauthorized, "TIMESTAMP_INVALID",
        "The request's timestamp is more than \(configuration.timestampLead) s ahead of the server's clock")
    }
  }
}
