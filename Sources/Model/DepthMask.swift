/// The valid pixels of a depth map: those above 0.
package enum DepthMask {
  /// Writes one byte per pixel, 1 where the value is positive, and returns the moments of the positive values, in the map's own unit.
  package static func mark(_ raw: [UInt8], _ type: ScalarType, in mask: inout [UInt8]) -> Moments {
    let pixels = raw.count / type.size
    if mask.count != pixels { mask = [UInt8](repeating: 0, count: pixels) }
    return raw.withUnsafeBytes { bytes in
      mask.withUnsafeMutableBytes { mask in
        if type == .uint16 {
          mark(bytes, pixels, SIMD8<UInt16>.self, mask) { SIMD8<Float>($0) }
        } else {
          mark(bytes, pixels, SIMD8<Float>.self, mask) { $0 }
        }
      }
    }
  }

  @inline(__always)
  private static func mark<Values: BitwiseCopyable>(
    _ bytes: UnsafeRawBufferPointer, _ pixels: Int, _: Values.Type, _ mask: UnsafeMutableRawBufferPointer,
    _ depths: (Values) -> SIMD8<Float>
  ) -> Moments {
    // Eight at a time, in separate sums; the order of additions is the same on every machine.
    var (sums, squares) = (SIMD8<Double>.zero, SIMD8<Double>.zero)
    var (least, greatest) = (SIMD8<Float>(repeating: .infinity), SIMD8<Float>(repeating: -.infinity))
    var counts = SIMD8<Int32>.zero
    func add(_ lane: SIMD8<Float>) -> SIMD8<UInt8> {
      let isValid = lane .> 0
      let flags = SIMD8<Int32>.zero.replacing(with: 1, where: isValid)
      counts &+= flags
      let counted = SIMD8<Double>(SIMD8<Float>.zero.replacing(with: lane, where: isValid))
      sums += counted
      squares += counted * counted
      least.replace(with: lane, where: isValid .& (lane .< least))
      greatest.replace(with: lane, where: isValid .& (lane .> greatest))
      return SIMD8<UInt8>(truncatingIfNeeded: flags)
    }
    let size = MemoryLayout<Values>.size
    for start in stride(from: 0, to: pixels & ~7, by: 8) {
      let flags = add(depths(bytes.loadUnaligned(fromByteOffset: start / 8 * size, as: Values.self)))
      mask.storeBytes(of: flags, toByteOffset: start, as: SIMD8<UInt8>.self)
    }
    if pixels % 8 > 0 {
      var last = [UInt8](repeating: 0, count: size)
      last.replaceSubrange(0..<(pixels % 8 * size / 8), with: bytes[(pixels / 8 * size)..<(pixels * size / 8)])
      let flags = add(depths(last.withUnsafeBytes { $0.loadUnaligned(as: Values.self) }))
      for offset in 0..<(pixels % 8) { mask[pixels & ~7 + offset] = flags[offset] }
    }
    let (count, sum) = (Int(counts.wrappedSum()), sums.sum())
    guard count > 0 else { return Moments() }
    let mean = sum / Double(count)
    return Moments(
      count: Int64(count), mean: mean, m2: max(0, squares.sum() - sum * mean), min: Double(least.min()),
      max: Double(greatest.max()))
  }
}
