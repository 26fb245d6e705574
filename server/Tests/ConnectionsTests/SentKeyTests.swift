import Connections
import Foundation
import HummingbirdCore
import Testing

@Suite struct SentKeyTests {
  private static func basic(_ text: String) -> String { "Basic " + Data(text.utf8).base64EncodedString() }

  @Test(arguments: [
    ("Bearer k", "k"), ("bEaReR  k", "k"), (basic("anyone:k"), "k"), (basic(":k"), "k"), (basic("k:"), "k"), (basic("a:b:c"), "b:c"),
    ("Bearer", ""), ("k", ""), ("Bearer k k", ""), ("Digest k", ""), ("Basic ?", ""), (basic(":"), ""),
  ]) func readsAHeader(header: String, key: String) {
    #expect(SentKey.of(header) == key)
  }

  @Test(arguments: [
    ("/live?key=a", "a"), ("/k/a/camera", "a"), ("/k/a/camera?key=b", "b"), ("/k/a", "header"), ("/live", "header"), ("/live?key=", ""),
  ]) func prefersTheAddress(address: String, key: String) {
    #expect(SentKey.of(URI(address), authorization: "Bearer header") == key)
  }

  @Test func findsNone() {
    #expect(SentKey.of(URI("/live"), authorization: nil) == nil)
  }
}
