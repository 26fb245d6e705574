import Model

/// Resamples depth maps and confidence maps of one stream, with the tables and the memory for one thread.
///
/// `area` and `bilinear` are separable: each old row is first reduced to the new columns, then rows are summed.
final class DepthResampler {
  let resampling: DepthResampling
  private let old, new: ImageSize
  private let limit: Double
  private let minimum: UInt8

  // The old pixel that the center of a new one is in has number `fromRow + fromColumn`, and the new pixel that the center of an old one is
  // in `toRow + toColumn`; a negative number is outside.
  private let fromColumn, fromRow, toColumn, toRow: Memory<Int>
  private let columns, rows: Taps
  private let enough: Double

  /// Valid depth of one old row, 0 elsewhere.
  private let line: Memory<Double>
  /// The last two old rows that were reduced, by the last bit of their number.
  private let reduced: [ReducedRow]
  // One new row.
  private let values, weights: Memory<Double>
  private let least: Memory<UInt8>

  private static let outside = -1 << 40

  init(_ resampling: DepthResampling) {
    self.resampling = resampling
    (old, new, limit) = (resampling.old, resampling.new, resampling.limit)
    minimum = resampling.minConfidence ?? 0
    func numbers(_ pixels: [Int], step: Int) -> Memory<Int> { Memory(pixels.map { $0 < 0 ? Self.outside : $0 * step }) }
    let (across, down) = (resampling.columns, resampling.rows)
    let (x, y) = (numbers(across.nearest, step: 1), numbers(down.nearest, step: old.width))
    let isTransposed = resampling.isTransposed
    (fromColumn, fromRow) = isTransposed ? (y, x) : (x, y)
    toColumn = numbers(across.inverse.nearest, step: isTransposed ? new.width : 1)
    toRow = numbers(down.inverse.nearest, step: isTransposed ? 1 : new.width)
    columns = Taps(resampling.method == .area ? across.overlaps : across.neighbors)
    rows = Taps(resampling.method == .area ? down.overlaps : down.neighbors)
    // Half of the overlap, but for rounding.
    enough = columns.total * rows.total / 2 * (1 - 1e-9)
    line = Memory(count: old.width, of: 0)
    reduced = [ReducedRow(old.width, new.width), ReducedRow(old.width, new.width)]
    (values, weights) = (Memory(count: new.width, of: 0), Memory(count: new.width, of: 0))
    least = Memory(count: new.width, of: 0)
  }

  /// Resamples a depth map.
  ///
  /// - Parameter confidence: The map's confidence, which is only used where the resampling has a least confidence.
  func resample(depth: [UInt8], confidence: [UInt8]?, into output: inout [UInt8]) throws {
    try checkDepth(depth)
    if let confidence { try checkConfidence(confidence) }
    output.resize(to: new.width * new.height * resampling.target.size)
    depth.withUnsafeBytes { depth in
      output.withUnsafeMutableBytes { output in
        guard let depth = depth.baseAddress, let output = output.baseAddress else { return }
        Self.withBytes(confidence) { confidence in resample(depth, confidence, toDepth: output, toConfidence: nil) }
      }
    }
  }

  /// Resamples a confidence map: each new confidence is the least of those whose depth values are used, and 0 where none is.
  ///
  /// - Parameter depth: The depth map, which `nearest` does not use; without it, the other methods use no value.
  func resample(confidence: [UInt8], depth: [UInt8]?, into output: inout [UInt8]) throws {
    try checkConfidence(confidence)
    if let depth { try checkDepth(depth) }
    output.resize(to: new.width * new.height)
    confidence.withUnsafeBufferPointer { confidence in
      output.withUnsafeMutableBufferPointer { output in
        guard let confidence = confidence.baseAddress, let output = output.baseAddress else { return }
        if !resampling.confidenceNeedsDepth {
          takeNearest(confidence, into: output)
        } else if let depth {
          depth.withUnsafeBytes { if let depth = $0.baseAddress { resample(depth, confidence, toDepth: nil, toConfidence: output) } }
        } else {
          output.update(repeating: 0, count: new.width * new.height)
        }
      }
    }
  }

  private func checkDepth(_ depth: [UInt8]) throws {
    let expected = old.width * old.height * resampling.source.size
    guard depth.count == expected else { throw TakeFailure(.sampleSize, "a depth map has \(depth.count) bytes, expected \(expected)") }
  }

  private func checkConfidence(_ confidence: [UInt8]) throws {
    let expected = old.width * old.height
    guard confidence.count == expected else {
      throw TakeFailure(.sampleSize, "a confidence map has \(confidence.count) bytes, expected \(expected)")
    }
  }

  private static func withBytes(_ bytes: [UInt8]?, _ body: (UnsafePointer<UInt8>?) -> Void) {
    guard let bytes else { return body(nil) }
    bytes.withUnsafeBufferPointer { body($0.baseAddress) }
  }

  // MARK: Rows

  private func resample(
    _ depth: UnsafeRawPointer, _ confidence: UnsafePointer<UInt8>?, toDepth: UnsafeMutableRawPointer?,
    toConfidence: UnsafeMutablePointer<UInt8>?
  ) {
    let isUnknown = resampling.minConfidence != nil && confidence == nil
    for row in reduced { row.number = -1 }
    for row in 0..<new.height {
      let target = toDepth.map { $0 + row * new.width * resampling.target.size }
      if isUnknown {
        values.start.update(repeating: 0, count: new.width)
        least.start.update(repeating: 0, count: new.width)
      } else if resampling.keepsGrid {
        load(row, depth, confidence, into: values.start)
      } else {
        switch resampling.method {
        case .nearest:
          if row > 0, fromRow.start[row] == fromRow.start[row - 1], let target {
            let bytes = new.width * resampling.target.size
            target.copyMemory(from: target - bytes, byteCount: bytes)
            continue
          }
          takeNearest(row, depth, confidence)
        case .area, .bilinear: blend(row, depth, confidence, needsConfidence: toConfidence != nil)
        case .edgeAware: blendWithinEdges(row, depth, confidence, needsConfidence: toConfidence != nil)
        }
      }
      if let target { store(into: target) }
      if let toConfidence { (toConfidence + row * new.width).update(from: least.start, count: new.width) }
    }
  }

  private func load(
    _ row: Int, _ depth: UnsafeRawPointer, _ confidence: UnsafePointer<UInt8>?, into line: UnsafeMutablePointer<Double>
  ) {
    let (width, limit) = (old.width, limit)
    func load<Number>(_ numbers: UnsafePointer<Number>, _ value: (Number) -> Double) {
      for x in 0..<width {
        let value = value(numbers[x])
        line[x] = value > 0 && value <= limit ? value : 0
      }
    }
    if resampling.source == .uint16 {
      load(depth.assumingMemoryBound(to: UInt16.self) + row * width) { Double($0) }
    } else {
      load(depth.assumingMemoryBound(to: Float.self) + row * width) { Double($0) }
    }
    guard minimum > 0, let confidence else { return }
    let levels = confidence + row * width
    for x in 0..<width where levels[x] < minimum { line[x] = 0 }
  }

  private func takeNearest(_ row: Int, _ depth: UnsafeRawPointer, _ confidence: UnsafePointer<UInt8>?) {
    let (from, columns, values, limit, minimum) = (fromRow.start[row], fromColumn.start, values.start, limit, minimum)
    func take<Number>(_ numbers: UnsafePointer<Number>, _ value: (Number) -> Double) {
      for column in 0..<new.width {
        let pixel = from + columns[column]
        guard pixel >= 0 else {
          values[column] = 0
          continue
        }
        let value = value(numbers[pixel])
        values[column] = value > 0 && value <= limit ? value : 0
        if minimum > 0, let confidence, confidence[pixel] < minimum { values[column] = 0 }
      }
    }
    if resampling.source == .uint16 {
      take(depth.assumingMemoryBound(to: UInt16.self)) { Double($0) }
    } else {
      take(depth.assumingMemoryBound(to: Float.self)) { Double($0) }
    }
  }

  private func takeNearest(_ confidence: UnsafePointer<UInt8>, into output: UnsafeMutablePointer<UInt8>) {
    let columns = fromColumn.start
    for row in 0..<new.height {
      let (from, target) = (fromRow.start[row], output + row * new.width)
      for column in 0..<new.width {
        let pixel = from + columns[column]
        target[column] = pixel < 0 ? 0 : confidence[pixel]
      }
    }
  }

  // MARK: Blending

  /// An old row, loaded and reduced to the new columns.
  private func reduce(
    _ row: Int, _ depth: UnsafeRawPointer, _ confidence: UnsafePointer<UInt8>?, needsConfidence: Bool
  ) -> ReducedRow {
    let held = reduced[row & 1]
    if held.number == row { return held }
    held.number = row
    load(row, depth, confidence, into: held.line.start)
    if resampling.method == .edgeAware { return held }
    let (line, sums, sumWeights) = (held.line.start, held.sums.start, held.weights.start)
    let (first, starts, taps) = (columns.first.start, columns.starts.start, columns.weights.start)
    for column in 0..<new.width {
      var (sum, weight, pixel) = (0.0, 0.0, first[column])
      for tap in starts[column]..<starts[column + 1] {
        let value = line[pixel]
        sum += taps[tap] * value
        weight += value > 0 ? taps[tap] : 0
        pixel += 1
      }
      (sums[column], sumWeights[column]) = (sum, weight)
    }
    guard needsConfidence, let confidence else { return held }
    let (levels, least) = (confidence + row * old.width, held.least.start)
    for column in 0..<new.width {
      var (level, pixel) = (UInt8.max, first[column])
      for _ in starts[column]..<starts[column + 1] {
        if line[pixel] > 0 { level = min(level, levels[pixel]) }
        pixel += 1
      }
      least[column] = level
    }
    return held
  }

  /// Computes a new row by `area` or `bilinear`.
  private func blend(_ row: Int, _ depth: UnsafeRawPointer, _ confidence: UnsafePointer<UInt8>?, needsConfidence: Bool) {
    let (width, values, weights, least) = (new.width, values.start, weights.start, least.start)
    values.update(repeating: 0, count: width)
    weights.update(repeating: 0, count: width)
    least.update(repeating: .max, count: width)
    for tap in rows.taps(row) {
      let source = reduce(rows.pixel(row, tap), depth, confidence, needsConfidence: needsConfidence)
      let (factor, sums, sumWeights, levels) = (rows.weights.start[tap], source.sums.start, source.weights.start, source.least.start)
      for column in 0..<width {
        values[column] += factor * sums[column]
        weights[column] += factor * sumWeights[column]
      }
      if needsConfidence { for column in 0..<width { least[column] = min(least[column], levels[column]) } }
    }
    if resampling.method == .area {
      let enough = enough
      for column in 0..<width {
        let isValid = weights[column] > 0 && weights[column] >= enough
        values[column] = isValid ? values[column] / weights[column] : 0
        least[column] = isValid ? least[column] : 0
      }
    } else {
      let line = nearestLine(row, depth, confidence, needsConfidence: needsConfidence)
      for column in 0..<width {
        let pixel = fromColumn.start[column]
        let isValid = pixel >= 0 && (line.map { $0[pixel] > 0 } ?? false)
        values[column] = isValid ? values[column] / weights[column] : 0
        least[column] = isValid ? least[column] : 0
      }
    }
  }

  /// The loaded old row that the centers of a new one are in; `nil` outside the old grid.
  private func nearestLine(
    _ row: Int, _ depth: UnsafeRawPointer, _ confidence: UnsafePointer<UInt8>?, needsConfidence: Bool
  ) -> UnsafeMutablePointer<Double>? {
    let start = fromRow.start[row]
    return start < 0 ? nil : reduce(start / old.width, depth, confidence, needsConfidence: needsConfidence).line.start
  }

  private func blendWithinEdges(
    _ row: Int, _ depth: UnsafeRawPointer, _ confidence: UnsafePointer<UInt8>?, needsConfidence: Bool
  ) {
    let (values, least) = (values.start, least.start)
    guard let center = nearestLine(row, depth, confidence, needsConfidence: needsConfidence) else {
      values.update(repeating: 0, count: new.width)
      return least.update(repeating: 0, count: new.width)
    }
    // The one or two rows; the second repeats the first with weight 0 where there is one.
    let taps = rows.taps(row)
    let numbers = (rows.pixel(row, taps.lowerBound), rows.pixel(row, taps.upperBound - 1))
    let upper = reduce(numbers.0, depth, confidence, needsConfidence: needsConfidence).line.start
    let lower = reduce(numbers.1, depth, confidence, needsConfidence: needsConfidence).line.start
    let factors = (rows.weights.start[taps.lowerBound], taps.count > 1 ? rows.weights.start[taps.upperBound - 1] : 0)
    let levels = confidence.map { ($0 + numbers.0 * old.width, $0 + numbers.1 * old.width) }
    let (first, starts, columnWeights) = (columns.first.start, columns.starts.start, columns.weights.start)
    for column in 0..<new.width {
      let nearest = fromColumn.start[column]
      let depth = nearest < 0 ? 0 : center[nearest]
      guard depth > 0 else {
        (values[column], least[column]) = (0, 0)
        continue
      }
      let tolerance = resampling.edge * depth
      var (sum, weight, level, pixel) = (0.0, 0.0, UInt8.max, first[column])
      func add(_ value: Double, _ factor: Double, _ confidence: UnsafePointer<UInt8>?) {
        guard value > 0, factor > 0, abs(value - depth) <= tolerance else { return }
        sum += factor * value
        weight += factor
        if needsConfidence, let confidence { level = min(level, confidence[pixel]) }
      }
      for tap in starts[column]..<starts[column + 1] {
        add(upper[pixel], columnWeights[tap] * factors.0, levels?.0)
        add(lower[pixel], columnWeights[tap] * factors.1, levels?.1)
        pixel += 1
      }
      (values[column], least[column]) = (sum / weight, level)
    }
  }

  // MARK: Results

  private func store(into output: UnsafeMutableRawPointer) {
    let (values, width) = (values.start, new.width)
    func store<Number>(as type: Number.Type, _ number: (Double) -> Number) {
      let output = output.assumingMemoryBound(to: type)
      for column in 0..<width { output[column] = number(values[column]) }
    }
    // Rounds half up; what does not fit is absent.
    func millimeters(_ value: Double) -> UInt16 { value + 0.5 < 65536 ? UInt16(value + 0.5) : 0 }
    switch (resampling.source, resampling.target) {
    case (.uint16, .uint16): store(as: UInt16.self) { millimeters($0) }
    case (_, .uint16): store(as: UInt16.self) { millimeters($0 * 1000) }
    case (.uint16, _): store(as: Float.self) { Float($0 / 1000) }
    default: store(as: Float.self) { Float($0) }
    }
  }

  /// Compares each valid depth value of a map with the new pixel that its center is in.
  func error(of output: [UInt8], from depth: [UInt8], confidence: [UInt8]?) -> DepthResamplingError {
    var error = DepthResamplingError()
    if resampling.minConfidence != nil, confidence == nil { return error }
    let (columns, scale, line, width) = (toColumn.start, resampling.sourceScale, line.start, old.width)
    func compare<Number>(_ row: Int, with output: UnsafePointer<Number>, _ meters: (Number) -> Double) {
      for x in 0..<width where line[x] > 0 {
        error.valid += 1
        let pixel = row + columns[x]
        let new = pixel < 0 ? 0 : meters(output[pixel])
        guard new > 0 else { continue }
        let difference = abs(new - line[x] / scale)
        error.compared += 1
        error.sum += difference
        error.largest = max(error.largest, difference)
      }
    }
    depth.withUnsafeBytes { depth in
      output.withUnsafeBytes { output in
        guard let depth = depth.baseAddress, let output = output.baseAddress else { return }
        Self.withBytes(confidence) { confidence in
          for row in 0..<old.height {
            load(row, depth, confidence, into: line)
            if resampling.target == .uint16 {
              compare(toRow.start[row], with: output.assumingMemoryBound(to: UInt16.self)) { Double($0) / 1000 }
            } else {
              compare(toRow.start[row], with: output.assumingMemoryBound(to: Float.self)) { Double($0) }
            }
          }
        }
      }
    }
    return error
  }
}

/// Memory of a resampler, allocated once.
private final class Memory<Element: BitwiseCopyable> {
  let start: UnsafeMutablePointer<Element>

  init(_ elements: [Element]) {
    start = .allocate(capacity: max(elements.count, 1))
    for (index, element) in elements.enumerated() { (start + index).initialize(to: element) }
  }

  init(count: Int, of element: Element) {
    start = .allocate(capacity: max(count, 1))
    start.initialize(repeating: element, count: max(count, 1))
  }

  deinit { start.deallocate() }
}

/// The weighted old pixels of an axis.
private struct Taps {
  let total: Double
  let first, starts: Memory<Int>
  let weights: Memory<Double>

  init(_ pixels: WeightedPixels) {
    total = pixels.total
    (first, starts, weights) = (Memory(pixels.first), Memory(pixels.starts), Memory(pixels.weights))
  }

  func taps(_ new: Int) -> Range<Int> { starts.start[new]..<starts.start[new + 1] }
  func pixel(_ new: Int, _ tap: Int) -> Int { first.start[new] + tap - starts.start[new] }
}

private final class ReducedRow {
  /// Number of the old row; -1 for none.
  var number = -1
  /// Valid depth of the old row, 0 elsewhere.
  let line: Memory<Double>
  /// Sums over the old pixels of each new column.
  let sums, weights: Memory<Double>
  /// The least confidence of the valid ones among them.
  let least: Memory<UInt8>

  init(_ old: Int, _ new: Int) {
    line = Memory(count: old, of: 0)
    (sums, weights) = (Memory(count: new, of: 0), Memory(count: new, of: 0))
    least = Memory(count: new, of: 0)
  }
}
