// https://developer.apple.com/documentation/devicecheck/dcappattestservice
import Foundation

open class DCAppAttestService: NSObject, @unchecked Sendable {
  open class var shared: DCAppAttestService { fatalError() }
  open func generateAssertion(
    _ keyId: String, clientDataHash: Data, completionHandler: @escaping @Sendable (Data?, (any Error)?) -> Void
  ) { fatalError() }
}
