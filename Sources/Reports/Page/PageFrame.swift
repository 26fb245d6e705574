import Datasets
import Evidence
import Foundation
import Model

/// The HTML around the contents of a page: head, sections, the empty table, the data and the script.
struct PageFrame {
  let page: ReportPage
  let overview: PageOverview
  let live: ReportPage.Live?
  /// Names of the measures that any episode has.
  private let measures: [String]

  init(page: ReportPage, overview: PageOverview, live: ReportPage.Live?) {
    (self.page, self.overview, self.live) = (page, overview, live)
    let known = overview.summaries.reduce(into: Set<String>()) { $0.formUnion(($1.take.measures?.known ?? [:]).keys) }
    measures = Measures.Name.allCases.map(\.rawValue).filter(known.contains)
  }

  /// The columns of the table; those that no take has a value for are left out.
  private var columns: [(key: String, name: String, style: String)] {
    let all = [
      ("id", "Take", ""), ("outcome", "Outcome", ""), ("findings", "Findings", "codes"), ("split", "Split", "wide"),
      ("reader", "Reader", "wide"), ("task", "Task", "wide"), ("success", "Success", ""),
      ("measure", "Measure", "number"), ("frames", "Frames", "number"), ("seconds", "Duration", "number"),
      ("missing", "Missing", "number wide"),
      ("error", "Largest error", "number wide"),
      ("bytes", "Size", "number size"), ("verified", "Verification", "wide verified"),
    ]
    let summaries = overview.summaries
    return all.filter { key, _, _ in
      switch key {
      case "split": summaries.contains { $0.split != nil }
      case "task": summaries.contains { $0.labels.task != nil }
      case "success": summaries.contains { $0.labels.success != nil }
      case "measure": !measures.isEmpty
      case "verified": summaries.contains { $0.take.verification != nil }
      default: true
      }
    }
  }

  /// The page, with a block of JSON for each take.
  func html(details: [[UInt8]], omission: String? = nil) -> [UInt8] {
    var output = Array("<!DOCTYPE html>\n<html lang=\"en\">\n\(head.text)\n<body>\n".utf8)
    output += body(omission).text.utf8
    output += "\n<script type=\"application/json\" id=\"data\">".utf8
    output += Self.scriptSafe(data.canonicalBytes)
    output += "</script>\n".utf8
    for (index, block) in details.enumerated() {
      output += "<script type=\"application/json\" id=\"take-\(index)\">".utf8
      output += block
      output += "</script>\n".utf8
    }
    output += "<script>\(PageFiles.script)</script>\n</body>\n</html>\n".utf8
    return output
  }

  /// JSON as the content of a script element: "<" is escaped, so that no text in it ends the element or starts a comment.
  static func scriptSafe(_ json: [UInt8]) -> [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(json.count)
    for byte in json {
      if byte == UInt8(ascii: "<") { output += "\\u003c".utf8 } else { output.append(byte) }
    }
    return output
  }

  /// The name by which a page is recognized as one that this program wrote.
  static let generator = "takeset report"

  // MARK: Head

  /// The content security policy: only the page's own style sheet and script, known by their digests, may apply; images are in the page;
  /// nothing is fetched. The script cannot make markup of text (Trusted Types).
  private var policy: String {
    func digest(_ text: String) -> String { "'sha256-\(Data(Digest.of(text).bytes).base64EncodedString())'" }
    return """
      default-src 'none'; img-src data:; style-src \(digest(PageFiles.style)); script-src \(digest(PageFiles.script)); base-uri 'none'; form-action 'none'; \
      require-trusted-types-for 'script'; trusted-types 'none'
      """
  }

  private var head: Markup {
    // Without the script, the page reloads itself by the element.
    let seconds = live.map { max(1, Int($0.interval.rounded(.up))) }
    let refresh: Markup = seconds.map { "<noscript><meta http-equiv=\"refresh\" content=\"\($0)\"></noscript>\n" } ?? ""
    return """
      <head>
      <meta charset="utf-8">
      <meta http-equiv="Content-Security-Policy" content="\(policy)">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="color-scheme" content="light dark">
      <meta name="referrer" content="no-referrer">
      <meta name="generator" content="\(Self.generator) \(page.tool.version)">
      \(refresh)<title>\(page.title): \(overview.verdict)</title>
      <style>\(Markup(verbatim: PageFiles.style))</style>
      </head>
      """
  }

  // MARK: Body

  private func body(_ omission: String?) -> Markup {
    let entries = overview.summaries.count
    return """
      <a class="skip" href="#takes">Skip to the takes</a>
      <header>
      <h1>\(page.title)</h1>
      <p class="lead">\(entries.grouped) \(entries == 1 ? "entry" : "entries"): \(overview.verdict).</p>
      \(overview.bar)
      \(notices)
      \(overview.figures)
      </header>
      <main>
      \(overview.findings)
      <section aria-labelledby="takes">
      <h2 id="takes" tabindex="-1">Takes</h2>
      \(filters)
      \(tools)
      <div class="scroll" tabindex="0" role="region" aria-label="Table of takes">
      <table id="table" aria-describedby="columns">\(tableHead)<tbody id="rows"></tbody></table>
      </div>
      <p class="note" id="columns">Missing: frames that would fit into the gaps, and the number of gaps. Largest error: sample time minus row time, of all \
      streams.</p>
      \(omission.map { "<p class=\"note\">\($0)</p>" } ?? "")
      <noscript><p class="notice">The table of takes is made by a script in this page, which is switched off.</p></noscript>
      </section>
      \(MeasureHistograms(overview.summaries).markup)
      \(overview.actions)
      <div class="columns"><div>\(overview.splits)\(overview.pipeline)\(overview.provenance)</div>\(overview.keys)</div>
      </main>
      <footer><p>Made by takeset report \(page.tool.version). Sizes are decimal: 1 MB is 1,000,000 bytes. Takes are sorted worst first.</p></footer>
      """
  }

  private var notices: Markup {
    var notices = overview.source.notes
    if overview.source.record == nil {
      notices.append(
        live == nil
          ? "The run has not finished: this page shows the takes that it has converted. Splits, findings about the dataset and its provenance come with the manifest."
          : "A run is in progress: this page shows the takes that are finished.")
    }
    let sentences = notices.map { sentence -> Markup in "<p class=\"notice\">\(sentence)</p>" }
    guard live != nil else { return sentences.joined() }
    return
      "\(sentences.joined())<p class=\"notice\">The page reloads itself while the run goes on. <button type=\"button\" id=\"pause\" aria-pressed=\"false\">Pause</button></p>"
  }

  private var filters: Markup {
    func select(_ id: String, _ label: String, _ choices: [(value: String, name: String)]) -> Markup {
      let options = choices.map { value, name -> Markup in "<option value=\"\(value)\">\(name)</option>" }
      return "<label>\(label)<select id=\"\(id)\">\(options.joined())</select></label>"
    }
    func present(_ values: some Sequence<String>) -> [(value: String, name: String)] { Set(values).sorted().map { ($0, $0) } }
    let summaries = overview.summaries
    let outcomes = present(summaries.map(\.take.outcome.rawValue))
    let severities = [
      ("", "any"), ("error", "errors"), ("warning", "warnings or errors"), ("info", "any finding"), ("none", "no finding"),
    ]
    // A list with a text for each take chooses nothing.
    let tasks = Set(summaries.compactMap(\.labels.task)), hasSuccess = summaries.contains { $0.labels.success != nil }
    let byTask: Markup =
      tasks.isEmpty || tasks.count > 100 ? "" : select("task", "Task", [("", "any")] + present(summaries.map { $0.labels.task ?? "none" }))
    let bySuccess: Markup =
      hasSuccess ? select("success", "Success", [("", "any"), ("yes", "yes"), ("no", "no"), ("none", "unknown")]) : ""
    let byMeasure: Markup =
      measures.isEmpty
      ? ""
      : """
      \(select("measure", "Measure", [("", "none")] + measures.map { ($0, $0) }))\
      <label class="bound">from<input id="from" type="number" step="any"></label><label class="bound">below<input id="to" type="number" step="any"></label>
      """
    return """
      <form id="filters" role="search" aria-label="Filter takes">
      <label class="text">Text<input id="q" type="search" autocomplete="off" spellcheck="false"></label>
      \(select("outcome", "Outcome", [("", "any")] + outcomes))\
      \(select("severity", "Severity", severities))\
      \(select("split", "Split", [("", "any")] + present(summaries.map { $0.split ?? "none" })))\
      \(select("reader", "Reader", [("", "any")] + present(summaries.map { $0.take.reader ?? "none" })))\
      \(byTask)\(bySuccess)\(byMeasure)\
      \(select("code", "Finding", [("", "any")] + present(summaries.flatMap(\.codes).map(\.rawValue))))\
      \(select("size", "Rows", ["25", "50", "100", "500"].map { ($0, $0) }))\
      <button type="reset">Clear filters</button>
      </form>
      """
  }

  private var tools: Markup {
    """
    <div class="tools">
    <p id="count" role="status"></p>
    <button type="button" id="open-all">Open all on this page</button>
    <button type="button" id="close-all">Close all</button>
    <span class="space"></span>
    <button type="button" id="first">First</button>
    <button type="button" id="previous">Previous</button>
    <p id="place"></p>
    <button type="button" id="next">Next</button>
    <button type="button" id="last">Last</button>
    </div>
    """
  }

  private var tableHead: Markup {
    let heads = columns.map { key, name, style -> Markup in
      "<th scope=\"col\" class=\"\(style)\" data-key=\"\(key)\"><button type=\"button\">\(name)</button></th>"
    }
    return "<thead><tr><td class=\"picture\"></td>\(heads.joined())</tr></thead>"
  }

  // MARK: Data

  /// The measures of each take in the order of `measures`; empty where it has none.
  private var measured: [JSONValue] {
    overview.summaries.map { summary in
      guard let known = summary.take.measures?.known else { return [] }
      return .array(measures.map { known[$0].map { .number($0) } ?? .null })
    }
  }

  private var data: JSONValue {
    let codes = Set(overview.summaries.flatMap(\.codes))
    let pages = codes.map { code in
      (code.rawValue, JSONValue.object(["meaning": .string(code.page.meaning), "advice": .string(code.page.advice)]))
    }
    return [
      "rows": .array(overview.summaries.map(\.row)), "codes": .object(Dictionary(uniqueKeysWithValues: pages)),
      "measures": .array(measures.map { .string($0) }), "measured": .array(measured), "reload": live.map { .number($0.interval) } ?? .null,
    ]
  }
}

/// The style sheet and the script that are in every page.
enum PageFiles {
  static let style = String(decoding: PackageResources.page_css, as: UTF8.self)
  static let script = String(decoding: PackageResources.page_js, as: UTF8.self)
}
