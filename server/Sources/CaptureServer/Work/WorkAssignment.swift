import Foundation

/// The facts that a worker needs to convert a capture, besides the bytes of its files.
struct WorkAssignment: Codable, Sendable {
  struct File: Codable, Sendable {
    /// Its name in the capture.
    var name: String
    /// Path at which the converter is to find it, below the folder of inputs.
    var place: String
    /// 64 hexadecimal digits.
    var sha256: String
  }

  /// A file of a step in Python.
  struct StepFile: Codable, Sendable {
    /// Its path from the folder of the pipeline.
    var name: String
    /// Base64 in JSON.
    var bytes: Data
  }

  /// Names the conversion in what follows.
  var lease: String
  var capture: String
  /// Name of the input below the folder of inputs.
  var input: String
  var files: [File]
  /// The pipeline's file.
  var pipeline: String
  /// The files of the pipeline's steps in Python.
  var steps: [StepFile]
  var keys: ConversionKeys?
  /// The limits of a conversion: seconds, and bytes of memory.
  var seconds: Int
  var memory: Int64
  /// Seconds for which the worker may be silent.
  var silence: Double
}

/// The request of a worker for a capture.
struct WorkRequest: Codable, Sendable {
  /// Name of the machine, for the operator.
  var worker: String
  /// Version of the worker's program, which must be the server's.
  var version: String
  /// Whether it has a Python that may call steps.
  var callsPython: Bool?
}

/// The end of a worker's conversion: its result, and the files that were sent.
struct WorkDone: Codable, Sendable {
  var result: ConversionResult
  /// Bytes by names, below the folder of the result.
  var files: [String: Int64]
}
