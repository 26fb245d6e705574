/// The parameter sets of a video track (SPS, PPS and VPS of ITU-T H.264 and H.265): those of its sample description, and those that its
/// samples carry themselves.
///
/// A decoder that starts in the middle of a track knows the description's sets and those of the sample where it starts. It decodes what one
/// that comes from the front does only where that sample carries every set that the description lacks: `missed`.
struct ParameterSets {
  /// The sets of samples that the description lacks, as bits; a sample's are some of them.
  private(set) var missed: UInt64 = 0
  /// Whether a decoder can only know the sets in force by coming from the front: there are several sample descriptions, or more sets than
  /// are told apart, or larger ones than there are.
  var areUnknown = false

  private let isHEVC: Bool
  private let lengthBytes: Int
  private var described: [[UInt8]] = []
  private var others: [[UInt8]] = []

  /// The most sets that are told apart, and that one sample may carry; those of cameras have ten to a hundred bytes.
  private static let (most, mostBytes) = (64, 1 << 12)

  /// - Parameter description: The track's `avcC` or `hvcC` (ISO/IEC 14496-15, 5.3.3.1 and 8.3.3.1).
  init(isHEVC: Bool, description: [UInt8]) {
    self.isHEVC = isHEVC
    guard description.count > (isHEVC ? 22 : 6), description[0] == 1 else {
      (lengthBytes, areUnknown) = (4, true)
      return
    }
    lengthBytes = Int(description[isHEVC ? 21 : 4] & 3) + 1
    var rest = description.dropFirst(isHEVC ? 22 : 5)
    if isHEVC {
      for _ in 0..<(rest.popFirst() ?? 0) {
        rest = rest.dropFirst()
        take(Self.number(&rest, bytes: 2) ?? 0, from: &rest)
      }
    } else {
      take(Int((rest.popFirst() ?? 0) & 31), from: &rest)
      take(Int(rest.popFirst() ?? 0), from: &rest)
    }
  }

  /// Notes the sets of a sample; returns those that the description lacks.
  mutating func look(_ sample: UnsafeBufferPointer<UInt8>) -> UInt64 {
    if areUnknown { return 0 }
    var (carried, count): (UInt64, Int) = (0, 0)
    var rest = sample[...]
    // A length that is damaged ends it; the decoder finds the damage.
    while let size = Self.number(&rest, bytes: lengthBytes), size > 0, size <= rest.count {
      if let header = rest.first, isParameterSet(header) {
        count += 1
        if count > Self.most || size > Self.mostBytes { areUnknown = true }
        if areUnknown { return 0 }
        carried |= bit(Array(rest.prefix(size)))
      }
      rest = rest.dropFirst(size)
    }
    missed |= carried
    return carried
  }

  private func isParameterSet(_ header: UInt8) -> Bool {
    isHEVC ? (32...34).contains(header >> 1 & 63) : [7, 8, 13, 15].contains(header & 31)
  }

  private mutating func bit(_ set: [UInt8]) -> UInt64 {
    if described.contains(set) { return 0 }
    if let known = others.firstIndex(of: set) { return 1 << UInt64(known) }
    guard others.count < Self.most else {
      areUnknown = true
      return 0
    }
    others.append(set)
    return 1 << UInt64(others.count - 1)
  }

  private mutating func take(_ count: Int, from rest: inout ArraySlice<UInt8>) {
    for _ in 0..<count {
      guard let size = Self.number(&rest, bytes: 2), size <= rest.count else { return }
      described.append(Array(rest.prefix(size)))
      rest = rest.dropFirst(size)
    }
  }

  /// A big-endian number from the front; `nil` where too few bytes are left.
  private static func number<Bytes: Collection>(_ rest: inout Bytes, bytes: Int) -> Int?
  where Bytes.Element == UInt8, Bytes == Bytes.SubSequence {
    guard rest.count >= bytes else { return nil }
    defer { rest = rest.dropFirst(bytes) }
    return rest.prefix(bytes).reduce(0) { $0 << 8 | Int($1) }
  }
}
