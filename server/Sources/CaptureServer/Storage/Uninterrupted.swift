/// Runs the closure to its end even if the task that asked for it is cancelled, as it is when the server ends before a request does.
func uninterrupted<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
  try await Task { try await body() }.value
}
