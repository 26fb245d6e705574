package import Model

/// The division of an episode's rows among workers, and the samples that are prefetched for them.
package struct RowBlocks: Sendable {
  package private(set) var blocks: [Range<Int>] = []
  package private(set) var prefetch: Prefetch?
  /// Whether each worker reads videos independently, one run at a time.
  package private(set) var isStandalone = false

  /// Makes blocks without anything to prefetch.
  init(blocks: [Range<Int>]) { self.blocks = blocks }

  /// - Parameter rasters: The streams whose samples are read block by block; all have rows.
  /// - Parameter isPart: Whether these are the rows of one of several episodes of a take. They read videos from front to back, all in the
  ///   same way, because the take is read once for all of them.
  package init(_ rasters: [SampleStream], count: Int, isPart: Bool = false) {
    guard !rasters.isEmpty, count > 0 else { return }
    if !isPart, let runs = Self.runs(rasters, count) {
      (blocks, isStandalone) = (runs, true)
    } else {
      blocks = Self.even(rasters, count)
    }
    let fed = rasters.filter { stream in
      if isStandalone, stream.source.access.runs != nil { return false }
      return stream.source.access.feed != nil
    }
    prefetch = fed.isEmpty ? nil : Prefetch(fed, blocks)
  }

  /// Blocks that are complete runs of a video's frames, so that several threads can decode it; `nil` where there is no video, or where the
  /// stored frames of a run would take too much memory.
  private static func runs(_ rasters: [SampleStream], _ count: Int) -> [Range<Int>]? {
    guard let movie = rasters.first(where: { $0.source.access.runs != nil }), let runs = movie.source.access.runs, runs.count > 1 else {
      return nil
    }
    let most = (24 << 20) / rasters.reduce(1) { $0 + $1.spec.sampleBytes }
    var blocks: [Range<Int>] = []
    var (start, next) = (0, 1)
    for row in 0..<count {
      guard let sample = movie.rows?[row]?.sample else { continue }
      // The last run that has begun by this frame.
      let before = next
      while next < runs.count, runs[next] <= sample { next += 1 }
      if next > before, row > start {
        blocks.append(start..<row)
        start = row
      }
    }
    blocks.append(start..<count)
    return blocks.allSatisfy { $0.count <= most } ? blocks : nil
  }

  /// The rows in blocks of about two megabytes, which end where possible between rows that share no sample: neighbors often share a depth
  /// map, which is then read and deflated once, by one worker.
  private static func even(_ rasters: [SampleStream], _ count: Int) -> [Range<Int>] {
    let isFed = rasters.contains { $0.source.access.feed != nil }
    let rowBytes = rasters.reduce(1) { $0 + $1.spec.sampleBytes + ($1.source.access.feed?.sampleBytes ?? 0) }
    // Video frames are buffered at full size; a block with fewer frames than share a depth map would deflate the map again.
    let budget = isFed ? 16 << 20 : 2 << 20
    let target = min(max(budget / rowBytes, 1), 8)
    var blocks: [Range<Int>] = []
    var start = 0
    for row in 1...count {
      let length = row - start
      let isShared = row < count && rasters.contains { $0.rows?[row] != nil && $0.rows?[row] == $0.rows?[row - 1] }
      guard row == count || length >= 2 * target || length >= target && !isShared else { continue }
      blocks.append(start..<row)
      start = row
    }
    return blocks
  }
}

/// Samples that are read sequentially, and the blocks that need them.
package struct Prefetch: Sendable {
  /// The samples of each feed that a block needs, block after block.
  private let needs: [[(feed: any SamplePrefetcher, samples: [Int])]]
  /// The last block that needs each feed.
  private let ends: [ObjectIdentifier: Int]

  private init(_ needs: [[(feed: any SamplePrefetcher, samples: [Int])]]) {
    self.needs = needs
    ends = needs.enumerated().reduce(into: [:]) { ends, need in for own in need.element { ends[ObjectIdentifier(own.feed)] = need.offset } }
  }

  /// The samples of consecutive episodes of one take, block after block; `nil` where none is prefetched. Episodes that are cut from one source
  /// share its feed; what a step makes of each has a feed for each.
  ///
  /// - Parameter parts: The blocks of each episode.
  init?(_ parts: [RowBlocks]) {
    self.init(parts.flatMap { $0.prefetch?.needs ?? Array(repeating: [], count: $0.blocks.count) })
    if ends.isEmpty { return nil }
  }

  fileprivate init(_ streams: [SampleStream], _ blocks: [Range<Int>]) {
    self.init(
      blocks.map { block in
        streams.compactMap { stream in
          guard let feed = stream.source.access.feed, let rows = stream.rows else { return nil }
          // Each sample once.
          let samples = rows[block].reduce(into: [Int]()) { samples, row in
            if let row, samples.last != row.sample { samples.append(row.sample) }
          }
          return (feed, samples)
        }
      })
  }

  /// Reads the samples of a block; after the last block, the rest of the source. Blocks are fetched in order, one at a time.
  package func fetch(_ block: Int) throws {
    for (feed, samples) in needs[block] {
      try feed.fetch(samples)
      if ends[ObjectIdentifier(feed)] == block { try feed.finish() }
    }
  }

  /// Releases the samples of a block that `fetch` has read, once no worker needs them.
  package func release(_ block: Int) { for (feed, samples) in needs[block] { feed.release(samples) } }
}
