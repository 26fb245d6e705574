package import Model

/// The steps that a run applies to every take: a reader, transforms in order, a writer.
package struct Pipeline: Sendable {
  package enum Readers: Sendable {
    /// The reader that recognizes the take, with default options.
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
  package func canonical() -> JSONValue {
    let reader: JSONValue
    switch readers {
    case .auto: reader = "auto"
    case .one(let one):
      var options = one.optionValues().object ?? [:]
      options["name"] = .string(type(of: one).name)
      reader = .object(options)
    }
    return [
      "version": 1, "reader": reader,
      "transforms": .array(transforms.map { .object([type(of: $0).name: $0.optionValues()]) }),
      "writer": .object([type(of: writer).name: writer.optionValues()]),
    ]
  }

  /// The digest of the canonical form; two runs with the same digest convert the same take in the same way.
  package func digest() -> Digest { Digest.of(canonical().canonicalBytes) }

  /// The split rule of the pipeline, if it has one; the last one counts.
  var split: (any SplitRule)? { transforms.compactMap { $0 as? any SplitRule }.last }
}

/// The trace of an episode through the transforms.
package struct TakeTrace: Sendable {
  /// The episode from the reader.
  package var source: Episode
  /// The episode for the writer, or the last one before the obstacle.
  package var episode: Episode
  package var steps: [TakeRecord.Step]
  /// The `TakeFailure` or `Rejection` that ended it early.
  package var obstacle: (any Error)?

  /// The episode for the writer. Throws the obstacle.
  package func get() throws -> Episode {
    if let obstacle { throw obstacle }
    return episode
  }
}

extension Pipeline {
  /// Opens a take and applies every transform. Conversion, plan and inspection all open takes with this method.
  ///
  /// - Throws: Errors of the reader. An error of a transform is in the trace.
  package func open(_ take: Take, with reader: any Reader, in context: RunContext) throws -> TakeTrace {
    let source = try reader.open(take)
    var trace = TakeTrace(
      source: source, episode: source,
      steps: [step(type(of: reader).name, reader.optionValues(), source.sourceFrames, source.frames.count, source.dropped[...])])
    for transform in transforms {
      let before = trace.episode
      let name = type(of: transform).name
      do {
        trace.episode = try transform.apply(to: before, in: context)
      } catch var failure as TakeFailure {
        failure.message = "\(name): \(failure.message)"
        trace.obstacle = failure
        return trace
      } catch let rejection as Rejection {
        trace.episode = rejection.episode ?? before
        trace.obstacle = Rejection("\(name): \(rejection.reason)")
        return trace
      }
      let after = trace.episode
      trace.steps.append(
        step(name, transform.optionValues(), before.frames.count, after.frames.count, after.dropped.dropFirst(before.dropped.count)))
    }
    if trace.episode.frames.count == 0 { trace.obstacle = Rejection("no frames are left after the transforms") }
    return trace
  }

  private func step(
    _ name: String, _ options: JSONValue, _ framesIn: Int, _ framesOut: Int, _ dropped: ArraySlice<Episode.Dropped>
  ) -> TakeRecord.Step {
    TakeRecord.Step(
      name: name, options: options, framesIn: framesIn, framesOut: framesOut,
      dropped: dropped.map { TakeRecord.Step.Dropped(reason: $0.reason, count: $0.count) })
  }
}

extension Step {
  package func optionValues() -> JSONValue { Options.values(of: self) }
}
