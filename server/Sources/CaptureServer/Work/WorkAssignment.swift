/// What a worker needs to convert a capture, besides the bytes of its files.
struct WorkAssignment: Codable, Sendable {
  struct File: Codable, Sendable {
    /// Its name in the capture.
    var name: String
    /// Where the converter is to find it, below the folder of inputs.
    var place: String
    /// 64 hexadecimal digits.
    var sha256: String
  }

  /// Names the conversion in what follows.
  var lease: String
  var capture: String
  /// Name of the input below the folder of inputs.
  var input: String
  var files: [File]
  /// The pipeline's file.
  var pipeline: String
  var keys: ConversionKeys?
  /// What a conversion may take: seconds, and bytes of memory.
  var seconds: Int
  var memory: Int64
  /// Seconds for which the worker may be silent.
  var silence: Double
}

/// What a worker asks with.
struct WorkRequest: Codable, Sendable {
  /// For the operator: which machine.
  var worker: String
  /// Of the worker's program, which must be the server's.
  var version: String
}

/// How a worker ends a conversion: what came of it, and the files that it has sent.
struct WorkDone: Codable, Sendable {
  var result: ConversionResult
  /// Bytes by names, below the folder of the result.
  var files: [String: Int64]
}
