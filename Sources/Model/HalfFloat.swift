/// IEEE 754 binary16; `Float16` is not available on every platform that Swift supports.
package enum HalfFloat {
  /// Returns the number with these bits, exactly; infinities and NaN stay what they are.
  package static func value(_ bits: UInt16) -> Float {
    let (sign, exponent, fraction) = (UInt32(bits & 0x8000) << 16, UInt32(bits >> 10 & 31), UInt32(bits & 1023))
    return switch exponent {
    case 0: Float(bitPattern: sign | (Float(fraction) * 0x1p-24).bitPattern)
    case 31: Float(bitPattern: sign | 0x7F80_0000 | fraction << 13)
    default: Float(bitPattern: sign | (exponent + 112) << 23 | fraction << 13)
    }
  }

  /// The nearest 16-bit float, ties to even; those below the least normal number are 0, and those beyond the greatest infinite.
  package static func bits(_ value: Float) -> UInt16 {
    let sign = UInt16(truncatingIfNeeded: value.bitPattern >> 16) & 0x8000
    if value.isNaN { return sign | 0x7E00 }
    let magnitude = abs(value)
    if magnitude >= 65_520 { return sign | 0x7C00 }
    if magnitude < 0x1p-14 { return sign }
    let bits = magnitude.bitPattern
    let rounded = bits + 0xFFF + (bits >> 13 & 1)
    return sign | UInt16(truncatingIfNeeded: (rounded >> 13) - (112 << 10))
  }
}
