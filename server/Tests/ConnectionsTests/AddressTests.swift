import Connections
import NIOCore
import Testing

@Suite struct AddressTests {
  private static func address(_ text: String) throws -> SocketAddress { try SocketAddress(ipAddress: text, port: 0) }

  /// What stands before a proxy's own entry was written by the client.
  @Test(arguments: [
    ("10.0.0.1", ["1.1.1.1, 2.2.2.2"], "2.2.2.2"), ("10.0.0.1", ["1.1.1.1", "2.2.2.2, 10.0.0.2"], "2.2.2.2"), ("10.0.0.1", [], "10.0.0.1"),
    ("10.0.0.1", ["2.2.2.2, nonsense"], "10.0.0.1"), ("10.0.0.1", ["10.0.0.2"], "10.0.0.1"), ("3.3.3.3", ["1.1.1.1"], "3.3.3.3"),
    ("::ffff:10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
  ]) func believesTrustedProxiesOnly(connection: String, forwardedFor: [String], client: String) throws {
    let found = ClientAddress.of(try Self.address(connection), forwardedFor: forwardedFor, trusting: ["10.0.0.1", "10.0.0.2"])
    #expect(found?.ipAddress == client)
  }

  @Test func allowsAnAddressSoManyRequestsInAnyWindow() throws {
    let (limit, start) = (AddressLimit(2, in: .seconds(60)), ContinuousClock.now)
    let (one, other) = (try Self.address("1.1.1.1"), try Self.address("2.2.2.2"))
    #expect(limit.wait(for: one, at: start) == nil)
    #expect(limit.wait(for: one, at: start + .seconds(20)) == nil)
    #expect(limit.wait(for: one, at: start + .seconds(30)) == .seconds(30))
    #expect(limit.wait(for: other, at: start + .seconds(30)) == nil)
    #expect(limit.wait(for: one, at: start + .seconds(60)) == nil)
    #expect(limit.wait(for: one, at: start + .seconds(60)) == .seconds(20))
  }

  @Test func countsANetworkOfIPv6AsOneAddress() throws {
    let limit = AddressLimit(1, in: .seconds(60))
    #expect(limit.wait(for: try Self.address("2001:db8:0:1::1")) == nil)
    #expect(limit.wait(for: try Self.address("2001:db8:0:1:ffff::2")) != nil)
    #expect(limit.wait(for: try Self.address("2001:db8:0:2::1")) == nil)
    #expect(limit.wait(for: try Self.address("1.1.1.1")) == nil)
    #expect(limit.wait(for: try Self.address("::ffff:1.1.1.1")) != nil)
  }

  @Test(arguments: [
    ("127.0.0.1:8080", "127.0.0.1", 8080, true), ("127.9.9.9:1", "127.9.9.9", 1, true), ("[::1]:65535", "::1", 65_535, true),
    ("localhost:0", "localhost", 0, true), ("0.0.0.0:80", "0.0.0.0", 80, false), ("[::]:80", "::", 80, false),
    ("host.lan:80", "host.lan", 80, false),
  ]) func readsWhatIsListenedOn(text: String, host: String, port: Int, isLoopback: Bool) throws {
    let address = try #require(ListenAddress(text))
    #expect(address.host == host && address.port == port && address.isLoopback == isLoopback)
  }

  @Test(arguments: ["", "8080", ":8080", "host", "host:", "host:65536", "host:-1"]) func refusesWhatIsNoAddress(text: String) {
    #expect(ListenAddress(text) == nil)
  }
}
