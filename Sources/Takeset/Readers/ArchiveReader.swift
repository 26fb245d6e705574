import Model

/// A reader whose takes may stand in a zip or tar; these are its options.
protocol ArchiveReader: Reader {
  var maxArchiveEntries: Int { get }
  var maxArchiveGibibytes: Double { get }
  var maxArchiveRatio: Double { get }
}

extension ArchiveReader {
  var archiveLimits: Archive.Limits {
    Archive.Limits(entries: maxArchiveEntries, gibibytes: maxArchiveGibibytes, ratio: maxArchiveRatio)
  }
}
