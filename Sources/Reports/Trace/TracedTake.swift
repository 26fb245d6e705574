package import Datasets
import Evidence
import Foundation
import Model
import Readers
import Runs
import Steps

/// The take that an episode was made from, opened again by the recorded steps.
struct TracedTake: Sendable {
  let pipeline: Pipeline
  let inputs: TakeInputs
  let trace: TakeTrace

  var episode: Episode { trace.episode }

  /// The reason why a take cannot be opened again.
  struct Unavailable: Error {
    var reason: String
    var cause = Cause.take

    enum Cause: Sendable {
      /// Its files, or the recorded pipeline.
      case take
      /// The take is not there.
      case gone
      /// A step in Python is not the recorded one.
      case otherStep
      /// A step in Python cannot be called.
      case noStep
    }
  }

  /// Opens the take at a location. Throws `Unavailable`.
  ///
  /// - Parameter pipeline: The recorded pipeline.
  /// - Parameter folder: The folder of its file, from which the paths of steps in Python are.
  /// - Parameter python: The interpreter of these, if one is named.
  init(_ record: TakeRecord, at location: String, by pipeline: JSONValue, from folder: String?, python: String?, keys: DeviceKeys?) throws {
    let place: TakeLocation
    do {
      guard let kind = try Directory.kind(at: location) else {
        throw Unavailable(reason: "the take is no longer at \(location)", cause: .gone)
      }
      place = TakeLocation(path: location, isDirectory: kind == .directory)
    } catch let error as FileError {
      throw Unavailable(reason: "the take cannot be looked at: \(error)", cause: .gone)
    }
    do {
      self.pipeline = try Self.loaded(PipelineFile.parse(pipeline.canonicalText), from: folder, python)
      guard let first = record.steps.first else { throw Unavailable(reason: "the record of the episode has no steps") }
      let reader = try PipelineFile.reader(first.name, options: first.options)
      inputs = try reader.inputs(of: place)
      let take = Take(id: record.id.take, location: place, inputs: inputs)
      let traces = try self.pipeline.open(take, with: reader, in: RunContext(keys: keys), keepsHistory: true)
      if let obstacle = traces.compactMap(\.obstacle).first(where: { !($0 is Rejection) }) { throw obstacle }
      guard let own = traces.first(where: { $0.episode.id == record.id }) else {
        throw Unavailable(reason: "the take no longer has an episode \(record.id)")
      }
      trace = own
      if let obstacle = own.obstacle { throw obstacle }
    } catch let error as PipelineFileError {
      throw Unavailable(reason: "this version of Takeset does not have the pipeline that made the episode: \(error)")
    } catch let error as Unavailable {
      throw error
    } catch let rejection as Rejection {
      throw Unavailable(reason: "the take would be rejected now: \(rejection.reason)")
    } catch let error as FileError {
      throw Unavailable(reason: "\(error)")
    } catch {
      throw Unavailable(reason: "\(error)")
    }
  }

  /// The pipeline with the steps in Python that were recorded. Throws `Unavailable` where they are not there, or are others now.
  private static func loaded(_ pipeline: Pipeline, from folder: String?, _ python: String?) throws -> Pipeline {
    guard let folder else {
      if !pipeline.hasPrograms { return pipeline }
      throw Unavailable(reason: "where the pipeline's steps in Python were is not recorded", cause: .noStep)
    }
    do {
      return try ProgramLoader(folder: folder, interpreter: python).load(pipeline)
    } catch let error as PipelineFileError {
      throw Unavailable(reason: error.message, cause: .otherStep)
    } catch {
      throw Unavailable(reason: "\(error)", cause: .noStep)
    }
  }
}

/// A file of a take, compared with its record.
package struct TracedInput: Sendable {
  /// The file now, compared with the bytes and digest in the record.
  package enum State: String, Sendable { case unchanged, changed, missing, unreadable }

  package var record: TakeRecord.Input
  package var state: State
  /// The difference in words.
  package var words: String

  /// Reads and digests the file. `path`: where it was; `nil` where that is not known.
  init(_ record: TakeRecord.Input, at path: String?) {
    self.record = record
    guard let path else {
      (state, words) = (.missing, "where it was is not recorded")
      return
    }
    do {
      guard DatasetFiles.isInside(record.path), try Directory.kind(at: path) != nil else {
        (state, words) = (.missing, "it is no longer there")
        return
      }
      let (digest, bytes) = try SealedFile.digest(of: path)
      if digest == record.digest {
        (state, words) = (.unchanged, "it is there, and its sha256 is the recorded one")
      } else {
        let size = bytes == record.bytes ? "as many bytes as recorded" : "\(bytes) bytes, recorded \(record.bytes)"
        (state, words) = (.changed, "it has changed: its sha256 is \(digest), recorded \(record.digest); \(size)")
      }
    } catch {
      let reason = (error as? FileError)?.reason ?? (error as? TakeFailure)?.message ?? "\(error)"
      (state, words) = (.unreadable, "it cannot be read: \(reason)")
    }
  }

  var json: JSONValue {
    [
      "path": .string(record.path), "bytes": .integer(record.bytes), "sha256": .string(record.digest.description),
      "role": .string(record.role.rawValue), "state": .string(state.rawValue), "words": .string(words),
    ]
  }

  /// Inputs whose names say that a sample could be in them, where the take itself is gone: an archive or body, files of the number of the
  /// sample, or the only files of their role.
  static func candidates(_ kind: String?, number: Int64, among inputs: [TakeRecord.Input]) -> [TakeRecord.Input] {
    let roles: Set<TakeInputs.Role> =
      switch kind {
      case "image": [.image, .movie]
      case "depth": [.depth]
      case "confidence": [.confidence]
      case "pose": [.poses]
      case "angles": [.encoders]
      case "vector": [.poses]
      case "inertial": [.imu]
      default: []
      }
    let containers = inputs.filter { $0.role == .archive || $0.role == .body }
    if !roles.isEmpty, !containers.isEmpty { return containers }
    let own = inputs.filter { roles.contains($0.role) }
    func numberOf(_ input: TakeRecord.Input) -> Int64? {
      input.path.split(separator: "/").last.flatMap { NumberedFiles.number(in: $0) }
    }
    let numbered = own.filter { numberOf($0) != nil }
    return numbered.isEmpty ? own : numbered.filter { numberOf($0) == number } + own.filter { $0.role == .movie }
  }
}
