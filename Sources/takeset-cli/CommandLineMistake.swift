import ArgumentParser
import Evidence
import Foundation
import Model
import Steps

/// Messages for misspelled commands and options, which the argument parser misinterprets.
enum CommandLineMistake {
  /// The message for a first word that is not a command: `rnu X`, `help rnu`.
  static func command(_ arguments: [String]) -> String? {
    var (names, known): ([String], Set<String>) = ([], ["help"])
    for command in TakesetCommand.configuration.subcommands {
      let name = command.configuration.commandName ?? ""
      if command.configuration.shouldDisplay { names.append(name) }
      known.insert(name)
    }
    let word = arguments.first == "help" ? arguments.dropFirst().first : arguments.first
    guard let word, !word.hasPrefix("-"), !known.contains(word) else { return nil }
    let meant = Spelling.hint(for: word, among: names)
    return "there is no command \"\(word)\"\(meant)\nUsage: takeset <command>; commands: \(names.joined(separator: ", "))"
  }

  /// The message for the first unknown long option, after the parser has reported an error.
  static func option(_ arguments: [String]) -> String? {
    guard let dump = try? JSONReader(Array(TakesetCommand._dumpHelp().utf8)).value(), let root = dump["command"] else { return nil }
    var command = root
    for word in arguments {
      guard let next = command["subcommands"]?.array?.first(where: { $0["commandName"]?.string == word }) else { break }
      command = next
    }
    let known = (command["arguments"]?.array ?? []).flatMap { $0["names"]?.array ?? [] }
      .filter { $0["kind"]?.string == "long" }.compactMap { $0["name"]?.string }
    for argument in arguments.prefix(while: { $0 != "--" }) where argument.hasPrefix("--") {
      let name = String(argument.dropFirst(2).prefix { $0 != "=" })
      guard !known.contains(name), let meant = Spelling.nearest(to: name, among: known) else { continue }
      return "there is no option --\(name); did you mean --\(meant)?"
    }
    return nil
  }
}
