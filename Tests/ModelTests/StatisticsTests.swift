import Model
import Simulate
import Testing

@Suite struct StatisticsTests {
  @Test func mergesAsIfAllHadBeenAddedAtOnce() {
    var generator = SplitMix(seed: 4)
    let values = (0..<1000).map { _ in Double.random(in: -50...100, using: &generator) }
    var whole = Moments(), left = Moments(), right = Moments()
    for (index, value) in values.enumerated() {
      whole.add(value)
      if index < 300 { left.add(value) } else { right.add(value) }
    }
    left.merge(right)
    let mean = values.reduce(0, +) / 1000
    let variance = values.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / 1000
    for moments in [whole, left] {
      #expect(moments.count == 1000)
      #expect(abs(moments.mean - mean) < 1e-10)
      #expect(abs(moments.standardDeviation - variance.squareRoot()) < 1e-10)
      #expect(moments.min == values.min())
      #expect(moments.max == values.max())
    }
  }

  @Test func quantilesOfWholeNumbersAreExact() {
    var histogram = Histogram(.integers)
    for value in [3, 3, 7, 10, 200] { histogram.add(bucket: Int64(value), count: 1) }
    #expect(histogram.quantile(0) == 3)
    #expect(histogram.quantile(0.5) == 7)
    #expect(histogram.quantile(0.625) == 8.5)
    #expect(histogram.quantile(1) == 200)
  }

  @Test func quantilesOfFloatsAreWithinTheirBucket() {
    var generator = SplitMix(seed: 5)
    let values = (0..<5000).map { _ in Float.random(in: -3...9, using: &generator) }.sorted()
    var histogram = Histogram(.floats)
    for value in values { histogram.add(value) }
    for q in [0.01, 0.25, 0.5, 0.99] {
      let position = Double(values.count - 1) * q
      let low = Double(values[Int(position)]), high = Double(values[Int(position.rounded(.up))])
      let exact = low + (high - low) * (position - position.rounded(.down))
      #expect(abs(histogram.quantile(q) - exact) <= max(abs(low), abs(high)) * 0x1p-11)
    }
  }

  @Test func bucketsKeepTheOrderOfFloats() {
    let values: [Float] = [-1e30, -2.5, -1, -1e-20, 0, 1e-20, 1, 1.001, 2.5, 1e30]
    let buckets = values.map(Histogram.bucket)
    #expect(buckets == buckets.sorted())
    #expect(Set(buckets).count == values.count)
  }

  @Test func quantilesOfFewKnownValuesAreExact() {
    // What numpy.quantile([1, 2, 4, 8], [0.01, 0.25, 0.5, 0.99]) prints.
    let parts: [[Float]] = [[8, 1], [4, 2]]
    var all = Statistics(channels: 1, .floats)
    for (index, part) in parts.enumerated() {
      var statistics = Statistics(channels: 1, .floats)
      for value in part { statistics.add(value, channel: 0) }
      statistics.values = [part]
      if index == 0 { all = statistics } else { all.merge(statistics) }
    }
    #expect([0.01, 0.25, 0.5, 0.99].map { all.quantile($0)[0] } == [1.03, 1.75, 3.0, 7.879999999999999])
    // Beyond some thousands, or where one part is not known, the histogram counts.
    var many = Statistics(channels: 1, .floats)
    many.values = [Array(repeating: 1, count: Statistics.few)]
    all.merge(many)
    #expect(all.values == nil)
  }
}
