import ArgumentParser
import Datasets
import Evidence
import Foundation
import Model
import Provenance
import Reports
import Steps

struct SignCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sign", abstract: "Sign a dataset, so that others can verify who made it from what.",
    discussion: """
      Verifies the dataset, then writes attestation.json into it: an in-toto statement with SLSA provenance, in a DSSE envelope \
      signed with Ed25519. It names the record, dataset.h5 and every shard by their SHA-256, the pipeline, the tool and the \
      inputs. The same dataset and key give the same bytes.

        openssl genpkey -algorithm ed25519 -out key.pem
        openssl pkey -in key.pem -pubout -out public.pem
        takeset sign dataset/ --key key.pem
        takeset verify dataset/ --public-key public.pem

      Exit codes: 2 the dataset differs from its manifest, and nothing is signed; 64 the key cannot be used; 73 there is \
      another attestation.
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(help: ArgumentHelp("The private key, PKCS#8 in PEM.", valueName: "file"), completion: .file())
  var key: String
  @Flag(help: "Replace another attestation.")
  var replace = false
  @OptionGroup var jobs: JobOptions
  @OptionGroup var console: OutputOptions

  func run() throws {
    let dataset = try dataset(at: directory)
    let privateKey = try SignatureKeys.privateKey(key, warning: console.style(for: STDERR_FILENO))
    let threads = jobs.threads
    var verification = try Verification(directory: directory, inputs: false, threads: threads, external: CheckProcess.checks)
    verification.refuseUnlisted()
    guard verification.isSound else {
      for difference in verification.differences { standardError("\(difference.path): \(difference.message)") }
      standardError("takeset: \(directory) differs from its manifest; nothing is signed")
      throw ExitCode(2)
    }
    var signature = DatasetSignature(dataset, threads: threads)
    signature.replaces = replace
    let summary = try signature.write(privateKey)
    if !console.quiet {
      let state = summary.isUpToDate ? "signed already" : "signed"
      standardOutput("\(summary.path): \(state) by the key \(summary.keyID.prefix(16)); \(counted(summary.files, "file")) and the record")
    }
  }
}

/// Keys in files.
enum SignatureKeys {
  /// Warns of a key that others can read. Throws `UsageError`.
  static func privateKey(_ path: String, warning style: Style) throws -> Ed25519.PrivateKey {
    let bytes = try contents(path)
    let real = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    let mode = (try? FileManager.default.attributesOfItem(atPath: real)[.posixPermissions]) as? NSNumber
    if let mode, mode.intValue & 0o077 != 0 {
      standardError("\(style.warning("warning")): others can read the private key \(path); chmod 600 \(path)")
    }
    do { return try Ed25519.PrivateKey(pem: bytes) } catch { throw UsageError("the key \(path) \(error)") }
  }

  /// Throws `UsageError`.
  static func publicKey(_ path: String) throws -> Ed25519.PublicKey {
    let bytes = try contents(path)
    do { return try Ed25519.PublicKey(pem: bytes) } catch { throw UsageError("the key \(path) \(error)") }
  }

  private static func contents(_ path: String) throws -> [UInt8] {
    guard let handle = FileHandle(forReadingAtPath: path), let data = try? handle.read(upToCount: (1 << 16) + 1) else {
      throw UsageError("the key \(path) cannot be read")
    }
    return Array(data)
  }
}
