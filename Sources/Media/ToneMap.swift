import CKernels
import Foundation
import Model
import Synchronization

/// HDR colors in SDR, as a table: signals of HLG or PQ to levels of BT.709.
///
/// The light of a signal is that of a display with a peak of 1000 cd/m² (ITU-R BT.2100: HLG with its system gamma of 1.2; PQ clipped there), relative
/// to the reference white of 203 cd/m² (ITU-R BT.2408). It is converted to BT.709's primaries, and what is outside of them is clipped. A tone curve is applied
/// to the greatest of the three colors, which keeps hues: up to half of reference white light stays as it is, above it is compressed so that the peak
/// becomes 1. The result is encoded for a display with gamma 2.4 (ITU-R BT.1886).
final class ToneMap: Sendable {
  enum Transfer: String, CaseIterable {
    case hlg = "arib-std-b67"
    case pq = "smpte2084"
  }

  enum Primaries: String, CaseIterable {
    case bt2020, bt709
    case displayP3 = "smpte432"

    /// x and y of red, green and blue. The white of all is D65.
    fileprivate var chromaticities: [(x: Double, y: Double)] {
      switch self {
      case .bt2020: [(0.708, 0.292), (0.17, 0.797), (0.131, 0.046)]
      case .bt709: [(0.64, 0.33), (0.3, 0.6), (0.15, 0.06)]
      case .displayP3: [(0.68, 0.32), (0.265, 0.69), (0.15, 0.06)]
      }
    }
  }

  static let peak = 1000.0, white = 203.0
  /// Light at which the tone curve begins to compress, relative to reference white.
  static let knee = 0.5
  static let gamma = 2.4
  /// Units of the table for one level of 255.
  private static let units = 128.0
  private static let edge = Int(CPIXELS_EDGE)

  /// Levels of red, green and blue, and a zero, for each red, green and blue signal, blue fastest.
  let table: [UInt16]

  /// The table of a kind of video; each is made once.
  static func of(_ transfer: Transfer, _ primaries: Primaries) -> ToneMap {
    made.withLock { made in
      let name = "\(transfer) \(primaries)"
      let map = made[name] ?? ToneMap(transfer, primaries)
      made[name] = map
      return map
    }
  }
  private static let made = Mutex<[String: ToneMap]>([:])

  private init(_ transfer: Transfer, _ primaries: Primaries) {
    let last = Double(Self.edge - 1)
    let light = Light(transfer, primaries)
    var table: [UInt16] = []
    table.reserveCapacity(4 * Self.edge * Self.edge * Self.edge)
    for red in 0..<Self.edge {
      for green in 0..<Self.edge {
        for blue in 0..<Self.edge {
          let levels = light.levels(SIMD3(Double(red), Double(green), Double(blue)) / last)
          for level in [levels.x, levels.y, levels.z] { table.append(UInt16((level * Self.units).rounded())) }
          table.append(0)
        }
      }
    }
    self.table = table
  }

  /// The computation behind the table.
  struct Light {
    private let transfer: Transfer
    /// BT.709's colors of the video's.
    private let toBT709: Matrix3
    /// The weight of each color in luminance.
    private let luminance: SIMD3<Double>

    init(_ transfer: Transfer, _ primaries: Primaries) {
      self.transfer = transfer
      let own = Self.xyz(primaries)
      luminance = own.rows.1
      toBT709 = Self.xyz(.bt709).inverse * own
    }

    /// Levels 0 to 255 of a signal of red, green and blue, 0 to 1.
    func levels(_ signal: SIMD3<Double>) -> SIMD3<Double> {
      let colors = toBT709 * light(signal)
      let clipped = colors.clamped(lowerBound: .zero, upperBound: SIMD3(repeating: .greatestFiniteMagnitude))
      let greatest = clipped.max()
      guard greatest > 0 else { return .zero }
      let scaled = clipped * (Self.tone(greatest) / greatest)
      func level(_ value: Double) -> Double { 255 * pow(min(value, 1), 1 / ToneMap.gamma) }
      return SIMD3(level(scaled.x), level(scaled.y), level(scaled.z))
    }

    /// Light relative to reference white, in the video's own colors.
    private func light(_ signal: SIMD3<Double>) -> SIMD3<Double> {
      switch transfer {
      case .pq: return SIMD3(Self.pq(signal.x), Self.pq(signal.y), Self.pq(signal.z)) * (10_000 / ToneMap.white)
      case .hlg:
        let scene = SIMD3(Self.hlg(signal.x), Self.hlg(signal.y), Self.hlg(signal.z))
        let brightness = (scene * luminance).sum()
        return brightness > 0 ? scene * (pow(brightness, 0.2) * ToneMap.peak / ToneMap.white) : .zero
      }
    }

    /// The scene's light, 0 to 1 (BT.2100, table 5).
    private static func hlg(_ signal: Double) -> Double {
      let (a, b, c) = (0.17883277, 0.28466892, 0.55991073)
      return signal <= 0.5 ? signal * signal / 3 : (exp((signal - c) / a) + b) / 12
    }

    /// The display's light, 1 for 10,000 cd/m² (BT.2100, table 4).
    private static func pq(_ signal: Double) -> Double {
      let (m1, m2, c1, c2, c3) = (0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875)
      let power = pow(signal, 1 / m2)
      return pow(max(power - c1, 0) / (c2 - c3 * power), 1 / m1)
    }

    /// Returns the light unchanged up to the knee; above it, a hyperbola that continues its slope and reaches 1 at the peak.
    static func tone(_ light: Double) -> Double {
      let (knee, peak) = (ToneMap.knee, ToneMap.peak / ToneMap.white)
      guard light > knee else { return light }
      guard light < peak else { return 1 }
      let slope = (peak - knee) / (1 - knee)
      let u = (light - knee) / (peak - knee)
      return knee + (1 - knee) * u * slope / (1 + u * (slope - 1))
    }

    /// The matrix from colors to CIE XYZ, with luminance 1 for white.
    private static func xyz(_ primaries: Primaries) -> Matrix3 {
      let columns = primaries.chromaticities.map { SIMD3($0.x / $0.y, 1, (1 - $0.x - $0.y) / $0.y) }
      let white = SIMD3(0.3127 / 0.329, 1, (1 - 0.3127 - 0.329) / 0.329)
      func matrix(_ c: [SIMD3<Double>]) -> Matrix3 {
        Matrix3(rows: SIMD3(c[0].x, c[1].x, c[2].x), SIMD3(c[0].y, c[1].y, c[2].y), SIMD3(c[0].z, c[1].z, c[2].z))
      }
      let weights = matrix(columns).inverse * white
      return matrix([columns[0] * weights.x, columns[1] * weights.y, columns[2] * weights.z])
    }
  }
}

extension Matrix3 {
  /// The inverse: the cofactors' transpose over the determinant, which must not be 0.
  fileprivate var inverse: Matrix3 {
    let (a, b, c) = (cross(rows.1, rows.2), cross(rows.2, rows.0), cross(rows.0, rows.1))
    return Matrix3(rows: SIMD3(a.x, b.x, c.x) / determinant, SIMD3(a.y, b.y, c.y) / determinant, SIMD3(a.z, b.z, c.z) / determinant)
  }

  fileprivate static func * (m: Matrix3, v: SIMD3<Double>) -> SIMD3<Double> {
    SIMD3((m.rows.0 * v).sum(), (m.rows.1 * v).sum(), (m.rows.2 * v).sum())
  }

  fileprivate static func * (m: Matrix3, n: Matrix3) -> Matrix3 {
    func row(_ r: SIMD3<Double>) -> SIMD3<Double> { n.rows.0 * r.x + n.rows.1 * r.y + n.rows.2 * r.z }
    return Matrix3(rows: row(m.rows.0), row(m.rows.1), row(m.rows.2))
  }
}
