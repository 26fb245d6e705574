package import Model

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

  /// Two runs with the same digest do the same to the same take.
  package func digest() -> Digest { Digest.of(canonical().canonicalBytes) }

  /// The split rule of the pipeline, if it has one; the last one counts.
  var split: (any SplitRule)? { transforms.compactMap { $0 as? any SplitRule }.last }
}

/// What became of an episode on its way through the transforms.
package struct Passage: Sendable {
  /// As the reader gave it.
  package var source: Episode
  /// As the writer gets it, or as far as it came.
  package var episode: Episode
  package var steps: [TakeRecord.Step]
  /// The `TakeFailure` or `Rejection` that ended the way early.
  package var obstacle: (any Error)?

  /// The episode for the writer. Throws what is in the way.
  package func get() throws -> Episode {
    if let obstacle { throw obstacle }
    return episode
  }
}

extension Pipeline {
  /// Opens a take and applies every transform. The one way in which takes are opened, to be converted, planned or inspected.
  ///
  /// - Throws: What the reader throws. What stops the take later is in the passage.
  package func open(_ take: Take, with reader: any Reader, in context: RunContext) throws -> Passage {
    let source = try reader.open(take)
    var passage = Passage(
      source: source, episode: source,
      steps: [step(type(of: reader).name, reader.optionValues(), source.sourceFrames, source.frames.count, source.dropped[...])])
    for transform in transforms {
      let before = passage.episode
      let name = type(of: transform).name
      do {
        passage.episode = try transform.apply(to: before, in: context)
      } catch var failure as TakeFailure {
        failure.message = "\(name): \(failure.message)"
        passage.obstacle = failure
        return passage
      } catch let rejection as Rejection {
        passage.episode = rejection.episode ?? before
        passage.obstacle = Rejection("\(name): \(rejection.reason)")
        return passage
      }
      let after = passage.episode
      passage.steps.append(
        step(name, transform.optionValues(), before.frames.count, after.frames.count, after.dropped.dropFirst(before.dropped.count)))
    }
    if passage.episode.frames.count == 0 { passage.obstacle = Rejection("no frames are left after the transforms") }
    return passage
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
