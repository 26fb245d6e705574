import Model
import Testing

@testable import Rasters

@Suite struct EdgeAgreementTests {
  private let map = ImageSize(width: 96, height: 72), image = ImageSize(width: 192, height: 144)

  /// Images and depth maps of one camera, a row each; `depth` is how its maps lie in the camera's image.
  private func episode(rows: Int = 24, depth raster: Raster? = nil) -> Episode {
    let times = (0..<rows).map { Timestamp(nanoseconds: Int64($0) * 16_666_667) }
    func stream(_ kind: StreamKind, _ raster: Raster, _ type: ScalarType, channels: Int) -> SampleStream {
      SampleStream(
        spec: StreamSpec(raster: raster, kind: kind, type: type, channels: channels, unit: "", clock: .deviceUptime),
        source: VectorSource(width: 0, values: []),
        timestamps: times, sourceIndex: times.indices.map { Int64($0) }, rows: times.indices.rows)
    }
    var episode = Episode(
      id: "boxes", sourceFrames: rows,
      frames: Episode.Frames(timestamps: times, sourceIndex: times.indices.map { Int64($0) }, clock: .deviceUptime),
      streams: [
        .image: stream(.image, Raster(size: image, covering: image), .uint8, channels: 3),
        .depth: stream(.depth, raster ?? Raster(size: map, covering: image), .float32, channels: 1),
      ])
    episode.cameras[.phone] = Camera(size: image)
    return episode
  }

  /// Boxes before a striped wall, somewhere else in each row: the gray and the depth at a point of the image, both 0 to 1 wide and high.
  private func scene(_ row: Int) -> (gray: (Double, Double) -> UInt8, meters: (Double, Double) -> Float) {
    var state = UInt64(row + 1) &* 0x9E37_79B9_7F4A_7C15
    func random() -> Double {
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      return Double(state >> 11) * 0x1p-53
    }
    let boxes = (0..<4).map { _ in
      (x: 0.1 + 0.6 * random(), y: 0.1 + 0.6 * random(), side: 0.15 + 0.1 * random(), near: Float(0.6 + 0.4 * random()))
    }
    func box(_ x: Double, _ y: Double) -> Int? { boxes.firstIndex { (0..<$0.side).contains(x - $0.x) && (0..<$0.side).contains(y - $0.y) } }
    return (
      { x, y in box(x, y).map { UInt8(20 + 60 * $0) } ?? (Int(x * 17) % 2 == 0 ? 120 : 135) },
      // The wall is seen at a slant.
      { x, y in box(x, y).map { boxes[$0].near } ?? Float(1 / (0.3 + 0.2 * x)) }
    )
  }

  /// What is found if the image shows at a point what is at another one of the scene.
  private func finding(_ agreement: EdgeAgreement, _ seen: (Double, Double) -> (Double, Double)) -> Finding? {
    EdgeAgreement.finding(
      agreement.rows.sorted().compactMap { row in
        let scene = scene(row)
        let pixels = (0..<(image.width * image.height)).flatMap { index -> [UInt8] in
          let (column, row) = (Double(index % image.width) + 0.5, Double(index / image.width) + 0.5)
          let (x, y) = seen(column / Double(image.width), row / Double(image.height))
          return Array(repeating: scene.gray(x, y), count: 3)
        }
        let meters = (0..<(map.width * map.height)).map {
          scene.meters((Double($0 % map.width) + 0.5) / Double(map.width), (Double($0 / map.width) + 0.5) / Double(map.height))
        }
        return agreement.row(pixels, image, meters.withUnsafeBytes { Array($0) })
      })
  }

  @Test func imagesOfTheSameViewAreSilent() throws {
    let agreement = try #require(EdgeAgreement(episode()))
    #expect(agreement.rows == [0, 3, 6, 9, 13, 16, 19, 23])
    #expect(finding(agreement) { ($0, $1) } == nil)
    // A little beside it, as between two cameras of a phone.
    #expect(finding(agreement) { ($0 + 0.01, $1 - 0.01) } == nil)
  }

  @Test func changedImagesAreNamed() throws {
    let agreement = try #require(EdgeAgreement(episode()))
    func words(_ seen: (Double, Double) -> (Double, Double)) -> String? { finding(agreement, seen)?.message }
    #expect(words { (1 - $0, $1) }?.hasPrefix("the images are mirrored left to right against the depth in 8 of 8 frames examined") == true)
    #expect(words { ($0, 1 - $1) }?.contains("mirrored top to bottom") == true)
    #expect(words { (1 - $0, 1 - $1) }?.contains("turned by 180 degrees") == true)
    #expect(words { (0.5 + ($0 - 0.5) / 1.1, 0.5 + ($1 - 0.5) / 1.1) }?.contains("enlarged by a tenth") == true)
    #expect(words { (0.5 + ($0 - 0.5) * 1.1, 0.5 + ($1 - 0.5) * 1.1) }?.contains("made smaller by a tenth") == true)
  }

  @Test func otherScenesAndFewRowsSayNothing() throws {
    let agreement = try #require(EdgeAgreement(episode()))
    #expect(finding(agreement) { ($1, $0) } == nil && finding(agreement) { _, _ in (0, 0) } == nil)
    #expect(EdgeAgreement.finding([]) == nil)
    #expect(try #require(EdgeAgreement(episode(rows: 8))).rows.count == 2)
  }

  /// Of a map that is not as wide for its height as the image, nobody knows how it lies in it.
  @Test func depthOfAnotherShapeIsNotJudged() {
    var episode = self.episode(depth: Raster(size: ImageSize(width: 72, height: 96), covering: image))
    #expect(EdgeAgreement(episode) == nil)
    // A square image is one that was resized.
    episode = self.episode()
    episode.streams[.image]?.spec.raster = Raster(size: ImageSize(width: 144, height: 144), covering: image)
    #expect(EdgeAgreement(episode) != nil)
  }

  @Test func onlyOutlinesAreJumps() {
    // A floor that is seen at a slant, and a step of it.
    let floor = (0..<20).flatMap { y in [Float](repeating: 10 / Float(1 + y), count: 20) }
    #expect(EdgeAgreement.jumps(floor, ImageSize(width: 20, height: 20)).isEmpty)
    let step = (0..<400).map { $0 % 20 < 10 ? Float(1) : 2 }
    let jumps = EdgeAgreement.jumps(step, ImageSize(width: 20, height: 20))
    #expect(Set(jumps.map(\.x)) == [9, 10] && jumps.allSatisfy(\.isAlongX) && jumps.count == 40)
    #expect(EdgeAgreement.jumps(step.map { $0 == 1 ? 0 : $0 }, ImageSize(width: 20, height: 20)).isEmpty)
  }
}
