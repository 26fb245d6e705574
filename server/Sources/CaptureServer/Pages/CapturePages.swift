import Evidence
import Foundation
import GRDB
import HTTPTypes
import Hummingbird
import Model

/// One capture with what is proven of it, and what can be done with it.
struct CapturePages {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let intake: Intake
  let conversions: ConversionQueue
  let page: Page

  private var deeds: CaptureDeeds { CaptureDeeds(database: database, intake: intake, conversions: conversions) }

  func add(to routes: Routes) {
    routes.open(to: .key(.read)).get("verify/:id") { request, context in
      let (id, project) = (context.parameters.get("id")?.lowercased() ?? "", context.key?.project)
      let found = try await found(Capture.filter(key: id)) { project == nil || project == $0.project }
      let audience = Audience.members(canChange: context.key?.allows(.change) ?? true, root: configuration.root(for: request))
      return try await show(found, to: audience, context)
    }
    let changing = routes.open(to: .key(.change))
    changing.post("captures/:id/share") { request, context in
      let id = try CapturesRoutes.id(context)
      _ = try await deeds.share(
        id, context, root: configuration.root(for: request))
      return Response.redirect(to: "/verify/\(id)", type: .normal)
    }
    changing.post("captures/:id/labels") { request, context in
      let id = try CapturesRoutes.id(context)
      let form = try LabelsForm(String(buffer: try await request.body.collect(upTo: CaptureLabels.limit)))
      do {
        try await deeds.label(id, context, known: form.fields.revision) { capture, labels in
          try form.apply(to: &labels, own: capture.evidence.flatMap(CaptureEvidence.init)?.labels ?? CaptureLabels())
        }
        return Response.redirect(to: "/verify/\(id)#labels", type: .normal)
      } catch let failure as Failure where [.badRequest, .preconditionFailed].contains(failure.status) {
        // What somebody has typed stays.
        let found = try await found(Capture.filter(key: id)) { _ in true }
        return try await show(
          found, to: .members(canChange: true, root: configuration.root(for: request)), context, returning: (form, failure))
      }
    }
    for (name, deed) in [("convert", CaptureDeeds.convert), ("delete", CaptureDeeds.delete), ("unshare", CaptureDeeds.unshare)] {
      changing.post("captures/:id/\(name)") { _, context in
        let id = try CapturesRoutes.id(context)
        try await deed(deeds)(id, context)
        return Response.redirect(to: name == "delete" ? "/" : "/verify/\(id)", type: .normal)
      }
    }
  }

  /// Guests learn of no device.
  private static func name(_ found: Found, isGuest: Bool) -> String {
    let device = isGuest ? nil : Device.source(platform: found.device?.platform, model: found.device?.model)
    return CaptureName.shown(
      found.capture.name, receivedAt: found.capture.receivedAt, seconds: found.capture.seconds,
      source: device ?? found.capture.type.rawValue)
  }

  /// Adds the routes for everybody: the pages of captures whose link was given away.
  func addShared(to routes: Routes) {
    routes.open(to: .everybody).get("shown/:link") { _, context in
      let link = try context.parameters.require("link")
      return try await show(found(Capture.filter(Column("link") == link)) { _ in true }, to: .guests(link: link), context)
    }
  }

  /// The people who see a page, on which its contents depend.
  private enum Audience {
    /// Whoever may see the project.
    case members(canChange: Bool, root: String)
    /// Whoever has the link: what is proven and shown, and nothing that leads to anything else.
    case guests(link: String)

    /// Address of what is below a capture.
    func address(of capture: Capture) -> String {
      switch self {
      case .members: "/captures/\(capture.id)"
      case .guests(let link): "/shown/\(link)"
      }
    }
  }

  // MARK: One capture

  private struct Level {
    var id: String
    var name: String
    var mark: String
    var tone: String
    var meaning: String
  }
  private struct Fact {
    var name: String
    var value: String
  }
  private struct Finding {
    var severity: String
    var tone: String
    var code: String
    var message: String
  }
  private struct File {
    var name: String
    var href: String
    var bytes: String
    var sha256: String
  }
  private struct Dataset {
    var name: String
    var href: String
  }

  private struct Player {
    /// Address of the preview's files, with a slash at its end.
    var folder: String
    /// Address of a movie whose frames the rows are; empty where there is none.
    var movie: String
    /// Seconds from the first frame of the take to the first row.
    var first: Double
  }
  private struct CaptureContents {
    var id: String
    var name: String
    var status: String
    var tone: String
    var reason: String?
    var isProcessing: Bool
    var badge: String?
    var badgeTone: String
    var thumbnail: String?
    var overlay: String?
    var player: Player?
    var trajectory: CapturePreview.Trajectory?
    var levels: [Level]
    var unverified: [String]
    var facts: [Fact]
    var dataset: Dataset?
    var depth: [Fact]
    var takes: [Fact]
    var findings: [Finding]
    var files: [File]
    var moreFiles: String?
    /// What somebody has said of it, and where it can be changed.
    var labels: LabelsSection?
    // A section is repeated for each element of a list: these are for what is around it.
    var hasImages: Bool
    var hasLevels: Bool
    var hasUnverified: Bool
    var hasDepth: Bool
    var hasTakes: Bool
    var hasFindings: Bool
    var hasFiles: Bool
    var isGuest: Bool
    var isShared: Bool
    /// Address that can be given away.
    var link: String?
    var canConvert: Bool
    var canChange: Bool
    /// Whether another try is the next thing to do.
    var isFailed: Bool
  }

  /// Files of a capture that its page lists; a folder may have thousands.
  private static let filesLimit = 200

  private struct Found {
    var capture: Capture
    var files: [CaptureFile]
    var fileCount: Int
    var dataset: String?
    /// Ids of its episodes there.
    var episodes: [String]
    /// Whether the dataset has its labels.
    var isLabelled: Bool
    var device: Device?
  }

  /// A capture that the reader may see. Throws `Failure` 404.
  private func found(
    _ request: QueryInterfaceRequest<Capture>, isVisible: @escaping @Sendable (Capture) -> Bool
  ) async throws -> Found {
    let found = try await database.pool.read { database -> Found? in
      guard let capture = try request.fetchOne(database), isVisible(capture) else { return nil }
      let files = CaptureFile.filter(Column("capture") == capture.id)
      return Found(
        capture: capture, files: try files.order(Column("name")).limit(Self.filesLimit).fetchAll(database),
        fileCount: try files.fetchCount(database),
        dataset: try String.fetchOne(database, sql: "SELECT dataset FROM merged WHERE capture = ?", arguments: [capture.id]),
        episodes: try String.fetchAll(database, sql: "SELECT id FROM take WHERE capture = ?", arguments: [capture.id]),
        isLabelled: try Bool.fetchOne(
          database, sql: "SELECT labelsRevision = ? FROM merged WHERE capture = ?", arguments: [capture.labelsRevision, capture.id])
          ?? true,
        device: try capture.device.flatMap { try Device.fetchOne(database, key: $0) })
    }
    guard let found else { throw Failure.captureNotFound }
    return found
  }

  /// - Parameter returning: A form of labels that cannot be taken, and why.
  private func show(
    _ found: Found, to audience: Audience, _ context: CaptureContext, returning: (form: LabelsForm, failure: Failure)? = nil
  ) async throws -> Response {
    var contents = contents(found, audience)
    if contents.labels?.canChange == true {
      contents.labels?.tasks = try await database.pool.read { try LabelsSection.tasks(of: found.capture.project, $0) }
    }
    if let (form, failure) = returning { contents.labels?.show(form, failure) }
    var place: String?
    if case .members = audience { place = "/" }
    return try await page.response(
      Self.name(found, isGuest: contents.isGuest), template: "capture", contents, place: place, for: context,
      script: contents.player == nil ? nil : PageFiles.captureScript, status: returning?.failure.status ?? .ok)
  }

  private func contents(_ found: Found, _ audience: Audience) -> CaptureContents {
    let (capture, evidence) = (found.capture, found.capture.evidence.flatMap(CaptureEvidence.init))
    let (canChange, link): (Bool?, String?) =
      switch audience {
      // Whoever may only read could keep it for longer than the key.
      case .members(let canChange, let root): (canChange, canChange ? capture.link.map { "\(root)/shown/\($0)" } : nil)
      case .guests: (nil, nil)
      }
    let isGuest = canChange == nil
    let address = audience.address(of: capture)
    func shown(_ facts: [CaptureEvidence.Fact]?) -> [Fact] { (facts ?? []).map { Fact(name: $0.name, value: $0.value) } }
    let facts = self.facts(found, isGuest: isGuest) + shown(evidence?.facts).filter { !isGuest || $0.name != CaptureEvidence.signingDevice }
    let levels = (evidence?.levels ?? []).map {
      Level(
        id: $0.id, name: $0.name, mark: $0.isReached ? "\u{2713}" : "\u{2717}", tone: $0.isReached ? "good" : "soft",
        meaning: $0.isReached ? $0.meaning : "Not proven: " + $0.meaning)
    }
    let findings = (evidence?.findings ?? []).map { finding in
      // What a capture was rejected for is more than the converter's warning about it.
      let isCause = capture.status == .rejected && !finding.message.isEmpty && capture.reason?.contains(finding.message) ?? false
      // It says what the badge says, which is no warning.
      let isPartial = finding.code == FindingCode.partiallyVerified.rawValue
      let severity = isCause ? "error" : isPartial ? "info" : finding.severity
      let tones = ["error": "bad", "warning": "fair"]
      return Finding(
        severity: severity, tone: isPartial ? VerificationBadge.State.partial.tone : tones[severity] ?? "soft", code: finding.code,
        message: finding.message)
    }
    let files = (isGuest ? [] : found.files).map {
      File(
        name: $0.name, href: "/captures/\(capture.id)/files/\(Figure.address($0.name))", bytes: $0.bytes.grouped, sha256: $0.sha256)
    }
    func image(_ name: String) -> String? {
      data.hasImage(of: capture.id, name) ? "\(address)/\(name)" : nil
    }
    let (thumbnail, overlay) = (image("thumbnail.jpg"), image("overlay.jpg"))
    let preview = CapturePreview(besides: data.conversion(of: capture.id))
    // A movie may say where and by whom it was recorded, so guests see images of it.
    let movie =
      isGuest
      ? nil
      : found.files.first {
        capture.type == .video ? $0.name == "video.mp4" : capture.type == .movie && MediaType.isMovie($0.name)
      }
    let player = preview.map { _ in
      Player(
        folder: "\(address)/\(CapturePreview.folder)/",
        movie: movie.map { "\(address)/files/\(Figure.address($0.name))" } ?? "", first: evidence?.firstRow ?? 0)
    }
    let (unverified, depth, takes) = (evidence?.unverified ?? [], shown(evidence?.depthFacts), shown(evidence?.takes))
    return CaptureContents(
      id: capture.id, name: Self.name(found, isGuest: isGuest), status: capture.status.rawValue, tone: capture.status.tone,
      // Other reasons are about this server, or about another capture.
      reason: isGuest && capture.status != .rejected ? nil : capture.reason.map { Figure.short($0) },
      isProcessing: capture.status == .processing,
      badge: evidence?.badgeText, badgeTone: evidence?.badge?.state.tone ?? "soft", thumbnail: thumbnail,
      overlay: overlay, player: player, trajectory: preview?.trajectory, levels: levels, unverified: unverified, facts: facts,
      dataset: (isGuest ? nil : found.dataset).map { Dataset(name: $0, href: "/datasets/\(Figure.address($0))/report") }, depth: depth,
      takes: takes,
      findings: findings, files: files,
      moreFiles: !isGuest && found.fileCount > files.count ? "These are the first \(files.count) of \(found.fileCount) files." : nil,
      labels: canChange.flatMap {
        LabelsSection(
          capture, own: evidence?.labels ?? CaptureLabels(), takes: CaptureLabels.takes(of: found.episodes).count,
          isLabelled: found.isLabelled, canChange: $0)
      },
      hasImages: thumbnail != nil || overlay != nil || player != nil, hasLevels: !levels.isEmpty, hasUnverified: !unverified.isEmpty,
      hasDepth: !depth.isEmpty, hasTakes: !takes.isEmpty, hasFindings: !findings.isEmpty, hasFiles: !files.isEmpty,
      isGuest: isGuest, isShared: !isGuest && capture.link != nil, link: link,
      canConvert: canChange == true && capture.status != .processing && !files.isEmpty,
      canChange: canChange == true, isFailed: !isGuest && capture.status == .failed)
  }

  /// Returns its kind, origin and name.
  private func facts(_ found: Found, isGuest: Bool) -> [Fact] {
    let capture = found.capture
    let facts: [(name: String, value: String?, isForGuests: Bool)] = [
      ("type", capture.type.rawValue, true), ("duration", capture.seconds.map(Figure.duration), true),
      ("rows", capture.rows.map { "\($0)" }, true), ("size", Figure.size(capture.bytes), true),
      ("received", Figure.time(capture.receivedAt), true), ("project", Figure.short(capture.project, 100), false),
      ("device", capture.device.map { Figure.short($0, 100) }, false), ("request", Self.signature(capture, by: found.device?.level), true),
      ("name", CaptureName.isMadeUp(capture.name) ? capture.name : nil, false), ("id", capture.id, true),
    ]
    return facts.compactMap { fact in
      fact.value.flatMap { isGuest && !fact.isForGuests ? nil : Fact(name: fact.name, value: $0) }
    }
  }

  private static func signature(_ capture: Capture, by level: String?) -> String {
    let key = level == Device.attested ? "attested" : "registered"
    return switch (capture.signature, capture.isVerified) {
    case ("s2", true): "signed by the device's \(key) key, over every byte"
    case ("s1", true): "signed by the device's \(key) key, without the body"
    case ("none", _): "without signature"
    case ("s0", _): "with a placeholder instead of a signature"
    default: "signed, but not verified"
    }
  }
}
