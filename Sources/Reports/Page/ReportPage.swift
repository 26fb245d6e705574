package import Datasets
package import Evidence
import Foundation
import Model
import Steps

/// A dataset as one HTML page that needs no other file and no network.
///
/// The page depends only on the dataset and the options: it names no path, host or time. Its numbers and findings are complete. Images and
/// drawings share what remains of the page's size: all takes get them, in forms that fit, or the first ones in the order of the page do.
package struct ReportPage: Sendable {
  /// Heading of the page.
  package var title = "Dataset report"
  /// Images per take.
  package var thumbnails = 6
  /// Bytes of the page; `nil` for 5 MB, or 2500 bytes per take if that is more.
  package var byteLimit: Int?
  package var threads = 1
  package var tool: ToolIdentity
  /// The check of shards that another program has written to, before they are read. `none` leaves them unread.
  package var checks = Verification.ExternalChecks.none

  /// A page about a run in progress, which reloads itself.
  package struct Live: Sendable {
    /// Seconds between reloads.
    package var interval: Double
    package init(interval: Double) { self.interval = interval }
  }

  /// The finished page.
  package struct Summary: Sendable {
    package var html: [UInt8]
    package var takes: Int
    /// Takes with drawings or images.
    package var illustrated: Int
    /// Takes whose file cannot be read, with the reason.
    package var problems: [(id: String, reason: String)]
  }

  package init(tool: ToolIdentity) { self.tool = tool }

  /// Makes the page. Throws `UsageError` if the directory is not a dataset.
  ///
  /// `live`: Whether a run is writing into the directory: then the page shows the takes that are finished. `cache`: Keeps what was read
  /// between calls.
  package func render(_ directory: String, live: Live? = nil, cache: ReportCache = ReportCache()) throws -> Summary {
    let source = try ReportedTakes(directory, checks, prefersJournal: live != nil)
    let limit = byteLimit ?? max(5_000_000, 2500 * source.takes.count)
    var summaries = read(source, cache, drawingLimit: limit)
    summaries.sort { $0.precedes($1) }
    let details = summaries.map { JSONValue.object($0.details).canonicalBytes.count }
    let frame = PageFrame(page: self, overview: PageOverview(source: source, summaries: summaries), live: live)
    let fixed = frame.html(details: []).count + details.reduce(0, +) + 80 * summaries.count
    let count = illustrate(&summaries, source, cache, within: limit - fixed)
    let notice = "Images and plots are left out, because the page is limited to \(Figures.bytes(Int64(limit))); see --max-size."
    var drawn = 0
    let blocks = summaries.enumerated().map { index, summary -> [UInt8] in
      var members = summary.details
      if index < count {
        members.merge(summary.drawings) { own, _ in own }
        members.merge(summary.images) { own, _ in own }
        if summary.contents != nil { drawn += 1 }
        if let problem = summary.stripProblem { members["omitted"] = .string("Its images cannot be shown: \(problem)") }
      } else if summary.contents != nil {
        members["omitted"] = .string(notice)
      }
      return PageFrame.scriptSafe(JSONValue.object(members).canonicalBytes)
    }
    let readable = summaries.count { $0.contents != nil }
    return Summary(
      html: frame.html(
        details: blocks,
        omission: drawn < readable
          ? "Images and plots are shown for \(drawn.grouped) of \(counted(readable, "episode")), worst first; the page is limited to \(Figures.bytes(Int64(limit)))."
          : nil),
      takes: summaries.count, illustrated: drawn,
      problems: summaries.compactMap { summary in (summary.problem ?? summary.stripProblem).map { (summary.take.id.text, $0) } })
  }

  /// The numbers of every take, in the order of the page, as JSON.
  package func table(_ directory: String) throws -> JSONValue {
    let source = try ReportedTakes(directory, checks)
    var page = self
    page.thumbnails = 0
    var summaries = page.read(source, ReportCache(), drawingLimit: 0)
    summaries.sort { $0.precedes($1) }
    return [
      "record_sha256": JSONValue(source.recordDigest), "takes": .array(summaries.map(\.rowWithMeasures)),
      "findings": .array((source.record?.findings ?? []).map(\.json)),
    ]
  }

  // MARK: Reading

  /// Episodes whose lag of images is drawn at most, because it takes the time of reading some seconds of images.
  private static let lagsDrawn = 8

  /// Reads the small arrays of every take.
  ///
  /// `drawingLimit`: Bytes of drawings after which none are made.
  private func read(_ source: ReportedTakes, _ cache: ReportCache, drawingLimit: Int) -> [TakeSummary] {
    let splits = source.splits
    let labels = source.record?.labels ?? [:]
    var summaries = source.takes.map { TakeSummary(take: $0, split: splits[$0.id.text], labels: labels[$0.id.text] ?? Labels()) }
    summaries.sort { $0.precedes($1) }
    let late = Set(summaries.filter { $0.codes.contains(.imagePoseLag) }.prefix(Self.lagsDrawn).map(\.take.id))
    var (bytes, start) = (0, 0)
    // In portions, so that which takes have drawings does not depend on the number of threads.
    while start < summaries.count {
      let range = start..<min(start + 128, summaries.count)
      let draws = bytes < drawingLimit
      let portion = inParallel(range.count, threads: threads) { [summaries] index in
        var summary = summaries[range.lowerBound + index]
        guard summary.take.outcome == .written else { return summary }
        do {
          summary.contents = try cache.contents(
            of: summary.take, in: source, draws: draws, drawsLag: draws && late.contains(summary.take.id))
          summary.take.findings += summary.contents?.findings ?? []
        } catch {
          summary.problem = Dataset.problem(error, summary.take)
        }
        return summary
      }
      summaries.replaceSubrange(range, with: portion)
      if draws { for summary in portion { bytes += JSONValue.object(summary.drawings).canonicalBytes.count } }
      start = range.upperBound
    }
    return summaries
  }

  /// Adds images to the first takes, as many as fit into these bytes with their drawings. Returns the number of takes, counted from the
  /// first, that have drawings and images.
  private func illustrate(_ summaries: inout [TakeSummary], _ source: ReportedTakes, _ cache: ReportCache, within bytes: Int) -> Int {
    // Base64 has four characters for three bytes; and a strip has names and times.
    let least = thumbnails > 0 ? ContactStrip.leastBytes * 4 / 3 + Self.stripBytes : 0
    var (count, rest, readable) = (0, bytes, 0)
    for summary in summaries {
      let cost = summary.contents == nil ? 0 : JSONValue.object(summary.drawings).canonicalBytes.count + least
      if summary.contents != nil, rest < cost || summary.contents?.timeline == nil { break }
      rest -= cost
      if summary.contents != nil { readable += 1 }
      count += 1
    }
    guard thumbnails > 0, readable > 0 else { return count }
    // Everything that is left is divided evenly.
    let quota = ((rest / readable) + least - Self.stripBytes) / 4 * 3
    let shown = inParallel(count, threads: threads) { [summaries] index in
      var summary = summaries[index]
      guard summary.contents != nil else { return summary }
      do {
        summary.strips = try cache.strips(of: summary.take, in: source, count: thumbnails, bytes: quota)
      } catch {
        summary.stripProblem = Dataset.problem(error, summary.take)
      }
      return summary
    }
    summaries.replaceSubrange(..<count, with: shown)
    return count
  }

  /// Bytes of what is written beside the images of a take: names, sizes and times, twice, and the rest of the last group of Base64.
  private static let stripBytes = 700
}

/// The contents of takes that were read, kept between the pages of a run in progress: a take is read once.
package final class ReportCache: Sendable {
  private struct Key: Hashable {
    var id: String
    var shard: String
    var drawsLag = false
  }

  private let state = NSLock()
  private nonisolated(unsafe) var contents: [Key: EpisodeContents] = [:]
  private nonisolated(unsafe) var strips: [Key: [ContactStrip]] = [:]
  private let isKept: Bool

  /// `isKept`: Whether anything is kept.
  package init(isKept: Bool = false) { self.isKept = isKept }

  func contents(of take: TakeRecord, in source: ReportedTakes, draws: Bool, drawsLag: Bool) throws -> EpisodeContents {
    var key = try key(take, source)
    key?.drawsLag = drawsLag
    if let key, let known = state.withLock({ contents[key] }), known.timeline != nil || !draws { return known }
    let read = try EpisodeContents(source.episode(take), draws: draws, drawsLag: drawsLag)
    if let key { state.withLock { contents[key] = read } }
    return read
  }

  /// The strips of a take; those known are used again as long as they fit.
  func strips(of take: TakeRecord, in source: ReportedTakes, count: Int, bytes: Int) throws -> [ContactStrip] {
    let key = try key(take, source)
    if let key, let known = state.withLock({ strips[key] }), known.reduce(0, { $0 + $1.jpeg.count }) <= bytes { return known }
    let read = try ContactStrip.strips(of: source.episode(take), count: count, bytes: bytes)
    if let key { state.withLock { strips[key] = read } }
    return read
  }

  private func key(_ take: TakeRecord, _ source: ReportedTakes) throws -> Key? {
    guard isKept, let output = take.output else { return nil }
    return Key(id: take.id.text, shard: try FileStamp.of(source.directory + "/" + output.path).description)
  }
}
