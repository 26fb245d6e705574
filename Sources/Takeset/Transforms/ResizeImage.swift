import Media

/// Makes pictures smaller, averaging over what each new pixel covers, and scales their intrinsics along.
///
///     - resize-image: {width: 320, height: 240}
///
/// `mode: fit` keeps the shape of the picture and never enlarges; `stretch` makes exactly this size. JPEGs that shrink
/// to half or less are first decoded to 1/2, 1/4 or 1/8 by libjpeg-turbo's smaller inverse DCT.
package struct ResizeImage: Transform {
  package static let name = "resize-image"
  package static let summary = "Resizes pictures with antialiasing; intrinsics follow"
  package static let help = [
    "width": "pixels", "height": "pixels",
    "mode": "fit: the largest picture of the same shape within width x height, never enlarged; stretch: exactly width x height",
    "when-larger-than": "pixels; pictures with neither side longer than this are left as they are",
  ]

  package enum Mode: String, Codable, Sendable { case fit, stretch }

  var width = 320
  var height = 240
  var mode = Mode.fit
  var whenLargerThan = 0

  package init() {}

  package func validate() throws {
    if !(1...8192).contains(width) { throw OptionError("width", "expected 1 to 8192, found \(width)") }
    if !(1...8192).contains(height) { throw OptionError("height", "expected 1 to 8192, found \(height)") }
    if whenLargerThan < 0 { throw OptionError("when-larger-than", "expected 0 or more, found \(whenLargerThan)") }
  }

  package func apply(to episode: Episode) throws -> Episode {
    var resized = episode
    for (name, stream) in episode.streams where stream.spec.kind == .image {
      let full = Pixels(width: stream.spec.shape[1], height: stream.spec.shape[0])
      let box = Pixels(width: width, height: height)
      let target = mode == .fit ? full.fitted(within: box) : box
      guard max(full.width, full.height) > whenLargerThan, target != full else { continue }
      var (source, decoded) = (stream.source, full)
      if let reducible = source as? any ReducibleImageSource {
        (source, decoded) = reducible.reduced(covering: target)
      }
      var smaller = stream
      smaller.source = decoded == target ? source : ResizedImages(base: source, from: decoded, to: target)
      smaller.spec.shape = [target.height, target.width, 3]
      smaller.spec.intrinsics = stream.spec.intrinsics?.scaled(
        x: Double(target.width) / Double(full.width), y: Double(target.height) / Double(full.height))
      resized.streams[name] = smaller
    }
    return resized
  }
}

/// Pictures of another source, resized.
struct ResizedImages: SampleSource {
  let base: any SampleSource
  let from: Pixels
  let to: Pixels

  func makeCursor() throws -> any SampleCursor {
    Cursor(base: try base.makeCursor(), resizer: ImageResizer(from: from, to: to))
  }

  func probe(_ index: Int) throws { try base.probe(index) }

  var feed: (any SampleFeed)? { base.feed }
  var runs: [Int]? { base.runs }
  var unfed: any SampleSource { ResizedImages(base: base.unfed, from: from, to: to) }

  private struct Cursor: SampleCursor {
    var base: any SampleCursor
    let resizer: ImageResizer
    var full: [UInt8] = []

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try base.read(index, into: &full)
      resizer.resize(full, into: &bytes)
    }
  }
}
