import Synchronization

/// The uploads that are being written to, and the digests of their bytes so far.
final class UploadLocks: Sendable {
  /// Uploads have unique ids, so one table serves all.
  static let shared = UploadLocks()

  private struct State {
    var taken: Set<String> = []
    var starts: [String: UploadFile.Start] = [:]
  }

  private let state = Mutex(State())
  /// Digests that are remembered; without one, a finished upload is read once more.
  private static let limit = 10_000

  /// Runs the closure as the only one for this upload, or throws `Failure` 423 at once.
  func withLock<Result>(_ upload: String, _ body: () async throws -> Result) async throws -> Result {
    guard state.withLock({ $0.taken.insert(upload).inserted }) else {
      throw Failure(.uploadLocked, "UPLOAD_LOCKED", "Another request is writing to this upload", headers: [.retryAfter: "1"])
    }
    defer { state.withLock { _ = $0.taken.remove(upload) } }
    return try await body()
  }

  /// Takes out the digest of an upload's start.
  func start(of upload: String) -> UploadFile.Start? { state.withLock { $0.starts.removeValue(forKey: upload) } }

  func keep(_ start: UploadFile.Start?, of upload: String) {
    state.withLock { state in
      if state.starts.count >= Self.limit { state.starts.removeAll() }
      state.starts[upload] = start
    }
  }
}
