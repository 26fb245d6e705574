/// The pipeline of conversions without `--pipeline`: the converter's own, and the depth measured.
enum ConversionPipeline {
  static let text = """
    version: 1
    reader: auto
    transforms:
      - align: {tolerance: 0.05, method: nearest}
      - resize-image: {width: 320, height: 240, mode: fit}
      - resample-depth: {unit: m}
      - pose-frame: {axes: arkit}
      - actions: {kind: relative-6d}
      - split: {valid: 0.1, test: 0, group: day, seed: 0}
      - verify-hash-chain: {require: structure}
      - verify-depth: {every: 1, on-miss: finding}
    writer:
      hdf5: {compression: 4, image: raw, image-compression: 0}

    """
}
