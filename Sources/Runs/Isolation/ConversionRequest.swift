import Datasets
import Evidence
import Foundation
import Model

/// The task of a child process and its limits; it receives them as JSON.
struct ConversionRequest: Codable {
  var task: TakeTask
  /// The pipeline with all options, as the manifest records it, and its digest.
  var pipeline: JSONValue
  var digest: String
  var toolVersion: String
  var toolRevision: String
  /// The text of the keys file.
  var keys: String?
  /// The directory for shards: the only place that the child may write to.
  var directory: String
  /// Files and directories of the take, which the child may read.
  var readable: [String]
  var threads: Int
  /// Versions of what calls the steps in Python, of a pipeline that has some: the child then has a host.
  var environment: JSONValue?
  /// Whether to say only when the take was recorded, with a `UnixSpan`.
  var asksForTime: Bool?
  /// The process that waits for the results.
  var parent = getpid()
  /// Bytes of address space beyond what is in use at first, and seconds of processor time.
  var memory: Int64
  var processorSeconds: Int64

  /// Address space that the stacks and heaps of threads reserve and may never use.
  var reserve: Int64 { Int64(threads) * 80 << 20 }

  /// The descriptor at which the child leaves the results, a file in memory.
  static let resultDescriptor: Int32 = 4
  /// The connection to a host of steps and its memory.
  static let hostDescriptors: (connection: Int32, memory: Int32) = (5, 6)
}

/// The answer of a child process: the results as JSON, with the list of the take's files, which can be long, for the first episode only.
enum ConversionAnswer {
  static func encode(_ results: [TakeResult]) throws -> Data {
    var results = results
    for index in results.indices.dropFirst() where results[index].record.inputs == results[0].record.inputs {
      results[index].record.inputs = []
    }
    return try JSONEncoder().encode(results)
  }

  static func decode(_ data: Data) throws -> [TakeResult] {
    var results = try JSONDecoder().decode([TakeResult].self, from: data)
    for index in results.indices.dropFirst() where results[index].record.inputs.isEmpty {
      results[index].record.inputs = results[0].record.inputs
    }
    return results
  }
}

/// Exit codes of a child that ends by itself.
enum ConversionExit {
  static let done: Int32 = 0
  /// The output cannot be written.
  static let output: Int32 = 73
  /// The program is not as it should be.
  static let `internal`: Int32 = 70
}
