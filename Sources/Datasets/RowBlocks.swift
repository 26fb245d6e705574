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
  private struct Feed: Sendable {
    var feed: any SamplePrefetcher
    /// Those that each block needs.
    var samples: [[Int]]
    /// The last block of the episodes that are read from it.
    var last: Int
  }

  private var feeds: [Feed] = []

  /// The samples of consecutive episodes of one take, block after block; `nil` where none is prefetched. Episodes that are cut from one source
  /// share its feed; what a step makes of each has a feed for each.
  ///
  /// - Parameter parts: The blocks of each episode.
  init?(_ parts: [RowBlocks]) {
    let count = parts.reduce(0) { $0 + $1.blocks.count }
    var start = 0
    for part in parts {
      for own in part.prefetch?.feeds ?? [] {
        let index = feeds.firstIndex { $0.feed === own.feed } ?? feeds.count
        if index == feeds.count { feeds.append(Feed(feed: own.feed, samples: Array(repeating: [], count: count), last: 0)) }
        feeds[index].samples.replaceSubrange(start..<(start + own.samples.count), with: own.samples)
        feeds[index].last = start + own.last
      }
      start += part.blocks.count
    }
    if feeds.isEmpty { return nil }
  }

  fileprivate init(_ streams: [SampleStream], _ blocks: [Range<Int>]) {
    feeds = streams.compactMap { stream in
      guard let feed = stream.source.access.feed, let rows = stream.rows else { return nil }
      let samples = blocks.map { block in
        // Each sample once.
        rows[block].reduce(into: [Int]()) { samples, row in
          if let row, samples.last != row.sample { samples.append(row.sample) }
        }
      }
      return Feed(feed: feed, samples: samples, last: blocks.count - 1)
    }
  }

  /// Reads the samples of a block; after the last block, the rest of the source. Blocks are fetched in order, one at a time.
  package func fetch(_ block: Int) throws {
    for feed in feeds {
      try feed.feed.fetch(feed.samples[block])
      if block == feed.last { try feed.feed.finish() }
    }
  }

  /// Releases the samples of a block that `fetch` has read, once no worker needs them.
  package func release(_ block: Int) { for feed in feeds { feed.feed.release(feed.samples[block]) } }
}
