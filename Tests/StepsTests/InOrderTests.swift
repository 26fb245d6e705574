import Foundation
import Synchronization
import Testing

@testable import Steps

@Suite struct InOrderTests {
  private struct Broken: Error, Equatable { var index: Int }

  @Test(arguments: [1, 2, 7]) func productsAreStoredInOrder(threads: Int) throws {
    var stored: [Int] = []
    try inOrder(500, threads: threads) {
      0
    } make: { worker, index in
      worker += 1
      // Later rows are ready earlier.
      if index % 10 == 0 { usleep(300) }
      return index * index
    } store: { index, product in
      #expect(product == index * index)
      stored.append(index)
    }
    #expect(stored == Array(0..<500))
  }

  @Test func nothingIsMadeOfNothing() throws {
    try inOrder(0, threads: 3) {
      throw Broken(index: -1)
    } make: { (_: inout Int, index: Int) in
      index
    } store: { _, _ in
      Issue.record("there is nothing to store")
    }
  }

  @Test(arguments: [1, 4]) func theFirstErrorOfAllIsThrown(threads: Int) {
    var stored = 0
    let error = #expect(throws: Broken.self) {
      try inOrder(100, threads: threads) {
        0
      } make: { (_: inout Int, index: Int) in
        if index == 40 { usleep(2000) }
        if index >= 40 { throw Broken(index: index) }
        return index
      } store: { _, _ in
        stored += 1
      }
    }
    #expect(error == Broken(index: 40) && stored == 40)
  }

  @Test func anErrorOfStoringStopsTheWorkers() {
    let made = Atomic(0)
    #expect(throws: Broken(index: 3)) {
      try inOrder(100_000, threads: 4) {
        0
      } make: { (_: inout Int, index: Int) in
        made.add(1, ordering: .relaxed)
        return index
      } store: { index, _ in
        if index == 3 { throw Broken(index: 3) }
      }
    }
    // Sixteen may wait for each to be taken, and four are being made.
    #expect(made.load(ordering: .relaxed) <= 4 + 16 + 4)
  }

  @Test(arguments: [1, 3]) func resultsAreInOrder(threads: Int) {
    let found = inParallel(200, threads: threads) { index in
      if index % 20 == 0 { usleep(300) }
      return index * 2
    }
    #expect(found == (0..<200).map { $0 * 2 })
  }

  @Test func aWorkerThatCannotStartIsReported() {
    #expect(throws: Broken(index: -1)) {
      try inOrder(10, threads: 2) {
        throw Broken(index: -1)
      } make: { (_: inout Int, index: Int) in
        index
      } store: { _, _ in
      }
    }
  }
}
