package import Model

extension Episode {
  /// Options of steps that name a stream which the take does not have: `align.latency.jonts`. Where no take of a dataset has it, the name
  /// is a mistake.
  package var unusedOptions: [String] {
    get { extensions[UnusedOptions.self]?.paths ?? [] }
    set { extensions[UnusedOptions.self] = UnusedOptions(paths: newValue) }
  }

  private struct UnusedOptions: Sendable { var paths: [String] }

  /// Notes each name in an option by stream that the take before the step does not have.
  package mutating func noteUnused(_ names: some Sequence<String>, in option: String, of step: any Step.Type, before: Episode) {
    for name in names.sorted() where before.streams[StreamName(name)] == nil {
      findings.append(Finding(.optionUnused, "\(step.name): \(option) names \(name), which the take does not have", field: name))
      unusedOptions.append("\(step.name).\(option).\(name)")
    }
  }
}
