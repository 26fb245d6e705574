/// The valid pixels of a depth map: those above 0.
package enum DepthMask {
  /// Writes one byte per pixel, 1 where the value is positive, and returns the moments of the positive values, in the map's own unit.
  package static func mark(_ raw: [UInt8], _ type: ScalarType, in mask: inout [UInt8]) -> Moments {
    let pixels = raw.count / type.size
    if mask.count != pixels { mask = [UInt8](repeating: 0, count: pixels) }
    return raw.withUnsafeBytes { bytes in
      mask.withUnsafeMutableBufferPointer { mask in
        type == .uint16 ? mark(bytes.bindMemory(to: UInt16.self), mask) { Float($0) } : mark(bytes.bindMemory(to: Float.self), mask) { $0 }
      }
    }
  }

  @inline(__always)
  private static func mark<Value>(
    _ values: UnsafeBufferPointer<Value>, _ mask: UnsafeMutableBufferPointer<UInt8>, _ depth: (Value) -> Float
  ) -> Moments {
    // Eight at a time, in separate sums; the order of additions is the same on every machine.
    var (sums, squares) = (SIMD8<Double>.zero, SIMD8<Double>.zero)
    var (least, greatest) = (SIMD8<Float>(repeating: .infinity), SIMD8<Float>(repeating: -.infinity))
    var counts = SIMD8<Int32>.zero
    for start in stride(from: 0, to: values.count, by: 8) {
      var lane = SIMD8<Float>.zero
      for offset in 0..<min(8, values.count - start) { lane[offset] = depth(values[start + offset]) }
      let isValid = lane .> 0
      let flags = SIMD8<Int32>.zero.replacing(with: 1, where: isValid)
      for offset in 0..<min(8, values.count - start) { mask[start + offset] = UInt8(truncatingIfNeeded: flags[offset]) }
      counts &+= flags
      let counted = SIMD8<Double>(SIMD8<Float>.zero.replacing(with: lane, where: isValid))
      sums += counted
      squares += counted * counted
      least.replace(with: lane, where: isValid .& (lane .< least))
      greatest.replace(with: lane, where: isValid .& (lane .> greatest))
    }
    let (count, sum) = (Int(counts.wrappedSum()), sums.sum())
    guard count > 0 else { return Moments() }
    let mean = sum / Double(count)
    return Moments(
      count: Int64(count), mean: mean, m2: max(0, squares.sum() - sum * mean), min: Double(least.min()),
      max: Double(greatest.max()))
  }
}
