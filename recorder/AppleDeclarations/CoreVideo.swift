// https://developer.apple.com/documentation/corevideo
public final class CVBuffer {}
public typealias CVPixelBuffer = CVBuffer
public typealias CVReturn = Int32
public typealias OSType = UInt32
public struct CVPixelBufferLockFlags: OptionSet, Sendable {
  public let rawValue: UInt64
  public init(rawValue: UInt64) { self.rawValue = rawValue }
  public static let readOnly = CVPixelBufferLockFlags(rawValue: 1)
}
@discardableResult public func CVPixelBufferLockBaseAddress(_ buffer: CVPixelBuffer, _ flags: CVPixelBufferLockFlags) -> CVReturn {
  fatalError()
}
@discardableResult public func CVPixelBufferUnlockBaseAddress(_ buffer: CVPixelBuffer, _ flags: CVPixelBufferLockFlags) -> CVReturn {
  fatalError()
}
public func CVPixelBufferGetPlaneCount(_ buffer: CVPixelBuffer) -> Int { fatalError() }
public func CVPixelBufferGetBaseAddressOfPlane(_ buffer: CVPixelBuffer, _ plane: Int) -> UnsafeMutableRawPointer? { fatalError() }
public func CVPixelBufferGetBytesPerRowOfPlane(_ buffer: CVPixelBuffer, _ plane: Int) -> Int { fatalError() }
public func CVPixelBufferGetHeightOfPlane(_ buffer: CVPixelBuffer, _ plane: Int) -> Int { fatalError() }
public func CVPixelBufferGetBaseAddress(_ buffer: CVPixelBuffer) -> UnsafeMutableRawPointer? { fatalError() }
public func CVPixelBufferGetBytesPerRow(_ buffer: CVPixelBuffer) -> Int { fatalError() }
public func CVPixelBufferGetWidth(_ buffer: CVPixelBuffer) -> Int { fatalError() }
public func CVPixelBufferGetHeight(_ buffer: CVPixelBuffer) -> Int { fatalError() }
public func CVPixelBufferGetPixelFormatType(_ buffer: CVPixelBuffer) -> OSType { fatalError() }
public var kCVPixelFormatType_DepthFloat32: OSType { fatalError() }
