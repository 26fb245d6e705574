import Model
import Testing

@testable import Readers

@Suite struct PositionCheckTests {
  private func examined(_ positions: [SIMD3<Double>]) -> (positions: [SIMD3<Double>?], codes: [FindingCode]) {
    let notes = FindingCollector()
    var entries = positions.enumerated().map { number, position in
      PoseList.Entry(
        number: Int64(number), timestamp: Timestamp(nanoseconds: Int64(number)), pose: Pose(position: position, quaternion: [0, 0, 0, 1]))
    }
    PositionCheck.examine(&entries, file: "poses", notes)
    return (entries.map { $0.pose?.position }, notes.findings.map(\.code))
  }

  @Test func leavesRoomsAndWalksAsTheyAre() {
    let room = (0..<30).map { SIMD3(0.01 * Double($0), 1.2, -0.02 * Double($0)) }
    #expect(examined(room).positions == room && examined(room).codes.isEmpty)
    // Millimeters, kilometers of a ride, and one place far away by a mistake.
    for positions in [room.map { $0 * 100_000 }, room.map { $0 * 10_000_000 }, room + [[5e6, 0, 0]]] {
      #expect(examined(positions).positions == positions && examined(positions).codes.isEmpty)
    }
  }

  @Test func keepsTheMotionOfPositionsOnAMap() {
    let (east, north) = (465_912.25, 5_247_310.5)
    let map = (0..<30).map { SIMD3(east + 0.001 * Double($0), north, 408) }
    let (found, codes) = examined(map)
    #expect(codes == [.positionsFar])
    let exact = zip(found, found.dropFirst()).allSatisfy { one, next in
      guard let one, let next else { return false }
      return abs(Double(Float(next.x)) - Double(Float(one.x)) - 0.001) < 1e-6
    }
    #expect(exact && found[0]?.y == north - 5_247_311)
  }

  @Test func aPlaceBeyondAllIsNone() {
    let (found, codes) = examined([[0, 0, 0], [0, -.infinity, 0], [1e30, 0, 0], [.nan, 0, 0]])
    #expect(found == [.zero, nil, nil, nil] && codes.isEmpty)
  }
}
