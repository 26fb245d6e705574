import Testing

@testable import Media

/// Sample descriptions and samples are written out by ISO/IEC 14496-15.
@Suite struct ParameterSetsTests {
  private let sps: [UInt8] = [0x67, 1, 2, 3]
  private let pps: [UInt8] = [0x68, 9]
  private let other: [UInt8] = [0x68, 8, 8]
  private let slice: [UInt8] = [0x65, 4, 4, 4]

  private func sized(_ units: [[UInt8]], bytes: Int = 4) -> [UInt8] {
    units.flatMap { unit in (0..<bytes).map { UInt8(truncatingIfNeeded: unit.count >> (8 * (bytes - 1 - $0))) } + unit }
  }

  private func avcC(lengthBytes: Int = 4) -> [UInt8] {
    [1, 100, 0, 31, 0xFC | UInt8(lengthBytes - 1), 0xE1] + sized([sps], bytes: 2) + [1] + sized([pps], bytes: 2)
  }

  private func look(_ sets: inout ParameterSets, _ sample: [UInt8]) -> UInt64 { sample.withUnsafeBufferPointer { sets.look($0) } }

  @Test(arguments: [1, 2, 4]) func setsThatTheDescriptionHasChangeNothing(lengthBytes: Int) {
    var sets = ParameterSets(isHEVC: false, description: avcC(lengthBytes: lengthBytes))
    #expect(look(&sets, sized([sps, pps, slice], bytes: lengthBytes)) == 0 && sets.missed == 0 && !sets.areUnknown)
    #expect(look(&sets, sized([other, slice], bytes: lengthBytes)) == 1 && sets.missed == 1)
  }

  @Test func eachOtherSetHasABitOfItsOwn() {
    var sets = ParameterSets(isHEVC: false, description: avcC())
    #expect(look(&sets, sized([other, slice])) == 1)
    #expect(look(&sets, sized([sps, [0x67, 7], slice])) == 2)
    #expect(look(&sets, sized([other, [0x67, 7], slice])) == 3)
    #expect(look(&sets, sized([slice])) == 0 && sets.missed == 3 && !sets.areUnknown)
  }

  @Test func moreSetsThanBitsAreUnknown() {
    var sets = ParameterSets(isHEVC: false, description: avcC())
    for number in 0..<64 { #expect(look(&sets, sized([[0x68, 200, UInt8(number)]])) == 1 << UInt64(number)) }
    #expect(!sets.areUnknown)
    #expect(look(&sets, sized([[0x68, 201]])) == 0 && sets.areUnknown)
    var crowded = ParameterSets(isHEVC: false, description: avcC())
    #expect(look(&crowded, sized(Array(repeating: pps, count: 64))) == 0 && !crowded.areUnknown)
    #expect(look(&crowded, sized(Array(repeating: pps, count: 65))) == 0 && crowded.areUnknown)
    var large = ParameterSets(isHEVC: false, description: avcC())
    #expect(look(&large, sized([[0x68] + [UInt8](repeating: 1, count: 4096)])) == 0 && large.areUnknown)
  }

  @Test func setsOfHEVCAreKnownByTheirKind() {
    let (vps, hevcSPS, changed): ([UInt8], [UInt8], [UInt8]) = ([0x40, 1, 1], [0x42, 1, 2], [0x44, 1, 3])
    func array(_ unit: [UInt8]) -> [UInt8] { [unit[0] >> 1 & 63, 0, 1] + sized([unit], bytes: 2) }
    let description = [1] + [UInt8](repeating: 0, count: 20) + [0xFF, 2] + array(vps) + array(hevcSPS)
    var sets = ParameterSets(isHEVC: true, description: description)
    #expect(look(&sets, sized([vps, hevcSPS, [0x26, 1, 9]])) == 0 && !sets.areUnknown)
    #expect(look(&sets, sized([vps, changed])) == 1)
  }

  @Test func damageEndsTheSearch() {
    var sets = ParameterSets(isHEVC: false, description: avcC())
    #expect(look(&sets, sized([slice]) + [0, 0, 1, 0] + other) == 0)
    #expect(look(&sets, [0, 0, 0, 0] + sized([other])) == 0)
    #expect(look(&sets, []) == 0 && look(&sets, [0, 0]) == 0 && !sets.areUnknown)
  }

  /// Annex B, nothing, and every cut of a description.
  @Test func aDescriptionThatIsNoneIsUnknown() {
    for description in [[], [0, 0, 0, 1, 0x67, 1, 2, 3], [1, 2, 3]] as [[UInt8]] {
      #expect(ParameterSets(isHEVC: false, description: description).areUnknown)
      #expect(ParameterSets(isHEVC: true, description: description).areUnknown)
    }
    for count in avcC().indices.dropFirst(7) {
      var sets = ParameterSets(isHEVC: false, description: Array(avcC().prefix(count)))
      #expect(look(&sets, sized([pps])) == 1)
    }
  }
}
