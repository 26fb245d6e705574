#if canImport(DeviceCheck) && canImport(CryptoKit)
  import CryptoKit
  import DeviceCheck
  import Foundation
  import TakesetRecorder

  /// Signs with a key of App Attest, which the app has registered with the server.
  public struct AppAttestSigner: AssertionSigner {
    private let keyID: String

    /// - Parameter keyID: The id that `DCAppAttestService.generateKey` gave.
    public init(keyID: String) { self.keyID = keyID }

    /// Signs a hash by an App Attest assertion; `done` gets `nil` where Apple's service gives none.
    public func sign(_ hash: [UInt8], _ done: @escaping @Sendable ([UInt8]?) -> Void) {
      // The hash of the chain is the client data, so its own hash is what is signed.
      let digest = Data(CryptoKit.SHA256.hash(data: Data(hash)))
      DCAppAttestService.shared.generateAssertion(keyID, clientDataHash: digest) { assertion, _ in done(assertion.map { Array($0) }) }
    }
  }
#endif
