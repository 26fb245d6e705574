import ArgumentParser
import Datasets
import Evidence
import Model

/// `takeset.1` in man(7) macros, generated from the commands' help.
enum ManualPage {
  static func text() throws -> String {
    let root = try JSONReader(Array(TakesetCommand._dumpHelp().utf8)).value()["command"] ?? .null
    let commands = (root["subcommands"]?.array ?? []).filter { $0["shouldDisplay"]?.bool != false && $0["commandName"]?.string != "help" }
    var lines = [
      ".TH TAKESET 1 \"\" \"takeset \(TakesetCommand.tool.version)\"", ".SH NAME",
      "takeset \\- \(escaped(lowered(root["abstract"]?.string ?? "")))", ".SH SYNOPSIS", ".B takeset", ".I command", "[options]",
      ".SH DESCRIPTION",
    ]
    lines += paragraphs(root["discussion"]?.string ?? "")
    lines.append(".SH COMMANDS")
    for command in commands { lines += section(command, prefix: "takeset") }
    lines += [
      ".SH ENVIRONMENT", ".TP", ".B NO_COLOR", "Any nonempty value disables color.", ".SH SEE ALSO",
      ".BR h5dump (1),", ".BR h5ls (1)",
    ]
    return lines.joined(separator: "\n") + "\n"
  }

  private static func section(_ command: JSONValue, prefix: String) -> [String] {
    let name = "\(prefix) \(command["commandName"]?.string ?? "")"
    let nested = (command["subcommands"]?.array ?? []).filter { $0["commandName"]?.string != "help" }
    var lines = [".SS \"\(name)\""]
    lines += paragraphs(command["abstract"]?.string ?? "") + paragraphs(command["discussion"]?.string ?? "")
    for argument in command["arguments"]?.array ?? [] where argument["shouldDisplay"]?.bool != false {
      let names = (argument["names"]?.array ?? []).compactMap { name in
        name["name"]?.string.map { (name["kind"]?.string == "short" ? "-" : "--") + $0 }
      }
      if names.contains("--help") || names.contains("--version") { continue }
      let value = argument["valueName"]?.string ?? ""
      let title =
        argument["kind"]?.string == "positional"
        ? "<\(value)>" : names.joined(separator: ", ") + (argument["kind"]?.string == "option" ? " <\(value)>" : "")
      var help = argument["abstract"]?.string ?? ""
      if let usual = argument["defaultValue"]?.string { help += " Default: \(usual)." }
      lines += [".TP", ".B \"\(escaped(title))\"", escaped(help)]
    }
    return lines + nested.flatMap { section($0, prefix: name) }
  }

  /// Paragraphs of text; indented ones are examples.
  private static func paragraphs(_ text: String) -> [String] {
    text.split(separator: "\n\n").flatMap { paragraph -> [String] in
      if paragraph.hasPrefix("  ") {
        return [".PP", ".nf"] + paragraph.split(separator: "\n").map { escaped(String($0)) } + [".fi"]
      }
      return [".PP"] + paragraph.split(separator: "\n").map { escaped(String($0)) }
    }
  }

  private static func lowered(_ sentence: String) -> String {
    let text = sentence.hasSuffix(".") ? sentence.dropLast() : sentence[...]
    return (text.first.map { $0.lowercased() } ?? "") + text.dropFirst()
  }

  /// Text with backslashes, hyphens, quotes and leading macro characters escaped.
  private static func escaped(_ text: String) -> String {
    let plain = text.replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("\"", with: "\\(dq").replacing("…", with: "...")
    return plain.hasPrefix(".") || plain.hasPrefix("'") ? "\\&" + plain : plain
  }
}
