import Media
import Model
import Testing

@testable import Simulate

@Suite struct SimulateTests {
  private let identity: [Double] = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]

  @Test func depthIsTheDistanceAlongTheOpticalAxis() {
    // Looking along -z from the middle of the room, the wall is 2.5 m away across the image, not farther at its edges.
    let camera = Room.Camera(size: ImageSize(width: 9, height: 9), matrix: identity)
    let depth = Room(enclosing: []).depth(from: camera)
    #expect(abs(depth[4 * 9 + 4] - 2.5) < 1e-5)
    #expect(abs(depth[2 * 9 + 4] - 2.5) < 1e-5)
  }

  @Test func theSameSeedGivesTheSameImage() {
    let camera = Room.Camera(size: ImageSize(width: 16, height: 12), matrix: identity)
    let room = Room(enclosing: [])
    #expect(room.image(from: camera, seed: 3) == room.image(from: camera, seed: 3))
    #expect(room.image(from: camera, seed: 3) != room.image(from: camera, seed: 4))
  }

  @Test(arguments: [0, 1, 5, 77, 1023, 0xFFFFF]) func frameCodesHoldTheirNumberAndParity(number: Int) {
    let bits = FrameCode.bits(of: number)
    #expect(bits.prefix(20).reduce(0) { $0 << 1 | ($1 ? 1 : 0) } == number)
    for group in 0..<4 { #expect(bits[20 + group] == (bits[(group * 5)..<(group * 5 + 5)].count { $0 } % 2 == 1)) }
  }

  @Test func trajectoriesAreOfRigidPosesAtAscendingTimes() {
    let path = Trajectory.smooth(seconds: 1, rate: 60, seed: 5)
    #expect(path.samples.count == 60)
    #expect(zip(path.samples, path.samples.dropFirst()).allSatisfy { $0.time < $1.time })
    for sample in path.samples {
      let m = sample.matrix
      for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        let dot = (0..<3).reduce(0) { $0 + m[$1 * 4 + a] * m[$1 * 4 + b] }
        #expect(abs(dot) < 1e-12)
      }
      let determinant =
        m[0] * (m[5] * m[10] - m[6] * m[9]) - m[1] * (m[4] * m[10] - m[6] * m[8]) + m[2] * (m[4] * m[9] - m[5] * m[8])
      #expect(abs(determinant - 1) < 1e-12)
    }
  }

  @Test func readsPosesOfARealLogger() throws {
    let text = "# Created at 2019\n105230574092166 1 0 0 0.5 0 1 0 0.25 0 0 1 -2\n\n"
    let path = try Trajectory(text: text, name: "poses.txt")
    #expect(path.samples.map(\.seconds) == ["105230.574092166"])
    #expect(path.samples[0].matrix[3] == 0.5)
    #expect(throws: (any Error).self) { try Trajectory(text: "1 2 3", name: "poses.txt") }
    #expect(throws: (any Error).self) { try Trajectory(text: "# nothing", name: "poses.txt") }
  }
}
