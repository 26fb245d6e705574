// https://developer.apple.com/documentation/uniformtypeidentifiers/uttype-swift.struct
public struct UTType: Sendable {
  public static var mpeg4Movie: UTType { fatalError() }
}
