/// The place of a sample's bytes among the files of a take.
///
/// The bytes may be inside something inside something else: the file is as the manifest lists it, which may be an archive; the member is
/// one of its files; the part is one of an upload; and the data may be compressed.
package struct SampleOrigin: Equatable, Sendable {
  /// A file in a zip or tar.
  package struct Member: Equatable, Sendable {
    /// The member's name in the archive, unchanged.
    package var name: String
    /// The member's stored bytes in the archive, after its header.
    package var data: Range<Int64>
    /// Size of its contents in bytes.
    package var bytes: Int64
    /// Compression of the stored bytes; `nil` where they are the contents.
    package var compression: String?

    package init(name: String, data: Range<Int64>, bytes: Int64, compression: String?) {
      (self.name, self.data, self.bytes, self.compression) = (name, data, bytes, compression)
    }
  }

  /// A part of a `multipart/form-data` body, by its bytes in the file or member.
  package struct Part: Equatable, Sendable {
    package var name: String
    package var range: Range<Int64>

    package init(name: String, range: Range<Int64>) { (self.name, self.range) = (name, range) }
  }

  /// A part of the file by its number: an entry of a list, a keyframe or a message of its topic, from 0; a line, from 1; a packet of a video in
  /// decoding order, from 0.
  package struct Record: Equatable, Sendable {
    /// The unit that records are counted in: members of a list, lines of a table, packets or key frames of a video, messages of a topic.
    package enum Kind: String, Sendable { case entry, line, packet, keyframe, message }
    package var kind: Kind
    package var number: Int

    package init(_ kind: Kind, _ number: Int) { (self.kind, self.number) = (kind, number) }
  }

  /// Relative to the take, `/`-separated, as in the manifest's list of inputs.
  package var file: String
  package var member: Member?
  package var part: Part?
  /// Compression of the file, member or part: gzip, zlib or deflate.
  package var compression: String?
  /// The bytes: of the inflated data where they are compressed, else of the part, the member or the file.
  package var range: Range<Int64>
  package var record: Record?
  /// The bytes as text, where they are a line or an entry; at most some kilobytes.
  package var text: String?

  package init(file: String, member: Member? = nil, range: Range<Int64>) { (self.file, self.member, self.range) = (file, member, range) }

  /// The bytes of the file on disk that are the sample's; `nil` where they are compressed.
  package var bytesInFile: Range<Int64>? {
    guard compression == nil, member?.compression == nil else { return nil }
    let start = (member?.data.lowerBound ?? 0) + (part?.range.lowerBound ?? 0)
    return (start + range.lowerBound)..<(start + range.upperBound)
  }
}
