import Testing

@testable import TakesetRecorder

/// What an adapter of a camera or an encoder asks the library.
@Suite struct EncodedFramesTests {
  @Test func segmentsHaveTheInitializationOnceAndTheFramesUpToTheirEnd() {
    var segments = SegmentAssembly()
    segments.initialize([1, 2])
    for number in 0..<30 { segments.add(Double(number) / 30) }
    // The end is rounded to ticks of 1/600 s: it may be a little before or after the next frame.
    let first = segments.segment([3], until: 0.4997)
    #expect(first?.bytes == [1, 2, 3] && first?.frames == 15)
    let second = segments.segment([4], until: 1.0003)
    #expect(second?.bytes == [4] && second?.frames == 30 && !segments.isBroken)
  }

  @Test func afterASegmentWithoutAnEndThereIsNone() {
    var segments = SegmentAssembly()
    segments.add(0)
    #expect(segments.segment([1], until: nil) == nil && segments.isBroken)
    #expect(segments.segment([2], until: 0.5) == nil)
  }

  @Test(arguments: [(4, [1, 2, 3, 4, 5, 6, 7, 8]), (3, [1, 2, 3, 5, 6, 7]), (0, []), (5, nil)])
  func rowsComeWithoutTheirPadding(_ row: Int, _ expected: [UInt8]?) {
    let map: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
    map.withUnsafeBytes { map in
      CameraFrame.withoutPadding(map, row: row, stride: 4, count: 2) { #expect($0.map { Array($0) } == expected) }
      // Memory that is too short for its rows is not read.
      CameraFrame.withoutPadding(map, row: row, stride: 4, count: 3) { #expect($0 == nil) }
    }
  }
}
