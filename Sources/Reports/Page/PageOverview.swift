import Datasets
import Evidence
import Foundation
import Model
import Runs
import Steps

/// The part of a page above the table of takes: what is in the dataset, where it comes from, and what was found. Plain HTML, which shows
/// without the script too.
struct PageOverview {
  let source: ReportedTakes
  let summaries: [TakeSummary]

  private func row(_ cells: Markup...) -> Markup { "<tr>\(cells.joined())</tr>" }
  private func head(_ text: String) -> Markup { "<th scope=\"row\">\(text)</th>" }
  private func number(_ text: String) -> Markup { "<td class=\"number\">\(text)</td>" }
  private func cell(_ text: String) -> Markup { "<td>\(text)</td>" }

  /// Text of a finding's page, in which names of files and options are between backticks.
  private func prose(_ text: String) -> Markup {
    text.split(separator: "`", omittingEmptySubsequences: false).enumerated().map { index, part -> Markup in
      index % 2 == 1 ? "<code>\(String(part))</code>" : "\(String(part))"
    }.joined()
  }

  private func table(_ label: String, _ columns: [(String, isNumber: Bool)], _ rows: [Markup], style: String = "") -> Markup {
    let heads = columns.map { name, isNumber -> Markup in
      isNumber ? "<th scope=\"col\" class=\"number\">\(name)</th>" : "<th scope=\"col\">\(name)</th>"
    }
    return
      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"\(label)\"><table class=\"\(style)\"><thead><tr>\(heads.joined())</tr></thead><tbody>\(rows.joined())</tbody></table></div>"
  }

  // MARK: Head

  private var written: [TakeSummary] { summaries.filter { $0.take.outcome == .written } }

  private func count(_ outcome: TakeRecord.Outcome) -> Int { summaries.count { $0.take.outcome == outcome } }

  private var unreadable: Int { written.count { $0.problem != nil } }
  /// Those that can be read and have warnings.
  private var warned: Int { written.count { $0.problem == nil && $0.take.hasWarnings } }
  private var sound: Int { written.count - unreadable - warned }

  /// `2 failed, 1 rejected, 7 written with warnings, 5 written without warnings`.
  var verdict: String {
    let parts = [
      (count(.failed), "failed"), (count(.rejected), "rejected"), (unreadable, "unreadable"), (warned, "written with warnings"),
      (sound, "written without warnings"),
    ].filter { $0.0 > 0 }.map { "\($0.0.grouped) \($0.1)" }
    return parts.isEmpty ? "nothing yet" : parts.joined(separator: ", ")
  }

  /// Shares of the outcomes, as a bar.
  var bar: Markup {
    let shares = [("written", sound), ("warned", warned), ("rejected", count(.rejected)), ("failed", count(.failed) + unreadable)]
    let all = max(summaries.count, 1)
    var left = 0.0
    let boxes = shares.filter { $0.1 > 0 }.map { name, count -> Markup in
      let width = 1000 * Double(count) / Double(all)
      defer { left += width }
      return
        "<rect class=\"\(name)\" x=\"\(String(format: "%.2f", left))\" y=\"0\" width=\"\(String(format: "%.2f", width))\" height=\"8\"/>"
    }
    return
      "<svg class=\"bar\" viewBox=\"0 0 1000 8\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Outcomes: \(verdict)\">\(boxes.joined())</svg>"
  }

  var figures: Markup {
    let takes = Set(summaries.map { $0.take.id.take }).count
    let (framesIn, framesOut) = (source.record?.totals["frames_in"]?.integer, written.reduce(0) { $0 &+ $1.take.framesOut })
    let seconds = written.reduce(0) { $0 + ($1.contents?.seconds ?? 0) }
    let isPartial = written.contains { $0.contents == nil }
    let bytes = written.reduce(Int64(0)) { $0 &+ ($1.take.output?.bytes ?? 0) } &+ (source.record?.index.bytes ?? 0)
    let parts = SplitPart.allCases.map { part in (part.rawValue, written.count { $0.split == part.rawValue }) }
    let split = parts.filter { $0.1 > 0 }.map { "\($0.1.grouped) \($0.0)" }.joined(separator: ", ")
    let missing = written.reduce(0) { $0 &+ ($1.contents?.missing ?? 0) }
    func figure(_ name: String, _ value: String, _ aside: String) -> Markup {
      "<div><dt>\(name)</dt><dd>\(value)</dd><dd class=\"aside\">\(aside)</dd></div>"
    }
    return """
      <dl class="figures">\(figure("Takes", takes.grouped, "\(count(.rejected).grouped) rejected, \(count(.failed).grouped) failed"))\
      \(figure("Episodes", written.count.grouped, split.isEmpty ? "\(warned.grouped) with warnings" : split))\
      \(figure("Frames", framesOut.grouped, framesIn.map { "of \(Int(clamping: $0).grouped) in the takes" } ?? ""))\
      \(figure("Duration", Figures.duration(seconds), isPartial ? "of the episodes that can be read" : "\(counted(missing, "frame")) missing in gaps"))\
      \(figure("On disk", Figures.bytes(bytes), written.isEmpty ? "" : "\(Figures.bytes(bytes / Int64(written.count))) per episode"))</dl>
      """
  }

  // MARK: Sections

  var splits: Markup {
    guard let record = source.record else { return "" }
    let all = max(written.reduce(0) { $0 &+ $1.take.framesOut }, 1)
    let rows = SplitPart.allCases.map(\.rawValue).map { part -> Markup in
      let members = written.filter { $0.split == part }
      let frames = members.reduce(0) { $0 &+ $1.take.framesOut }
      let seconds = members.reduce(0) { $0 + ($1.contents?.seconds ?? 0) }
      let name: Markup = members.isEmpty ? "\(part)" : "<a href=\"#split=\(part)\">\(part)</a>"
      return row(
        "<th scope=\"row\">\(name)</th>", number(members.count.grouped), number(frames.grouped),
        number(String(format: "%.1f %%", 100 * Double(frames) / Double(all))), number(Figures.duration(seconds)))
    }
    let seed = record.splits["seed"]?.integer.map { ", seed \($0)" } ?? ""
    let rule = record.splits["rule"]?.string.map { "Rule: \($0)\(seed)" } ?? ""
    let columns = [("Part", false), ("Episodes", true), ("Frames", true), ("Share", true), ("Duration", true)]
    return
      "<section aria-labelledby=\"splits\"><h2 id=\"splits\">Split</h2>\(table("Split", columns, rows))<p class=\"note\">\(rule)</p></section>"
  }

  /// The keys that training code reads, with their shapes.
  var keys: Markup {
    struct Form: Hashable {
      var key: String
      var shape: String
      var dtype: String
    }
    var forms: [Form: (episodes: Int, raw: Int)] = [:]
    let folder = ShardNames.dataPath
    for take in written.map(\.take) {
      for array in take.output?.arrays ?? [] where array.path.hasPrefix(folder) {
        let shape = array.shape.isEmpty ? "" : (["T"] + array.shape.dropFirst().map(String.init)).joined(separator: " x ")
        let form = Form(key: String(array.path.dropFirst(folder.count)), shape: shape, dtype: array.dtype)
        forms[form, default: (0, 0)].episodes += 1
        forms[form, default: (0, 0)].raw &+= array.rawBytes
      }
    }
    let sorted = forms.sorted {
      ($0.key.key, -$0.value.episodes, $0.key.shape, $0.key.dtype) < ($1.key.key, -$1.value.episodes, $1.key.shape, $1.key.dtype)
    }
    let rows = sorted.map { form, count -> Markup in
      let size = form.dtype.last?.isWholeNumber == true ? Figures.bytes(Int64(count.raw)) : ""
      return row(
        "<th scope=\"row\"><code>\(form.key)</code></th>", cell(form.shape), "<td><code>\(form.dtype)</code></td>",
        number(count.episodes.grouped), number(size))
    }
    guard !rows.isEmpty else { return "" }
    let columns = [("Key", false), ("Shape", false), ("Type", false), ("Episodes", true), ("Uncompressed", true)]
    return "<section aria-labelledby=\"keys\"><h2 id=\"keys\">Data</h2>\(table("Keys", columns, rows))</section>"
  }

  /// Histograms of the columns of actions.
  var actions: Markup {
    let all = ActionHistograms.merged(summaries.lazy.compactMap { $0.contents?.actions })
    guard !all.isEmpty else { return "" }
    return "<section aria-labelledby=\"actions\"><h2 id=\"actions\">Actions</h2>\(all.map(\.markup).joined())</section>"
  }

  /// Findings about the dataset, and how many takes have which.
  var findings: Markup {
    var takes: [FindingCode: (takes: Int, severity: Finding.Severity, times: Int)] = [:]
    for summary in summaries {
      var own: [FindingCode: (severity: Finding.Severity, times: Int)] = [:]
      for finding in summary.take.findings {
        let known = own[finding.code]
        own[finding.code] = (Self.worse(known?.severity, finding.severity), (known?.times ?? 0) &+ (finding.count ?? 1))
      }
      if let rejection = summary.rejection { own[rejection] = (own[rejection]?.severity ?? .info, own[rejection]?.times ?? 1) }
      for (code, found) in own {
        let known = takes[code]
        takes[code] = ((known?.takes ?? 0) + 1, Self.worse(known?.severity, found.severity), (known?.times ?? 0) &+ found.times)
      }
    }
    let sorted = takes.sorted { a, b in
      let (first, second) = (Self.rank(a.value.severity), Self.rank(b.value.severity))
      return (first, -a.value.takes, a.key.rawValue) < (second, -b.value.takes, b.key.rawValue)
    }
    let rows = sorted.map { code, found -> Markup in
      let word = code.page.group == .rejected ? "rejected" : found.severity.rawValue
      return row(
        "<td><span class=\"badge \(word)\">\(word)</span></td>",
        "<th scope=\"row\"><a href=\"#code=\(code.rawValue)\"><code>\(code.rawValue)</code></a></th>",
        number(found.takes.grouped), number(found.times.grouped),
        "<td>\(prose(code.page.meaning)) <span class=\"explain\">\(prose(code.page.advice))</span></td>")
    }
    let about = source.record?.findings ?? []
    guard !rows.isEmpty || !about.isEmpty else {
      return "<section aria-labelledby=\"findings\"><h2 id=\"findings\">Findings</h2><p>None.</p></section>"
    }
    // Findings of one code are explained once.
    var order: [FindingCode] = []
    for finding in about where !order.contains(finding.code) { order.append(finding.code) }
    let dataset = order.map { code -> Markup in
      let sentences = about.filter { $0.code == code }.map { finding -> Markup in
        """
        <p><span class="badge \(finding.severity.rawValue)">\(finding.severity.rawValue)</span> <code>\(finding.code.rawValue)</code>: \(finding.message)</p>
        """
      }
      return "<li>\(sentences.joined())<p class=\"explain\">\(prose(code.page.meaning)) \(prose(code.page.advice))</p></li>"
    }
    let columns = [("Severity", false), ("Code", false), ("Takes", true), ("Times", true), ("Meaning, and what to do", false)]
    let list: Markup = dataset.isEmpty ? "" : "<h3>About the dataset as a whole</h3><ul class=\"findings\">\(dataset.joined())</ul>"
    let ofTakes: Markup = rows.isEmpty ? "" : "<h3>Of takes</h3>\(table("Findings of takes", columns, rows, style: "explained"))"
    return "<section aria-labelledby=\"findings\"><h2 id=\"findings\">Findings</h2>\(list)\(ofTakes)</section>"
  }

  private static func rank(_ severity: Finding.Severity?) -> Int {
    switch severity {
    case .error: 0
    case .warning: 1
    case .info: 2
    case nil: 3
    }
  }

  private static func worse(_ a: Finding.Severity?, _ b: Finding.Severity) -> Finding.Severity {
    rank(a) < rank(b) ? a ?? b : b
  }

  var provenance: Markup {
    guard let record = source.record else { return "" }
    let (tool, libraries) = (record.tool, record.tool["libraries"]?.object ?? [:])
    let version = ["version", "revision"].compactMap { tool[$0]?.string }.filter { !$0.isEmpty }
    var facts: [(String, String)] = [
      ("written by", "takeset " + (version.count == 2 ? "\(version[0]) (\(version[1]))" : version.joined())),
      (
        "libraries",
        libraries.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.string ?? $0.value.canonicalText)" }.joined(separator: ", ")
      ),
      ("record_sha256", source.recordDigest ?? ""), ("pipeline_sha256", record.pipelineDigest),
      ("index", "\(record.index.path), \(Figures.bytes(record.index.bytes)), sha256 \(record.index.digest)"),
    ]
    facts.removeAll { $0.1.isEmpty }
    let list = facts.map { name, value -> Markup in "<dt>\(name)</dt><dd class=\"digest\">\(value)</dd>" }
    return
      "<section aria-labelledby=\"provenance\"><h2 id=\"provenance\">Provenance</h2><dl class=\"facts\">\(list.joined())</dl></section>"
  }

  var pipeline: Markup {
    guard let record = source.record else { return "" }
    return
      "<section aria-labelledby=\"pipeline\"><h2 id=\"pipeline\">Pipeline</h2><ol class=\"steps\">\(steps(record.pipeline).joined())</ol></section>"
  }

  /// The options that a step has unless others are given.
  private static func defaults(of step: String) -> [String: JSONValue] {
    let types: [any Step.Type] = Registry.readers + Registry.transforms + Registry.writers
    return types.first { $0.name == step }?.init().optionValues().object ?? [:]
  }

  /// The reader, the transforms and the writer, each with its options.
  private func steps(_ pipeline: JSONValue) -> [Markup] {
    func step(_ kind: String, _ value: JSONValue?) -> Markup? {
      switch value {
      case .string(let name): return "<li>\(kind) <code>\(name)</code></li>"
      case .object(let members):
        let named = members["name"]?.string
        guard let name = named ?? members.keys.sorted().first else { return nil }
        let options = (named == nil ? members[name]?.object ?? [:] : members.filter { $0.key != "name" }).sorted { $0.key < $1.key }
        // What was chosen comes before what is as usual.
        let defaults = Self.defaults(of: name)
        let chosen = options.filter { $0.value != defaults[$0.key] }, usual = options.filter { $0.value == defaults[$0.key] }
        let words = (chosen + usual).map { "\($0.key): \($0.value.string ?? $0.value.canonicalText)" }.joined(separator: ", ")
        return "<li>\(kind) <code>\(name)</code> <span class=\"note\">\(words)</span></li>"
      default: return nil
      }
    }
    let transforms = (pipeline["transforms"]?.array ?? []).map { step("", $0) }
    return ([step("reader", pipeline["reader"])] + transforms + [step("writer", pipeline["writer"])]).compactMap(\.self)
  }
}
