import ArgumentParser

/// How inputs are searched for takes.
struct InputOptions: ParsableArguments {
  @Flag(help: "Also search directories that are symbolic links; links among the files of a take are never followed.")
  var followLinks = false
}
