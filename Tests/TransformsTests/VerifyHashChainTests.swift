import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Simulate
@testable import Steps
@testable import TakesetRecorder
@testable import Transforms

@Suite struct VerifyHashChainTests {
  private let app = "TEAM.app"
  private let key = SigningKey(seed: 7)

  private func keys(_ devices: [String: SigningKey], app: String? = nil) throws -> DeviceKeys {
    let file: JSONValue = [
      "app_ids": [.string(app ?? self.app)],
      "devices": .object(devices.mapValues { .string(Data($0.publicPoint).base64EncodedString()) }),
    ]
    return try DeviceKeys(file.canonicalBytes, name: "keys.json")
  }

  private func simulatedChain(_ count: Int) -> FrameChain {
    var chain = FrameChain { ChainHasher() }
    for frame in 0..<count { [UInt8(frame & 255)].withUnsafeBytes { _ = chain.add([$0], depth: nil, time: Double(frame) / 30) } }
    return chain
  }

  private struct Case {
    var evidence: BundleEvidence
    var keys: DeviceKeys?
  }

  private func evidence(_ chain: FrameChain, assertion: String?, keys: DeviceKeys?) -> Case {
    Case(
      evidence: BundleEvidence(
        chain: (BundleDocuments.chain(chain.hashes, chain.checkpoints), "hash_chain.json"),
        finalHash: Data(chain.hashes[chain.hashes.count - 1]).base64EncodedString(),
        assertion: assertion, frameCount: Int64(chain.hashes.count), isPartial: nil, metadataFile: "metadata.json", device: nil,
        isStrict: false, frameSeconds: (0..<chain.hashes.count).map { Double($0) / 30 }, recordedSeconds: Double(chain.hashes.count) / 30),
      keys: keys)
  }

  private func verify(_ given: Case, _ step: VerifyHashChain = VerifyHashChain()) throws -> BundleVerification {
    var episode = SyntheticEpisode().episode
    episode.evidence = given.evidence
    let verified = try step.apply(to: episode, in: RunContext(keys: given.keys))
    #expect(verified.dependsOnKeys)
    return try #require(verified.verification)
  }

  private func signed(_ data: [UInt8], by key: SigningKey? = nil, counter: UInt32 = 1) -> String {
    Data((key ?? self.key).assertion(over: data, appID: app, counter: counter)).base64EncodedString()
  }

  @Test func verifiesTheWholeChain() throws {
    let chain = simulatedChain(360)
    let result = try verify(evidence(chain, assertion: signed(chain.hashes[359]), keys: keys(["d": key])))
    #expect(result.assertion == .verified && result.covers == .final && result.key == "d" && result.counter == 1)
    #expect(result.partial == .complete && result.verifiedFrames == 360)
    #expect(result.levels == ["bytes-sealed-at-ingest", "chain-structure-ok", "assertion-ok"])
    #expect(result.summary == "verified 12.0 s of 12.0 s recorded")
  }

  @Test func verifiesTheLastCheckpointThatWasSigned() throws {
    let chain = simulatedChain(360)
    for (index, seconds) in [(0, 149 / 30.0), (1, 299 / 30.0)] {
      let point = chain.checkpoints[index]
      let result = try verify(evidence(chain, assertion: signed(point.hash), keys: keys(["d": key])))
      #expect(result.covers == .checkpoint && result.checkpoint == Int64(index) && result.partial == .partial)
      #expect(result.verifiedFrames == 150 * Int64(index + 1) && abs(result.verifiedSeconds - seconds) < 1e-12)
    }
    let last = try verify(evidence(chain, assertion: signed(chain.checkpoints[1].hash), keys: keys(["d": key])))
    #expect(last.summary == "verified 10.0 s of 12.0 s recorded")
  }

  /// Apple signs the digest of the nonce. What hashes only once, as the app's server does, must not pass, or nothing genuine would.
  @Test func needsBothHashes() throws {
    let chain = simulatedChain(10)
    let authenticatorData = Digest.of(app).bytes + [0x40, 0, 0, 0, 1]
    let clientDataHash = Digest.of(chain.hashes[9]).bytes
    let point = try #require(P256.PublicKey(point: key.publicPoint))
    let once = Assertion(signature: key.sign(authenticatorData + clientDataHash), authenticatorData: authenticatorData)
    #expect(!once.isSigned(by: point, clientDataHash: clientDataHash))
    let twice = Assertion(
      signature: key.sign(Digest.of(authenticatorData + clientDataHash).bytes), authenticatorData: authenticatorData)
    #expect(twice.isSigned(by: point, clientDataHash: clientDataHash))
    // Signing the hash itself, without hashing it as client data, is not it either.
    let raw = signed(chain.hashes[9]).utf8.count
    #expect(raw > 0 && !twice.isSigned(by: point, clientDataHash: chain.hashes[9]))
  }

  @Test func tellsSignaturesThatAreNone() throws {
    let chain = simulatedChain(10)
    let good = signed(chain.hashes[9])
    func state(_ assertion: String?, _ keys: DeviceKeys?) throws -> BundleVerification.AssertionState {
      try verify(evidence(chain, assertion: assertion, keys: keys)).assertion
    }
    let own = try keys(["d": key])
    #expect(try state(nil, own) == .absent)
    #expect(try state(" ", own) == .absent)
    #expect(try state("ZGVidWctbW9jay1hc3NlcnRpb24=", own) == .mock)
    #expect(
      try state(
        "UE9TVAovYXBpL3YxL2NhcHR1cmVzL3ZpZGVvCjE3MDAwMDAwMDAwMDAKNTUwRTg0MDAtRTI5Qi00MUQ0LUE3MTYtNDQ2NjU1NDQwMDAw", own)
        == .placeholder)
    #expect(try state(good, nil) == .noKey)
    #expect(try state("%%%", own) == .invalid)
    #expect(try state("AAAA", own) == .invalid)
    #expect(try state(good, keys(["d": SigningKey(seed: 8)])) == .invalid)
    #expect(try state(good, keys(["d": key], app: "OTHER.app")) == .invalid)
    #expect(try state(signed(chain.hashes[9], counter: 0), own) == .invalid)
    #expect(try state(signed(chain.hashes[8]), own) == .invalid)
    // Among several keys each is tried.
    #expect(try state(good, keys(["a": SigningKey(seed: 8), "b": key])) == .verified)
  }

  @Test func looksForTheKeyOfTheNamedDevice() throws {
    let chain = simulatedChain(10)
    var evidence = evidence(chain, assertion: signed(chain.hashes[9]), keys: try keys(["a": key, "b": SigningKey(seed: 8)]))
    evidence.evidence.device = "a"
    #expect(try verify(evidence).assertion == .verified)
    evidence.evidence.device = "b"
    #expect(try verify(evidence).assertion == .invalid)
    evidence.evidence.device = "c"
    #expect(try verify(evidence).assertion == .noKey)
    evidence.evidence.device = nil
    evidence.evidence.folders = ["bundles", "b"]
    #expect(try verify(evidence).assertion == .invalid)
    evidence.evidence.folders = ["bundles", "x"]
    #expect(try verify(evidence).assertion == .verified)
  }

  @Test func partialIsAHintUntilSomethingIsSigned() throws {
    let chain = simulatedChain(10)
    var evidence = evidence(chain, assertion: signed(chain.hashes[9]), keys: nil)
    #expect(try verify(evidence).partial == .unknown)
    evidence.evidence.isPartial = true
    #expect(try verify(evidence).partial == .partial)
    #expect(try verify(evidence).verifiedFrames == 0)
    evidence.keys = try keys(["d": key])
    #expect(try verify(evidence).partial == .complete)
  }

  @Test func rejectsByLevel() throws {
    var none = VerifyHashChain(), assertion = VerifyHashChain()
    none.require = .none
    assertion.require = .assertion
    let chain = simulatedChain(10)
    var broken = evidence(chain, assertion: nil, keys: nil)
    broken.evidence.finalHash = Data(chain.hashes[0]).base64EncodedString()
    #expect(try verify(broken, none).chain == .broken)
    let rejection = #expect(throws: Rejection.self) { try verify(broken) }
    #expect(rejection?.episode?.verification?.chain == .broken)
    #expect(throws: Rejection.self) { try verify(evidence(chain, assertion: nil, keys: nil), assertion) }
    let good = evidence(chain, assertion: signed(chain.hashes[9]), keys: try keys(["d": key]))
    #expect(try verify(good, assertion).assertion == .verified)
    var absent = good
    absent.evidence.chain = nil
    #expect(try verify(absent).chain == .absent)
  }

  /// Whatever the assertion's bytes are, there is an answer.
  @Test func survivesMutatedAssertions() throws {
    let chain = simulatedChain(10)
    let good = key.assertion(over: chain.hashes[9], appID: app, counter: 1)
    let own = try keys(["d": key])
    for place in good.indices {
      for value in [0x00, 0x1F, 0x7F, 0xBF, 0xFF] as [UInt8] where value != good[place] {
        var changed = good
        changed[place] = value
        #expect(try verify(evidence(chain, assertion: Data(changed).base64EncodedString(), keys: own)).assertion == .invalid)
      }
    }
  }

  @Test(arguments: [
    "[]", "{\"app_ids\": []}", "{\"app_ids\": [\"a\"], \"devices\": {\"d\": \"AAAA\"}}", "{\"app_ids\": [\"a\"], \"devices\": 1}", "{",
    "{\"app_ids\": [\"a\"], \"devices\": {}, \"other\": 1}",
    "{\"devices\": {}}", "{\"app_ids\": \"a\", \"devices\": {}}", "{\"app_ids\": [\"a\"], \"devices\": {\"d\": \"?\"}}",
  ]) func refusesKeysFiles(text: String) {
    #expect(throws: UsageError.self) { try DeviceKeys(Array(text.utf8), name: "keys.json") }
  }

  /// libcrypto made the point, so a point beside the curve is one that it refuses.
  @Test func refusesPointsBesideTheCurve() {
    var point = key.publicPoint
    point[64] ^= 1
    #expect(P256.PublicKey(point: point) == nil)
    #expect(P256.PublicKey(point: []) == nil)
  }

  @Test func theSameSeedSignsTheSame() {
    #expect(SigningKey(seed: 1).sign([1, 2, 3]) == SigningKey(seed: 1).sign([1, 2, 3]))
    #expect(SigningKey(seed: 1).publicPoint != SigningKey(seed: 2).publicPoint)
  }
}
