import Model
import Simulate
import Testing
import TestSupport

@testable import Rasters

@Suite struct DepthResamplerTests {
  private static let methods: [DepthResampling.Method] = [.nearest, .area, .bilinear, .edgeAware]

  /// Grids to resample from and to: smaller, larger, the same, and both at once.
  private static let sizes: [(ImageSize, ImageSize)] = [
    ((8, 6), (4, 3)), ((8, 6), (16, 12)), ((8, 6), (8, 6)), ((9, 7), (5, 11)), ((4, 3), (13, 10)), ((16, 12), (3, 2)), ((5, 4), (1, 1)),
    ((1, 1), (3, 2)), ((7, 5), (7, 3)),
  ].map { (ImageSize(width: $0.0.0, height: $0.0.1), ImageSize(width: $0.1.0, height: $0.1.1)) }

  @Test(arguments: methods, sizes.indices) func agreesWithTheReference(method: DepthResampling.Method, index: Int) throws {
    for (source, target) in [(ScalarType.float32, ScalarType.float32), (.uint16, .uint16), (.float32, .uint16), (.uint16, .float32)] {
      var resampling = DepthResampling(from: Self.sizes[index].0, to: Self.sizes[index].1)
      (resampling.method, resampling.source, resampling.target, resampling.edge) = (method, source, target, 0.3)
      for seed in 0..<4 { try check(resampling, seed: UInt64(seed)) }
      (resampling.minConfidence, resampling.maxRange) = (1, 2.5)
      for seed in 4..<8 { try check(resampling, seed: UInt64(seed)) }
    }
  }

  /// New grids that begin within a pixel or reach beyond the old grid.
  @Test(
    arguments: methods,
    [
      Affine(xx: 0.5, yy: 0.75, x0: 1.25, y0: 0.3), Affine(xx: 1, yy: 1, x0: -1.5, y0: 2), Affine(xx: 2.3, yy: 1.9, x0: -2, y0: -3.1),
      Affine(xx: -1, yy: -1, x0: 8, y0: 6), Affine(xx: 1 / 3, yy: 1 / 3, x0: 2, y0: 1),
    ])
  func agreesWithTheReferenceOnOtherGrids(method: DepthResampling.Method, map: Affine) throws {
    var resampling = DepthResampling(from: ImageSize(width: 8, height: 6), to: ImageSize(width: 7, height: 5), oldFromNew: map)
    (resampling.method, resampling.edge) = (method, 0.3)
    for seed in 0..<6 { try check(resampling, seed: UInt64(seed)) }
  }

  @Test func followsARotatedGridByNearestPixel() throws {
    // A new grid that is the old one after a rotation to the right: its rows are the old columns, from the bottom.
    let old = ImageSize(width: 3, height: 2)
    let oldFromNew = RasterMap.rotate(.right).newFromOld(old).inverse
    let resampling = DepthResampling(from: old, to: old.transposed, oldFromNew: oldFromNew)
    #expect(resampling.isTransposed && resampling.isPossible && !resampling.keepsGrid)
    let resampled = try resample(floats([1, 2, 3, 4, 5, 6]), [1, 2, 0, 1, 2, 0], resampling)
    #expect(resampled.depth == floats([4, 1, 5, 2, 6, 3]))
    #expect(resampled.confidence == [1, 1, 2, 2, 0, 0])
    #expect(resampled.error.valid == 6 && resampled.error.compared == 6 && resampled.error.sum == 0)
  }

  @Test func whatIsNotParallelIsNotPossible() {
    let size = ImageSize(width: 2, height: 2)
    for map in [Affine(xx: 1, xy: 0.1, yy: 1), Affine(xx: 0, yy: 1), Affine(xx: .nan, yy: 1), Affine(xx: 1, yy: 1, x0: .infinity)] {
      #expect(!DepthResampling(from: size, to: size, oldFromNew: map).isPossible)
    }
  }

  @Test(arguments: methods) func theSameGridIsTheIdentity(method: DepthResampling.Method) throws {
    let size = ImageSize(width: 6, height: 5)
    var resampling = DepthResampling(from: size, to: size)
    resampling.method = method
    #expect(resampling.keepsGrid && resampling.keepsDepth)
    let map = DepthMap(size, .float32, seed: 1)
    #expect(try resample(map.bytes, map.confidence, resampling).depth == floats(map.values.map { Float($0) }))
    // Rounding of the maps between grids does not make it another one.
    let almost = Affine(xx: 1 + 1e-13, yy: 1, x0: -1e-12)
    #expect(DepthResampling(from: size, to: size, oldFromNew: almost).keepsGrid)
  }

  @Test(arguments: methods, [ScalarType.float32, .uint16])
  func noOutputDependsOnAnInvalidPixel(method: DepthResampling.Method, type: ScalarType) throws {
    for (seed, sizes) in Self.sizes.enumerated() {
      var resampling = DepthResampling(from: sizes.0, to: sizes.1)
      (resampling.method, resampling.source, resampling.target, resampling.edge) = (method, type, type, 0.3)
      (resampling.minConfidence, resampling.maxRange) = (1, 2.5)
      var map = DepthMap(sizes.0, type, seed: UInt64(seed))
      let before = try resample(map.bytes, map.confidence, resampling)
      let invalid = map.values.indices.filter { !map.isValid($0, resampling) }
      let replacements: [Double] = type == .float32 ? [.nan, -.infinity, .infinity, -1, 0, 2.6] : [0, 2501, 65535]
      for (number, index) in invalid.enumerated() {
        // Where the confidence is too low, any depth is invalid.
        map.values[index] = map.confidence[index] == 0 ? 1.2345 : replacements[number % replacements.count]
      }
      #expect(try resample(map.bytes, map.confidence, resampling) == before)
    }
  }

  @Test(arguments: [ScalarType.float32, .uint16]) func areaConservesAConstantMap(type: ScalarType) throws {
    for (old, new) in Self.sizes {
      var resampling = DepthResampling(from: old, to: new)
      (resampling.method, resampling.source, resampling.target) = (.area, type, type)
      let value = type == .float32 ? 1.2345678 : 1234
      let map = DepthMap(old, type, values: Array(repeating: value, count: old.width * old.height))
      let expected = DepthMap(new, type, values: Array(repeating: value, count: new.width * new.height))
      #expect(try resample(map.bytes, map.confidence, resampling).depth == expected.bytes)
    }
  }

  @Test func areaNeedsHalfOfThePixelToBeValid() throws {
    var resampling = DepthResampling(from: ImageSize(width: 4, height: 2), to: ImageSize(width: 2, height: 1))
    resampling.method = .area
    // Two of four are valid on the left, one of four on the right.
    let resampled = try resample(floats([1, 0, 0, 0, 2, 0, 7, 0]), [2, 0, 2, 2, 1, 2, 2, 2], resampling)
    #expect(resampled.depth == floats([1.5, 0]))
    #expect(resampled.confidence == [1, 0])
    // A pixel whose larger part is outside the old grid is invalid.
    var outside = DepthResampling(
      from: ImageSize(width: 2, height: 1), to: ImageSize(width: 2, height: 1), oldFromNew: Affine(xx: 1, yy: 1, x0: 1.25))
    outside.method = .area
    #expect(try resample(floats([1, 2]), [1, 1], outside).depth == floats([2, 0]))
  }

  @Test func bilinearIsInvalidWhereTheNearestPixelIs() throws {
    var resampling = DepthResampling(from: ImageSize(width: 2, height: 1), to: ImageSize(width: 4, height: 1))
    resampling.method = .bilinear
    let resampled = try resample(floats([1, 3]), [2, 1], resampling)
    #expect(resampled.depth == floats([1, 1.5, 2.5, 3]))
    #expect(resampled.confidence == [2, 1, 1, 1])
    let hole = try resample(floats([1, 0]), [2, 1], resampling)
    #expect(hole.depth == floats([1, 1, 0, 0]))
    #expect(hole.confidence == [2, 2, 0, 0])
  }

  @Test func edgeAwareNeverMixesAcrossAStep() throws {
    let (old, new) = (ImageSize(width: 6, height: 4), ImageSize(width: 17, height: 9))
    var resampling = DepthResampling(from: old, to: new)
    (resampling.method, resampling.edge) = (.edgeAware, 0.05)
    let near = (0..<24).map { $0 % 6 + $0 / 6 < 5 }
    let map = DepthMap(old, .float32, values: near.map { $0 ? 1 : 2 })
    let resampled = try resample(map.bytes, near.map { $0 ? 2 : 1 }, resampling)
    let values = numbers(resampled.depth, .float32)
    #expect(values.allSatisfy { $0 == 1 || $0 == 2 } && values.contains(1) && values.contains(2))
    #expect(resampled.confidence == values.map { $0 == 1 ? 2 : 1 })
    // A difference of exactly the limit is interpolated: half of 2, but not half of 1.
    resampling.edge = 0.5
    let mixed = numbers(try resample(map.bytes, map.confidence, resampling).depth, .float32)
    #expect(mixed.contains { $0 > 1 && $0 < 2 })
    #expect(zip(mixed, values).allSatisfy { $1 == 2 || $0 == 1 })
  }

  @Test func leavesOutWhatIsUnreliableOrFar() throws {
    let size = ImageSize(width: 4, height: 1)
    var resampling = DepthResampling(from: size, to: size)
    resampling.maxRange = 2
    #expect(try resample(floats([1, 2, 2.1, 3]), [0, 1, 2, 1], resampling).depth == floats([1, 2, 0, 0]))
    resampling.minConfidence = 1
    let resampled = try resample(floats([1, 2, 2.1, 1.5]), [0, 1, 2, 1], resampling)
    #expect(resampled.depth == floats([0, 2, 0, 1.5]))
    var depth: [UInt8] = [9]
    try DepthResampler(resampling).resample(depth: floats([1, 2, 1, 2]), confidence: nil, into: &depth)
    #expect(depth == floats([0, 0, 0, 0]))
  }

  /// The range limit in meters applies to whole millimeters as it does to their quotients.
  @Test func aRangeInMetersIsExactForMillimeters() {
    let size = ImageSize(width: 1, height: 1)
    for millimeters in 1...65535 {
      var resampling = DepthResampling(from: size, to: size)
      (resampling.source, resampling.maxRange) = (.uint16, Double(millimeters) / 1000)
      guard resampling.limit != Double(millimeters) else { continue }
      Issue.record("\(millimeters) mm: the limit is \(resampling.limit)")
      return
    }
  }

  @Test func millimetersAreRoundedHalfUp() throws {
    let size = ImageSize(width: 7, height: 1)
    var resampling = DepthResampling(from: size, to: size)
    resampling.target = .uint16
    // 1/64 m is exactly 15.625 mm, and 1/16 m is 62.5 mm.
    let meters: [Float] = [1 / 64, 1 / 16, 3 / 16, 65.535, 65.5356, 1e30, 0.0004]
    let resampled = try resample(floats(meters), [1, 1, 1, 1, 1, 1, 1], resampling)
    #expect(numbers(resampled.depth, .uint16) == [16, 63, 188, 65535, 0, 0, 0])
    // The mean of 1 mm and 2 mm is rounded up too.
    var mean = DepthResampling(from: ImageSize(width: 2, height: 1), to: ImageSize(width: 1, height: 1))
    (mean.method, mean.source, mean.target) = (.area, .uint16, .uint16)
    #expect(try resample([1, 0, 2, 0], [1, 1], mean).depth == [2, 0])
    mean.target = .float32
    #expect(try resample([1, 0, 2, 0], [1, 1], mean).depth == floats([0.0015]))
  }

  @Test func withoutDepthNoConfidenceIsUsed() throws {
    var resampling = DepthResampling(from: ImageSize(width: 4, height: 2), to: ImageSize(width: 2, height: 1))
    var confidence: [UInt8] = []
    try DepthResampler(resampling).resample(confidence: [0, 1, 2, 0, 1, 2, 0, 1], depth: nil, into: &confidence)
    #expect(confidence == [2, 1])
    resampling.method = .area
    try DepthResampler(resampling).resample(confidence: [2, 2, 2, 2, 2, 2, 2, 2], depth: nil, into: &confidence)
    #expect(confidence == [0, 0])
  }

  @Test func samplesOfTheWrongSizeAreRefused() {
    let resampler = DepthResampler(DepthResampling(from: ImageSize(width: 2, height: 2), to: ImageSize(width: 1, height: 1)))
    var output: [UInt8] = []
    #expect(throws: TakeFailure.self) { try resampler.resample(depth: floats([1, 2, 3]), confidence: nil, into: &output) }
    #expect(throws: TakeFailure.self) {
      try resampler.resample(depth: floats([1, 2, 3, 4]), confidence: [1, 2, 3], into: &output)
    }
    #expect(throws: TakeFailure.self) { try resampler.resample(confidence: [1], depth: nil, into: &output) }
  }

  @Test func oneResamplerServesManyMaps() throws {
    for method in Self.methods {
      var resampling = DepthResampling(from: ImageSize(width: 9, height: 7), to: ImageSize(width: 6, height: 8))
      resampling.method = method
      let resampler = DepthResampler(resampling)
      var (depth, confidence): ([UInt8], [UInt8]) = ([], [])
      for seed: UInt64 in [1, 2, 1, 3] {
        let map = DepthMap(resampling.old, .float32, seed: seed)
        let fresh = try resample(map.bytes, map.confidence, resampling)
        try resampler.resample(depth: map.bytes, confidence: map.confidence, into: &depth)
        try resampler.resample(confidence: map.confidence, depth: map.bytes, into: &confidence)
        #expect(depth == fresh.depth && confidence == fresh.confidence)
      }
    }
  }

  @Test func measuresTheErrorAtThePixelsUnderOldCenters() throws {
    var resampling = DepthResampling(from: ImageSize(width: 4, height: 1), to: ImageSize(width: 2, height: 1))
    resampling.method = .area
    let error = try resample(floats([1, 2, 4, 0]), [2, 2, 2, 2], resampling).error
    #expect(error == DepthResamplingError(sum: 1, largest: 0.5, valid: 3, compared: 3))
    // The hole's half is not half enough now.
    var small = DepthResampling(from: ImageSize(width: 3, height: 1), to: ImageSize(width: 1, height: 1))
    small.method = .area
    #expect(try resample(floats([1, 0, 0]), [2, 2, 2], small).error == DepthResamplingError(valid: 1, compared: 0))
    // A grid that leaves half of the old one out.
    let part = DepthResampling(from: ImageSize(width: 4, height: 1), to: ImageSize(width: 2, height: 1), oldFromNew: .identity)
    #expect(try resample(floats([1, 2, 4, 8]), [2, 2, 2, 2], part).error == DepthResamplingError(valid: 4, compared: 2))
    // What is left out on purpose is not lost.
    var limited = DepthResampling(from: ImageSize(width: 4, height: 1), to: ImageSize(width: 4, height: 1))
    (limited.target, limited.maxRange) = (.uint16, 3)
    let rounded = try resample(floats([1, 0.0625, 4, 8]), [2, 2, 2, 2], limited).error
    #expect(rounded.valid == 2 && rounded.compared == 2 && abs(rounded.largest - 0.0005) < 1e-12 && rounded.sum == rounded.largest)
  }

  @Test func totalsDoNotDependOnTheOrderOrTheNumberOfReads() {
    let errors = (0..<50).map { DepthResamplingError(sum: 1 / Double($0 + 3), largest: Double($0), valid: $0 + 2, compared: $0) }
    let forward = DepthResamplingErrors(count: 60), backward = DepthResamplingErrors(count: 60)
    for sample in 0..<50 { forward.add(errors[sample], sample: sample) }
    for sample in (0..<50).reversed() { backward.add(errors[sample], sample: sample) }
    // The first measure of a sample counts.
    backward.add(DepthResamplingError(sum: 100, largest: 100, valid: 1, compared: 1), sample: 7)
    let (a, b) = (forward.total { $0 != 3 }, backward.total { $0 != 3 })
    #expect(a.maps == 49 && b.maps == 49 && a.error == b.error)
    #expect(forward.has(0) && !forward.has(59) && !DepthResamplingErrors(count: 1).has(0))
  }

  // MARK: Comparison with the reference

  private func check(_ resampling: DepthResampling, seed: UInt64) throws {
    let map = DepthMap(resampling.old, resampling.source, seed: seed)
    let resampled = try resample(map.bytes, map.confidence, resampling)
    let depth = numbers(resampled.depth, resampling.target)
    let outputScale = resampling.target == .uint16 ? 1000.0 : 1
    let reference = DepthReference(map, resampling)
    for row in 0..<resampling.new.height {
      for column in 0..<resampling.new.width {
        let index = row * resampling.new.width + column
        let expected = reference.pixel(column, row)
        let meters = expected.depth / resampling.sourceScale
        let tolerance = resampling.target == .uint16 ? 0.5 + 1e-6 : meters * 1e-6
        let place = "\(resampling.method) \(resampling.old) to \(resampling.new), seed \(seed), pixel \(column), \(row)"
        #expect(abs(depth[index] - meters * outputScale) <= tolerance, "depth of \(place)")
        // Nothing here is below half a millimeter.
        #expect((depth[index] > 0) == (expected.depth > 0), "validity of \(place)")
        #expect(resampled.confidence[index] == expected.confidence, "confidence of \(place)")
      }
    }
  }

  private struct Resampled: Equatable {
    var depth, confidence: [UInt8]
    var error: DepthResamplingError
  }

  private func resample(_ depth: [UInt8], _ confidence: [UInt8], _ resampling: DepthResampling) throws -> Resampled {
    let resampler = DepthResampler(resampling)
    var resampled = Resampled(depth: [], confidence: [], error: DepthResamplingError())
    try resampler.resample(depth: depth, confidence: confidence, into: &resampled.depth)
    try resampler.resample(confidence: confidence, depth: depth, into: &resampled.confidence)
    resampled.error = resampler.error(of: resampled.depth, from: depth, confidence: confidence)
    return resampled
  }
}

/// Values of a depth map as numbers of its own unit.
private func numbers(_ bytes: [UInt8], _ type: ScalarType) -> [Double] {
  bytes.withUnsafeBytes {
    type == .uint16 ? $0.bindMemory(to: UInt16.self).map { Double($0) } : $0.bindMemory(to: Float.self).map { Double($0) }
  }
}

/// A depth map with holes, in meters or millimeters, and its confidence.
private struct DepthMap {
  let size: ImageSize
  let type: ScalarType
  var values: [Double]
  var confidence: [UInt8]

  init(_ size: ImageSize, _ type: ScalarType, values: [Double]) {
    (self.size, self.type, self.values) = (size, type, values)
    confidence = Array(repeating: 2, count: values.count)
  }

  /// A random map: a third of the pixels are holes, the others are in one of two planes.
  init(_ size: ImageSize, _ type: ScalarType, seed: UInt64) {
    var random = SplitMix(seed: seed &* 1000 &+ UInt64(size.width))
    let values = (0..<(size.width * size.height)).map { _ -> Double in
      let isHole = Int.random(in: 0..<3, using: &random) == 0
      let plane = Bool.random(using: &random) ? 1.0 : 2.2
      let meters = isHole ? 0 : plane + Double.random(in: 0..<0.5, using: &random)
      return type == .uint16 ? (meters * 1000).rounded() : Double(Float(meters))
    }
    self.init(size, type, values: values)
    confidence = values.map { _ in UInt8.random(in: 0...2, using: &random) }
  }

  var bytes: [UInt8] {
    type == .uint16 ? values.map { UInt16($0) }.withUnsafeBytes { Array($0) } : floats(values.map { Float($0) })
  }

  func isValid(_ index: Int, _ resampling: DepthResampling) -> Bool {
    let meters = type == .uint16 ? values[index] / 1000 : values[index]
    return meters.isFinite && meters > 0 && meters <= resampling.maxRange ?? .infinity
      && confidence[index] >= resampling.minConfidence ?? 0
  }
}

/// The meaning of the methods, pixel by pixel, over all old pixels.
private struct DepthReference {
  let map: DepthMap
  let resampling: DepthResampling
  private let toOld: (Double, Double) -> (x: Double, y: Double)

  init(_ map: DepthMap, _ resampling: DepthResampling) {
    (self.map, self.resampling) = (map, resampling)
    let (columns, rows) = (resampling.columns, resampling.rows)
    toOld = { (columns.scale * $0 + columns.offset, rows.scale * $1 + rows.offset) }
  }

  func pixel(_ column: Int, _ row: Int) -> (depth: Double, confidence: UInt8) {
    let center = toOld(Double(column) + 0.5, Double(row) + 0.5)
    let (x, y) = (Int((center.x + 1e-9).rounded(.down)), Int((center.y + 1e-9).rounded(.down)))
    let isInside = (0..<map.size.width).contains(x) && (0..<map.size.height).contains(y)
    let nearest = isInside ? y * map.size.width + x : nil
    if resampling.method == .nearest || resampling.keepsGrid {
      guard let nearest else { return (0, 0) }
      return (map.isValid(nearest, resampling) ? map.values[nearest] : 0, map.confidence[nearest])
    }
    if resampling.method != .area, nearest.map({ map.isValid($0, resampling) }) != true { return (0, 0) }
    let corners = (toOld(Double(column), Double(row)), toOld(Double(column + 1), Double(row + 1)))
    var (sum, valid, confidence) = (0.0, 0.0, UInt8.max)
    for old in map.values.indices where map.isValid(old, resampling) {
      let (left, top) = (Double(old % map.size.width), Double(old / map.size.width))
      var weight: Double
      if resampling.method == .area {
        func overlap(_ a: Double, _ b: Double, _ start: Double) -> Double { max(0, min(max(a, b), start + 1) - max(min(a, b), start)) }
        weight = overlap(corners.0.x, corners.1.x, left) * overlap(corners.0.y, corners.1.y, top)
      } else {
        weight = max(0, 1 - abs(left + 0.5 - center.x)) * max(0, 1 - abs(top + 0.5 - center.y))
      }
      if resampling.method == .edgeAware, let nearest,
        abs(map.values[old] - map.values[nearest]) > resampling.edge * map.values[nearest]
      {
        weight = 0
      }
      // Less is rounding.
      guard weight > 1e-9 else { continue }
      sum += weight * map.values[old]
      valid += weight
      confidence = min(confidence, map.confidence[old])
    }
    let whole = abs((corners.1.x - corners.0.x) * (corners.1.y - corners.0.y))
    if valid == 0 || resampling.method == .area && 2 * valid < whole - 1e-9 { return (0, 0) }
    return (sum / valid, confidence)
  }
}
