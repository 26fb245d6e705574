import CaptureServer
import Foundation
import HTTPTypes
import Testing

@Suite struct PermissionTests {
  @Test(
    arguments: [
      (.all, [.read, .upload, .change, .ask, .watch]), (.upload, [.upload, .ask]), (.read, [.read, .ask, .watch]), (.work, [.work]),
      (.monitor, [.watch]),
    ] as [(APIKey.Power, Set<Permission>)]) func aKeyDoesWhatItIsFor(power: APIKey.Power, permissions: Set<Permission>)
  {
    #expect(Set(Permission.allCases.filter(power.allows)) == permissions)
  }

  /// A new route needs a line here.
  @Test func eachRouteIsOpenToWhomItShouldBe() async throws {
    let routes = try await TestServer().routes.entries.map(\.line).sorted()
    #expect(routes == Self.table.sorted())
  }

  @Test(arguments: APIKey.Power.allCases) func routesRefuseKeysThatAreForSomethingElse(power: APIKey.Power) async throws {
    let server = try await TestServer("--require-key")
    let key = try await server.key(power)
    for entry in server.routes.entries {
      guard let permission = entry.access.permission else { continue }
      let status = await server.response(to: entry, key: key).status
      if case .unanswered = entry.access, !power.allows(permission) {
        #expect(status == .serviceUnavailable, "\(entry.line)")
      } else {
        #expect((status == .forbidden) == !power.allows(permission), "\(entry.line): \(status)")
      }
    }
  }

  @Test func routesRefuseWhoHasNoKeyWhereKeysAreNeeded() async throws {
    let (strict, open) = (try await TestServer("--require-key"), try await TestServer("--require-key=false"))
    for entry in strict.routes.entries {
      let needsKey =
        switch entry.access {
        case .key, .address: true
        default: false
        }
      #expect(await strict.response(to: entry).asksForKey == needsKey, "\(entry.line)")
      #expect(await !open.response(to: entry).asksForKey, "\(entry.line)")
    }
  }

  @Test func aWrongKeyOpensNoRouteThatTakesKeys() async throws {
    let server = try await TestServer("--require-key=false")
    for entry in server.routes.entries {
      let response = await server.response(to: entry, key: "tks_wrong")
      switch entry.access {
      case .everybody: #expect(!response.asksForKey, "\(entry.line)")
      case .unanswered: #expect(response.status == .serviceUnavailable, "\(entry.line)")
      case .key, .device, .address: #expect(response.asksForKey, "\(entry.line)")
      }
    }
  }

  private static let capture = "/api/v1/captures/6e1fbd3a-6b5e-4f0c-9d5e-0f2f5f3c1a11"

  @Test(arguments: [
    (APIKey.Power.read, HTTPRequest.Method.get, "/api/v1/captures", true), (.read, .get, "/videos", true), (.read, .get, "/metrics", false),
    (.upload, .head, capture, true), (.upload, .get, "/files/6e1fbd3a", false),
  ])
  func aMethodInAHeaderNeedsAKeyForChanges(power: APIKey.Power, method: HTTPRequest.Method, path: String, isRefused: Bool) async throws {
    let server = try await TestServer("--require-key")
    let name = try #require(HTTPField.Name("X-HTTP-Method-Override"))
    let key = try await server.key(power)
    #expect(await server.response(method, path, key: key).status != .forbidden)
    #expect((await server.response(method, path, key: key, headers: [name: "DELETE"]).status == .forbidden) == isRefused)
  }

  @Test(arguments: ["/nothing", "/api/v1/nothing", "/captures", "/files/a/b"], [HTTPRequest.Method.get, .post])
  func anUnknownAddressIsNotFoundWhateverTheKey(path: String, method: HTTPRequest.Method) async throws {
    let server = try await TestServer("--require-key")
    #expect(await server.response(method, path).status == .notFound)
    #expect(await server.response(method, path, key: "tks_wrong").status == .notFound)
  }

  private static let table = """
    GET / read
    GET /api/v1/captures read
    POST /api/v1/captures/video upload, or a device
    DELETE /api/v1/captures/{id} change
    GET /api/v1/captures/{id} read
    HEAD /api/v1/captures/{id} ask
    POST /api/v1/captures/{id}/convert change
    DELETE /api/v1/captures/{id}/link change
    POST /api/v1/captures/{id}/link change
    GET /api/v1/devices read
    GET /api/v1/devices/challenge upload, or a device
    POST /api/v1/devices/register upload, or a device
    DELETE /api/v1/sessions/{session} upload
    GET /api/v1/sessions/{session} upload
    PUT /api/v1/captures/{id}/labels change
    PUT /api/v1/sessions/{session} upload
    POST /api/v1/sessions/{session}/complete upload
    HEAD /api/v1/sessions/{session}/files/** upload
    PUT /api/v1/sessions/{session}/files/** upload
    POST /api/v1/work work
    DELETE /api/v1/work/{lease} work
    POST /api/v1/work/{lease}/alive work
    POST /api/v1/work/{lease}/done work
    GET /api/v1/work/{lease}/files/** work
    PUT /api/v1/work/{lease}/result/** work
    GET /camera upload, also by address
    POST /captures/{id}/convert change
    POST /captures/{id}/delete change
    POST /captures/{id}/labels change
    GET /captures/{id}/download read
    GET /captures/{id}/files/** read
    HEAD /captures/{id}/files/** read
    GET /captures/{id}/overlay.jpg read
    GET /captures/{id}/preview/{name} read
    POST /captures/{id}/share change
    GET /captures/{id}/thumbnail.jpg read
    POST /captures/{id}/unshare change
    POST /control/start change, also by address
    POST /control/stop change, also by address
    GET /datasets read
    GET /datasets/{name}/download read
    GET /datasets/{name}/report read
    GET /devices read
    GET /favicon.ico everybody
    DELETE /files upload
    GET /files upload
    HEAD /files upload
    OPTIONS /files upload
    PATCH /files upload
    POST /files upload
    PUT /files upload
    DELETE /files/{upload} upload
    GET /files/{upload} upload
    HEAD /files/{upload} upload
    OPTIONS /files/{upload} upload
    PATCH /files/{upload} upload
    POST /files/{upload} upload
    PUT /files/{upload} upload
    GET /health everybody
    GET /jobs read
    GET /k/{key}/camera upload, also by address
    POST /k/{key}/upload upload, or no answer
    GET /k/{key}/viewer read, also by address
    POST /keys change
    POST /keys/{key}/revoke change
    GET /live read, also by address
    GET /metrics watch
    GET /ready everybody
    GET /server watch
    GET /shown/{link} everybody
    GET /shown/{link}/overlay.jpg everybody
    GET /shown/{link}/preview/{name} everybody
    GET /shown/{link}/thumbnail.jpg everybody
    GET /status read, also by address
    POST /upload upload, or no answer
    GET /uploads/{name} read, also by address
    HEAD /uploads/{name} read, also by address
    GET /verify/{id} read
    GET /videos read, also by address
    GET /viewer read, also by address
    GET /viewer-webrtc.html read, also by address
    GET /viewer.html read, also by address
    """.split(separator: "\n").map(String.init)
}
