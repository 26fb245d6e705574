import Model
import Testing

@Suite struct DroppedFramesTests {
  /// Frames at 60 Hz, two of which are missing after the third, with numbers that are times.
  private let frames = Episode.Frames(
    timestamps: [0, 1, 2, 5, 6, 7, 8].map { Timestamp(nanoseconds: $0 * 16_666_667) }, sourceIndex: [0, 17, 33, 83, 100, 117, 133],
    clock: .deviceUptime)

  @Test func aStepOverNothingIsWhereTheCameraDroppedFrames() {
    #expect(frames.droppedFrames()?.count == 1)
    #expect(frames.droppedFrames(places: Array(3..<10))?.count == 1)
  }

  @Test func aStepOverAFrameThatTheReaderDroppedIsNone() {
    #expect(frames.droppedFrames(places: [0, 1, 2, 5, 6, 7, 8]) == nil)
    // Nor are the steps beside one that was dropped for its time.
    #expect(frames.droppedFrames(places: [0, 1, 2, 3, 5, 6, 7]) == nil)
  }
}
