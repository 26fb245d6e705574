import CaptureServer
import Foundation
import Testing

@Suite struct SettingTests {
  private static func configuration(
    _ arguments: [String] = [], environment: [String: String] = [:], file: String? = nil, needsData: Bool = false
  ) throws -> Configuration {
    try Setting.configuration(arguments: arguments, environment: environment, file: file, needsData: needsData)
  }

  /// The sentence about what cannot be set so; `nil` where it can.
  private static func mistake(_ arguments: String...) -> String? {
    do {
      _ = try configuration(arguments)
      return nil
    } catch {
      return "\(error)"
    }
  }

  @Test(arguments: [
    ("policy", "lax", "expected strict or compat, found \"lax\""),
    ("base-url", "example.org", "expected an address such as https://captures.example.org, found \"example.org\""),
    ("base-url", "ftp://example.org", "expected an address such as https://captures.example.org, found \"ftp://example.org\""),
    ("base-url", "https://", "expected an address such as https://captures.example.org, found \"https://\""),
    ("base-url", "https://a/?b", "expected an address such as https://captures.example.org, found \"https://a/?b\""),
    ("base-url", "https://a/#b", "expected an address such as https://captures.example.org, found \"https://a/#b\""),
    ("allow-development", "maybe", "expected true or false, found \"maybe\""), ("require-key", "", "expected true or false, found \"\""),
    ("trusted-proxy", "127.0.0.1,proxy", "expected addresses such as 127.0.0.1, found \"proxy\""),
    ("store", "s3://", "expected s3://bucket/prefix?endpoint=URL&region=NAME, found s3://"),
    ("standby", "https://a/b", "expected s3://bucket/prefix?endpoint=URL&region=NAME, found https://a/b"),
    ("store", "s3://key:secret@bucket", "expected s3://bucket/prefix; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("store", "s3://bucket:80/a", "expected s3://bucket/prefix; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("store", "s3://bucket?zone=a", "zone: unknown; an S3 store has endpoint and region"),
    ("store", "s3://bucket?endpoint=minio", "endpoint: expected an address without a path, such as https://s3.example.com, found minio"),
    (
      "store", "s3://bucket?endpoint=http://a/b",
      "endpoint: expected an address without a path, such as https://s3.example.com, found http://a/b"
    ),
    ("store", "s3://bucket/a//b", "the prefix a//b has an empty part, \".\" or \"..\""),
    ("store", "s3://bucket/../b", "the prefix ../b has an empty part, \".\" or \"..\""),
  ]) func refuses(name: String, value: String, sentence: String) {
    #expect(Self.mistake("--\(name)=\(value)") == "\(name): \(sentence)")
  }

  /// The least and the most that each number may be.
  private static let numbers = [
    ("reserve", 0, 1 << 60), ("stranger-reserve", 0, 1 << 60), ("device-quota", 0, 1 << 60), ("project-quota", 0, 1 << 60),
    ("timestamp-age", 1, 2_592_000), ("timestamp-lead", 0, 86_400), ("videos-per-hour", 1, 100_000), ("upload-expiry", 60, 31_536_000),
    ("retention-days", 0, 36_500), ("conversions", 0, 64), ("conversion-seconds", 1, 604_800), ("conversion-memory", 256 << 20, 1 << 50),
    ("conversion-attempts", 1, 100), ("worker-silence", 4, 86_400), ("head-seconds", 1, 3600), ("idle-seconds", 1, 86_400),
    ("connections", 1, 100_000), ("address-connections", 1, 100_000),
  ]

  @Test(arguments: numbers) func holdsANumberToItsRange(name: String, least: Int, most: Int) throws {
    for wrong in ["\(least - 1)", "\(most + 1)", "1.5", "", "x", "99999999999999999999"] {
      #expect(Self.mistake("--\(name)", wrong) == "\(name): expected a whole number from \(least) to \(most), found \"\(wrong)\"")
    }
    let setting = try #require(Setting.all.first { $0.name == name })
    for right in [least, most] { #expect(setting.text(try Self.configuration(["--\(name)", "\(right)"])) == "\(right)") }
  }

  @Test func knowsAllNumbers() {
    let found = Setting.all.filter { Self.mistake("--\($0.name)", "x")?.contains("whole number") == true }.map(\.name)
    #expect(found.sorted() == Self.numbers.map(\.0).sorted())
  }

  @Test(arguments: [
    (["--nonsense", "1"], "unknown option --nonsense"), (["listen"], "unexpected argument listen"),
    (["--listen"], "--listen: a value is missing"),
    (["--tls-cert", "a"], "--tls-cert and --tls-key belong together"), (["--tls-key", "a"], "--tls-cert and --tls-key belong together"),
  ]) func refusesArguments(arguments: [String], sentence: String) {
    #expect(throws: Mistake(sentence)) { try Self.configuration(arguments) }
  }

  @Test func needsAFolder() {
    #expect(throws: Mistake("--data is missing: the folder where everything is kept")) { try Self.configuration(needsData: true) }
  }

  @Test func flagsComeBeforeTheEnvironmentAndThatBeforeTheFile() throws {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("takeset-\(UUID().uuidString).yaml")
    defer { try? FileManager.default.removeItem(at: file) }
    try Data("policy: strict\nreserve: 1\nconversions: 2\nbase-url: https://a.example/\napp-id: null\nallow-development: yes\n".utf8).write(
      to: file)
    let found = try Self.configuration(
      ["--reserve=3", "--require-key", "--app-id", "a", "--app-id=b, c"],
      environment: ["TAKESET_SERVER_RESERVE": "2", "TAKESET_SERVER_CONVERSIONS": "4"],
      file: file.path)
    var expected = Configuration(data: "")
    expected.policy = .strict
    expected.reserve = 3
    expected.conversions = 4
    expected.baseURL = "https://a.example"
    expected.appIDs = ["a", "b", "c"]
    expected.allowsDevelopment = true
    expected.requireKey = true
    #expect(found == expected)
  }

  @Test(arguments: [
    ("- a", "expected lines such as \"policy: strict\""), ("nonsense: 1", "unknown setting nonsense"),
    ("a: {b: 1}", "expected lines such as \"policy: strict\""),
  ])
  func refusesAFile(text: String, sentence: String) throws {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("takeset-\(UUID().uuidString).yaml")
    defer { try? FileManager.default.removeItem(at: file) }
    try Data(text.utf8).write(to: file)
    #expect(throws: Mistake("\(file.path): \(sentence)")) { try Self.configuration(file: file.path) }
    #expect(throws: Mistake("/nowhere: cannot be read")) { try Self.configuration(file: "/nowhere") }
  }

  /// What is printed can be read again.
  @Test func showsWhatItReads() throws {
    let texts = [
      "data": "/d", "listen": "0.0.0.0:80", "camera-listen": "[::1]:8080", "policy": "strict", "base-url": "https://a.example/b",
      "app-attest-root": "r.pem", "app-id": "a,b", "allow-development": "true", "require-key": "false", "trusted-proxy": "127.0.0.1,::1",
      "tls-cert": "c.pem", "tls-key": "k.pem", "store": "s3://bucket/a", "standby": "/s", "takeset": "t", "pipeline": "p.yaml",
      "log-level": "debug",
    ]
    let found = try Self.configuration(texts.sorted { $0.key < $1.key }.flatMap { ["--\($0.key)=\($0.value)"] })
    for (name, text) in texts { #expect(Setting.all.first { $0.name == name }?.text(found) == text) }
  }
}
