import Evidence
package import Model
package import Steps

/// Checks the evidence that an uploaded bundle is genuine: the structure of its hash chain, and, against the keys given to the run, the
/// phone's signature of the chain's end or of a checkpoint. The result goes into the take's record; takes without such evidence pass.
///
///     - verify-hash-chain: {require: structure}
package struct VerifyHashChain: Transform {
  package static let name = "verify-hash-chain"
  package static let summary = "Checks the hash chain and the device's signature of uploaded bundles"

  /// The evidence that a take must have: any, a chain whose structure is sound, or also the device's signature.
  package enum Level: String, OptionChoice { case none, structure, assertion }

  @StepOption(
    "none: only record; structure: reject a bundle whose chain is present and invalid; assertion: reject one without a verified signature")
  var require = Level.structure

  package init() {}

  /// Checks the evidence of an uploaded bundle; takes without any pass. Throws `Rejection` for less than `require` asks, with the episode
  /// for the record.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    guard let evidence = episode.evidence else { return try verifyingMembers(of: episode, in: context) }
    var verified = episode
    verified.dependsOnKeys = true
    var verification = BundleVerification()
    verification.recordedFrames = evidence.recordedFrames
    verification.recordedSeconds = evidence.recordedSeconds
    verification.keysDigest = context.keys?.digest
    let notes = FindingCollector()
    let chain = checkChain(evidence, &verification, notes)
    checkAssertion(evidence, context.keys, chain, &verification, notes)
    verified.findings += notes.findings
    verified.verification = verification
    if require != .none, verification.chain == .broken {
      throw Rejection(.verifyHashChain, "the hash chain is broken: \(verification.chainReason ?? "")", episode: verified)
    }
    if require == .assertion {
      let reason = verification.assertionReason.map { ": \($0)" } ?? ""
      if verification.assertion != .verified {
        throw Rejection(.verifyHashChain, "the signature is not verified (\(verification.assertion.rawValue)\(reason))", episode: verified)
      }
      if verification.chain != .sound {
        throw Rejection(.verifyHashChain, "there is no valid hash chain that the signature could belong to", episode: verified)
      }
    }
    return verified
  }

  /// Checks the evidence of every member of a joined take: the take is what its members are. Details of each have its result.
  private func verifyingMembers(of episode: Episode, in context: RunContext) throws -> Episode {
    var verified = episode
    for (member, evidence) in episode.memberEvidence.sorted(by: { $0.key < $1.key }) {
      var own = episode
      (own.evidence, own.findings) = (evidence, [])
      do {
        let checked = try apply(to: own, in: context)
        verified.dependsOnKeys = true
        verified.findings += checked.findings.map { $0.ofMember(member) }
        if let verification = checked.verification { verified.setDetail("verification", verification.json, of: member) }
      } catch let rejection as Rejection {
        verified.dependsOnKeys = true
        verified.findings += (rejection.episode?.findings ?? []).map { $0.ofMember(member) }
        if let verification = rejection.episode?.verification { verified.setDetail("verification", verification.json, of: member) }
        throw Rejection(rejection.code, "\(member): \(rejection.message)", episode: verified)
      }
    }
    return verified
  }

  // MARK: The chain

  private func checkChain(
    _ evidence: BundleEvidence, _ verification: inout BundleVerification, _ notes: FindingCollector
  ) -> HashChain? {
    guard let (bytes, file) = evidence.chain else {
      notes.add(.chainAbsent, "the bundle has no hash chain")
      return nil
    }
    do {
      var chain = try HashChain(bytes, file: file, frameLimit: evidence.isStrict ? 450 : HashChain.limit)
      verification.frames = chain.hashes.count
      verification.checkpoints = chain.checkpoints.count
      verification.finalMatchesMetadata = evidence.finalHash.map { Base64.digest($0)?.bytes == chain.final }
      try chain.check(against: (evidence.finalHash, evidence.frameCount), file: file)
      verification.chain = .sound
      notes.add(chain.findings)
      return chain
    } catch {
      verification.chain = .broken
      verification.chainReason = (error as? HashChain.Broken)?.reason ?? "\(error)"
      notes.add(.chainBroken, "the hash chain is broken: \(verification.chainReason ?? "")", file: file)
      return nil
    }
  }

  // MARK: The signature

  /// Fixed texts of debug builds and of builds that never signed.
  private static let mock = Array("debug-mock-assertion".utf8)
  private static let placeholder = Array("POST\n".utf8)

  private func checkAssertion(
    _ evidence: BundleEvidence, _ keys: DeviceKeys?, _ chain: HashChain?, _ verification: inout BundleVerification,
    _ notes: FindingCollector
  ) {
    if evidence.isPartial == true { verification.partial = .partial }
    func end(_ state: BundleVerification.AssertionState, _ severity: Finding.Severity, _ code: FindingCode, _ message: String) {
      verification.assertion = state
      verification.assertionReason = message
      let file = evidence.metadataFile
      notes.add(code, message, severity: severity, file: file, field: file.map { _ in ".assertion" })
    }
    guard let text = evidence.assertion, !text.allSatisfy(\.isWhitespace) else {
      return end(.absent, .info, .assertionAbsent, "the metadata holds no assertion; the chain is not signed")
    }
    guard let bytes = Base64.decode(text)?.bytes else { return end(.invalid, .warning, .assertionInvalid, "the assertion is not base64") }
    if bytes == Self.mock { return end(.mock, .warning, .assertionMock, "the assertion is the fixed text of a debug build") }
    if bytes.starts(with: Self.placeholder) {
      return end(.placeholder, .warning, .assertionPlaceholder, "the assertion is the text that should have been signed, not a signature")
    }
    let assertion: Assertion
    do {
      assertion = try Assertion(cbor: bytes)
    } catch {
      return end(
        .invalid, .warning, .assertionInvalid, "the assertion cannot be read: \(error)")
    }
    verification.counter = assertion.counter
    guard let keys else {
      return end(.noKey, .info, .assertionUnverified, "no keys were given, so the signature is not checked")
    }
    if let device = evidence.device, keys.devices[device] == nil {
      return end(.noKey, .warning, .assertionUnverified, "the keys file holds no key for the device that the metadata name")
    }
    if keys.devices.isEmpty { return end(.noKey, .warning, .assertionUnverified, "the keys file holds no keys") }
    let own = evidence.device.map { [$0] } ?? evidence.folders.filter { keys.devices[$0] != nil }
    guard keys.appDigests.contains(assertion.appDigest) else {
      return end(.invalid, .warning, .assertionInvalid, "it was made for an app that the keys file does not name")
    }
    guard assertion.counter > 0 else { return end(.invalid, .warning, .assertionInvalid, "its counter is 0") }

    // Without a valid chain there is still the end that the metadata claim.
    guard let final = chain?.final ?? evidence.finalHash.flatMap({ Base64.digest($0)?.bytes }) else {
      return end(.invalid, .warning, .assertionInvalid, "there is no hash that it could sign")
    }
    for device in own.isEmpty ? keys.devices.keys.sorted() : own {
      guard let key = keys.devices[device] else { continue }
      if assertion.isSigned(by: key, clientDataHash: Digest.of(final).bytes) {
        (verification.assertion, verification.key) = (.verified, device)
        guard let chain else { return }
        verification.covers = .final
        cover(chain.hashes.count, evidence, &verification)
        if verification.partial == .complete, evidence.isPartial == true {
          notes.add(
            .partialMismatch, "is_partial is true, but the complete chain is signed", file: evidence.metadataFile,
            field: ".is_partial")
        }
        return
      }
      guard let chain else { continue }
      for point in chain.checkpoints.reversed() where assertion.isSigned(by: key, clientDataHash: Digest.of(point.hash).bytes) {
        (verification.assertion, verification.covers, verification.key) = (.verified, .checkpoint, device)
        verification.checkpoint = point.index
        cover(chain.frames(upTo: point), evidence, &verification)
        verification.partial = .partial
        verification.verifiedSeconds = min(verification.verifiedSeconds, point.seconds)
        notes.add(.partiallyVerified, verification.summary, file: evidence.metadataFile, field: ".assertion")
        return
      }
    }
    end(
      .invalid, .warning, .assertionInvalid,
      own.isEmpty ? "no key of the keys file made it" : "it was not made by the key of device \(own[0])")
  }

  /// Records the reach of the signed hashes: as many video frames, at the video's own times, regardless of the bundle's claims. The chain
  /// may lack a few of the last frames.
  private func cover(_ frames: Int, _ evidence: BundleEvidence, _ verification: inout BundleVerification) {
    let count = min(frames, evidence.recordedFrames)
    verification.verifiedFrames = Int64(count)
    let isComplete = count >= evidence.recordedFrames - 5
    verification.partial = isComplete ? .complete : .partial
    verification.verifiedSeconds = isComplete ? evidence.recordedSeconds : count > 0 ? evidence.frameSeconds[count - 1] : 0
  }
}
