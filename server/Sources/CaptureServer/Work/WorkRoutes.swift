import Evidence
import Foundation
import GRDB
import HTTPTypes
import Hummingbird
import NIOPosix

/// `/api/v1/work`: captures for workers on other machines (`takeset-server work`), and what they make of them.
struct WorkRoutes {
  let data: DataFolder
  let database: ServerDatabase
  let store: any CaptureStore
  let intake: Intake
  let conversions: ConversionQueue

  private var leases: ConversionLeases { conversions.leases }

  func add(to routes: Routes) {
    let work = routes.open(to: .key(.work)).group("api/v1/work")
    work.post(use: assign)
    work.post(":lease/alive") { _, context in
      try await leases.extend(lease(context))
      return Response(status: .noContent)
    }
    work.delete(":lease") { _, context in
      let lease = try lease(context)
      try await leases.giveBack(lease)
      discard(lease)
      conversions.wake()
      return Response(status: .noContent)
    }
    work.get(":lease/files/**", use: file)
    work.put(":lease/result/**", use: receive)
    work.post(":lease/done", use: finish)
  }

  private static let requestLimit = 4 << 10
  private static let doneLimit = 32 << 20

  private func lease(_ context: CaptureContext) throws -> String {
    guard let id = context.parameters.get("lease"), UUID(uuidString: id) != nil else {
      throw Failure(.notFound, "NOT_FOUND", "There is no such work")
    }
    return id.lowercased()
  }

  private func decoded<Value: Decodable>(_ type: Value.Type, _ request: Request, limit: Int) async throws -> Value {
    var body: [UInt8] = []
    do {
      try await request.readBody(limit: Int64(limit)) { body.append(contentsOf: $0.readableBytesView) }
    } catch let cut as BodyCutOff {
      throw cut.failure
    }
    guard let value = try? JSONDecoder().decode(type, from: Data(body)) else { throw Failure.invalid("the body is not understood") }
    return value
  }

  @Sendable private func assign(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let asked = try await decoded(WorkRequest.self, request, limit: Self.requestLimit)
    guard asked.version == CaptureServer.version else {
      throw Failure(
        .conflict, "OTHER_VERSION", "The server is version \(CaptureServer.version): a worker of another one may convert differently")
    }
    let worker = ClientName.shown(asked.worker)
    guard let assignment = try await conversions.assign(to: worker, callsPython: asked.callsPython == true) else {
      return Response(status: .noContent)
    }
    context.logger.info("capture \(assignment.capture): the worker \(worker) converts it")
    return try JSONAnswer.response(Answer(assignment, context))
  }

  @Sendable private func file(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let capture = try await leases.capture(lease(context))
    let name = try SessionName.parts(of: request.uri.path, after: 5).joined(separator: "/")
    guard let file = try await database.pool.read({ try CaptureFile.fetchOne($0, key: ["capture": capture.id, "name": name]) })
    else { throw Failure(.notFound, "FILE_NOT_FOUND", "The capture has no such file") }
    return try FileAnswer(store: store, file: file, name: name, isShown: false).response(to: request)
  }

  // MARK: Results

  private func folder(_ lease: String) -> String { data.work + "/" + lease }

  private func discard(_ lease: String) { DurableFile.removeFolder(folder(lease)) }

  /// The path of a file of a result. Throws `Failure` 400 for a name that no conversion writes.
  private func path(_ name: [String]) throws -> String {
    let name = try SessionName.file(name)
    let isKnown =
      ["thumbnail.jpg", "overlay.jpg"].contains(name) || name.hasPrefix("dataset/") || name.hasPrefix(CapturePreview.folder + "/")
    guard isKnown, !name.split(separator: "/").contains(where: { $0.hasPrefix(".") }) else {
      throw Failure.invalid("a conversion writes no file of this name")
    }
    return name
  }

  @Sendable private func receive(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let lease = try lease(context)
    _ = try await leases.capture(lease)
    let name = try path(try SessionName.parts(of: request.uri.path, after: 5))
    let staging = try Staging(in: data)
    defer { staging.discard() }
    let (file, _) = try await request.receive(as: "file", in: staging, intake)
    // It may have ended while the bytes came.
    _ = try await leases.capture(lease)
    let result = folder(lease) + "/" + Converter.result
    let target = result + "/" + name
    try await NIOThreadPool.singleton.runIfActive {
      do {
        try DurableFile.makeFolders(URL(fileURLWithPath: target).deletingLastPathComponent().path)
        try DurableFile.rename(file.path, to: target)
      } catch {
        guard Self.isTaken(name, in: result) else { throw error }
        throw Failure.invalid("\(name): there is a file where this has a folder, or a folder of this name")
      }
    }
    return Response(status: .noContent)
  }

  /// Whether there is a folder of that name, or a file where the name has a folder.
  private static func isTaken(_ name: String, in result: String) -> Bool {
    var path = result
    let kinds = name.split(separator: "/").compactMap { part -> mode_t? in
      path += "/" + part
      var status = stat()
      return lstat(path, &status) == 0 ? status.st_mode & S_IFMT : nil
    }
    let isWhole = kinds.count == name.split(separator: "/").count
    return kinds.dropLast(isWhole ? 1 : 0).contains { $0 != S_IFDIR } || isWhole && kinds.last == S_IFDIR
  }

  @Sendable private func finish(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let lease = try lease(context)
    let done = try await decoded(WorkDone.self, request, limit: Self.doneLimit)
    _ = try await leases.capture(lease)
    let work = try WorkFolder(below: data.work, name: lease)
    let result = work.path + "/" + Converter.result
    let found = try await NIOThreadPool.singleton.runIfActive {
      try DurableFile.makeFolders(result)
      let found = FolderContents.files(below: result)
      // Each file is on the disk; so is its name now.
      for folder in Set(found.keys.map { URL(fileURLWithPath: result + "/" + $0).deletingLastPathComponent().path }) {
        try DurableFile.syncFolder(folder)
      }
      return found
    }
    guard done.result.outcome != .converted || found == done.files else {
      throw Failure(.conflict, "FILES_MISSING", "Other files have arrived than were listed; send them again")
    }
    // From here on it is the server's, and ends in one way or another, also if the worker goes away.
    try await uninterrupted {
      defer { work.discard() }
      let capture = try await conversions.leases.take(lease)
      await conversions.finish(capture, done.result, in: work)
    }
    conversions.wake()
    return Response(status: .noContent)
  }
}
