/// What a run does to every take: a reader, transforms in order, a writer.
package struct Pipeline: Sendable {
  package enum Readers: Sendable {
    /// Whichever reader recognises a take, with default options.
    case auto
    case one(any Reader)
  }

  package var readers: Readers
  package var transforms: [any Transform]
  package var writer: any Writer

  package init(readers: Readers, transforms: [any Transform], writer: any Writer) {
    self.readers = readers
    self.transforms = transforms
    self.writer = writer
  }

  /// The readers that may claim a take, in order.
  package var candidates: [any Reader] {
    switch readers {
    case .auto: Registry.readers.map { $0.init() }
    case .one(let reader): [reader]
    }
  }

  /// Every option of every step, defaults included, as the manifest records it.
  package func canonical() throws -> JSONValue {
    let reader: JSONValue
    switch readers {
    case .auto: reader = "auto"
    case .one(let one):
      var options = try one.optionValues().object ?? [:]
      options["name"] = .string(type(of: one).name)
      reader = .object(options)
    }
    return [
      "version": 1, "reader": reader,
      "transforms": .array(try transforms.map { .object([type(of: $0).name: try $0.optionValues()]) }),
      "writer": .object([type(of: writer).name: try writer.optionValues()]),
    ]
  }

  /// Two runs with the same digest do the same to the same take.
  package func digest() throws -> Digest { Digest.of(try canonical().canonicalBytes) }

  /// The split rule of the pipeline, if it has one; the last one counts.
  var split: Split? { transforms.compactMap { $0 as? Split }.last }
}

/// What became of an episode on its way through the transforms.
package struct Passage: Sendable {
  /// One step's share in the manifest's `steps`.
  package struct StepRecord: Sendable {
    package var name: String
    package var options: JSONValue
    package var framesIn: Int
    package var framesOut: Int
    package var dropped: [Episode.Dropped]
  }

  /// As the reader gave it.
  package var source: Episode
  /// As the writer gets it.
  package var episode: Episode
  package var steps: [StepRecord]
}

extension Pipeline {
  /// Opens a take and applies every transform. What was done before an error is in `passage`, for the take's record.
  package func open(_ take: Take, with reader: any Reader, passage: inout Passage?) throws -> Passage {
    let source = try reader.open(take)
    let reading = Passage.StepRecord(
      name: type(of: reader).name, options: try reader.optionValues(), framesIn: source.sourceFrames,
      framesOut: source.frames.count, dropped: source.dropped)
    var current = Passage(source: source, episode: source, steps: [reading])
    for transform in transforms {
      let before = current.episode
      do {
        current.episode = try transform.apply(to: before)
      } catch var failure as TakeFailure {
        passage = current
        failure.message = "\(type(of: transform).name): \(failure.message)"
        throw failure
      } catch let rejection as Rejection {
        current.episode = rejection.episode ?? before
        passage = current
        throw Rejection("\(type(of: transform).name): \(rejection.reason)")
      }
      let after = current.episode
      current.steps.append(
        Passage.StepRecord(
          name: type(of: transform).name, options: try transform.optionValues(), framesIn: before.frames.count,
          framesOut: after.frames.count, dropped: Array(after.dropped.dropFirst(before.dropped.count))))
    }
    passage = current
    if current.episode.frames.count == 0 { throw Rejection("no frames are left after the transforms") }
    return current
  }
}

extension Step {
  package func optionValues() throws -> JSONValue { try Options.values(of: self) }
}
