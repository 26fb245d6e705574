import Evidence
package import Foundation
import GRDB

enum CaptureType: String, Codable, Sendable, CaseIterable {
  /// A bundle of video, depth, hash chain and metadata.
  case video
  /// A session archive or folder.
  case session
  /// A movie of the slow-motion app.
  case movie
  /// The images of a live view, kept as they arrived.
  case stream
}

enum CaptureStatus: String, Codable, Sendable, CaseIterable {
  /// Waiting to be converted, or being converted.
  case processing
  case complete
  /// The conversion failed on our side; the capture is kept and can be converted again.
  case failed
  /// The capture itself is damaged or was tampered with.
  case rejected
  /// Kept, but nothing knows what it is.
  case quarantined
}

/// A capture that was received and will be kept. Its files lie in the store below its id.
struct Capture: Codable, Sendable, FetchableRecord, PersistableRecord {
  static let databaseTableName = "capture"
  var id: String
  var type: CaptureType
  var status: CaptureStatus
  var reason: String?
  var project: String
  var device: String?
  /// The name that the client gave, for people; never a path here.
  var name: String
  /// Milliseconds since 1970.
  var receivedAt: Int64
  var bytes: Int64
  /// A digest of sender and contents, by which two captures are the same.
  var contentDigest: String?
  /// SHA-256 of the whole request, headers that count included.
  var requestDigest: String?
  var idempotencyKey: String?
  /// The first answer's body, which is given again to the same request.
  var answer: String?
  /// The form of the request's signature, `none`, `s0`, `s1` or `s2`; and whether it was verified.
  var signature: String
  var isVerified: Bool
  /// The conversion's results as JSON, in the manifest's words.
  var evidence: String?
  /// Number of rows of the take in the dataset, and seconds from the first to the last.
  var rows: Int64?
  var seconds: Double?
  /// The share of it that a signature covers, as far as a conversion has found out.
  var badge: VerificationBadge.State?
  /// The secret in the address at which everybody may see its page; `nil` where a key is needed.
  var link: String?
  /// What somebody has said of it, as JSON; see `CaptureLabels`.
  var labels: String?
  /// The number of times that these have changed.
  var labelsRevision: Int64 = 0
  /// Whether nobody vouches for it: it came without an API key and without a verified signature, where others need one of both.
  var isStranger = false

  init(
    id: String = UUID().uuidString.lowercased(), type: CaptureType, status: CaptureStatus = .processing, project: String,
    device: String? = nil,
    name: String, receivedAt: Int64 = Time.now(), bytes: Int64, contentDigest: String? = nil, requestDigest: String? = nil,
    idempotencyKey: String? = nil, answer: String? = nil, signature: String = "none", isVerified: Bool = false
  ) {
    self.id = id
    self.type = type
    self.status = status
    self.project = project
    self.device = device
    self.name = name
    self.receivedAt = receivedAt
    self.bytes = bytes
    self.contentDigest = contentDigest
    self.requestDigest = requestDigest
    self.idempotencyKey = idempotencyKey
    self.answer = answer
    self.signature = signature
    self.isVerified = isVerified
  }
}

/// A file of a capture.
struct CaptureFile: Codable, Sendable, FetchableRecord, PersistableRecord {
  static let databaseTableName = "file"
  var capture: String
  /// Path below the capture's folder.
  var name: String
  var bytes: Int64
  /// 64 hexadecimal digits.
  var sha256: String
}

struct Device: Codable, Sendable, FetchableRecord, PersistableRecord {
  static let databaseTableName = "device"
  /// A UUID in lower case.
  var id: String
  var keyID: String?
  var platform: String
  var model: String
  var hasLidar: Bool
  /// `secure_enclave`, `registered_key` or `unverified`.
  var level: String
  /// 65 bytes: 04, X and Y.
  var publicKey: Data?
  var project: String
  var registeredAt: Int64

  /// Returns the kind of device, for people; `nil` for one that is not known.
  static func source(platform: String?, model: String?) -> String? { platform == "simulated" ? platform : model }
}

/// An assertion that was accepted, so that it counts once.
struct SeenAssertion: Codable, Sendable, FetchableRecord, PersistableRecord {
  static let databaseTableName = "seenAssertion"
  var device: String
  var counter: Int64
  var requestDigest: String
  var capture: String
}

/// A key of the API, which belongs to one project. Times are in milliseconds since 1970.
package struct APIKey: Codable, Sendable, FetchableRecord, PersistableRecord {
  package static let databaseTableName = "apiKey"
  package var id: String
  package var name: String
  package var project: String
  /// SHA-256 of the key; the key itself is shown once and not kept.
  package var digest: Data
  package var createdAt: Int64
  package var revokedAt: Int64?
  package var power: Power
  /// Milliseconds since 1970 from which on it is useless.
  package var expiresAt: Int64?
  /// Id of the key by which it was made, on a page.
  package var maker: String?

  /// The power of a key in its project.
  package enum Power: String, Codable, Sendable, CaseIterable {
    case all
    /// Delivering captures: for phones, whose address has the key in it.
    case upload
    /// Looking at what there is.
    case read
    /// Converting captures, of whatever project, on a machine of the operator's.
    case work
    /// Reading the figures of the whole server, and no capture.
    case monitor

    /// The purpose in words, for people.
    var purpose: String {
      switch self {
      case .all: "everything in its project"
      case .upload: "uploads"
      case .read: "reading"
      case .work: "converting"
      case .monitor: "the server's figures"
      }
    }

    /// Whether a key of it is about one project; the others are the operator's.
    var isOfProject: Bool { self != .work && self != .monitor }

    /// Those of keys that are about one project.
    static let ofProjects = allCases.filter(\.isOfProject).map(\.rawValue)
  }

  /// The only project that it is about; `nil` for all.
  package var scope: String? { power.isOfProject ? project : nil }

  var isExpired: Bool { expiresAt.map { $0 <= Time.now() } ?? false }

  /// The state in words, for people: whether it is in use, and for what.
  package var state: String {
    if revokedAt != nil { return "revoked" }
    if isExpired { return "expired" }
    let limits: [String?] = [
      power == .all ? nil : "\(power.rawValue) only", expiresAt.map { "until \(Time.text($0).prefix(10))" },
      maker.map { "made by \($0)" },
    ]
    return (["in use"] + limits.compactMap(\.self)).joined(separator: ", ")
  }
}

/// An upload that arrives in pieces. Its bytes are in `uploads/<id>`; `offset` of them were fsynced.
struct Upload: Codable, Sendable, FetchableRecord, PersistableRecord {
  static let databaseTableName = "upload"
  var id: String
  var length: Int64?
  var offset: Int64
  /// tus metadata as sent: names and base64.
  var metadata: String
  var project: String
  var createdAt: Int64
  var expiresAt: Int64
  /// The capture that it became.
  var capture: String?
}

struct Conversion: Codable, Sendable, FetchableRecord, PersistableRecord {
  static let databaseTableName = "conversion"
  var capture: String
  /// `waiting`, `running` or `done`.
  var state: String
  var attempts: Int
  /// Milliseconds since 1970.
  var notBefore: Int64
  var lastError: String?
  /// Time at which the running conversion began.
  var startedAt: Int64?
  /// The machine that does it, if that is another one.
  var worker: String?
}
