import CaptureServer
import Testing

/// The four examples that AWS publishes for its Signature Version 4 in S3, and one with all that they lack, computed by botocore.
@Suite struct S3SignatureTests {
  private static let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
  /// 24 May 2013 00:00:00 UTC.
  private static let time: Int64 = 1_369_353_600

  private static func signed(
    _ method: String = "GET", _ path: String = "/", query: [(String, String)] = [], headers: [String: String] = [:], digest: String = empty
  ) -> [String: String] {
    S3Signature(
      credentials: .init(key: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", token: nil), region: "us-east-1"
    ).headers(
      method: method, host: "examplebucket.s3.amazonaws.com", path: path, query: query, headers: headers, bodyDigest: digest, time: time)
  }

  @Test func signsTheObjectThatIsRead() {
    #expect(
      Self.signed("GET", "/test.txt", headers: ["Range": "bytes=0-9"]) == [
        "range": "bytes=0-9", "host": "examplebucket.s3.amazonaws.com", "x-amz-date": "20130524T000000Z",
        "x-amz-content-sha256": Self.empty,
        "authorization":
          "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
      ])
  }

  @Test func signsTheObjectThatIsWritten() {
    let headers = Self.signed(
      "PUT", "/" + S3Signature.encoded("test$file.text"),
      headers: ["Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"],
      digest: "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072")
    #expect(
      headers["authorization"]?.hasSuffix(
        "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
      ) == true)
  }

  @Test(
    arguments: [
      ([("lifecycle", "")], "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
      ([("prefix", "J"), ("max-keys", "2")], "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ] as [([(String, String)], String)]) func signsTheQueryOfABucket(query: [(String, String)], signature: String)
  {
    #expect(Self.signed(query: query)["authorization"]?.hasSuffix("Signature=\(signature)") == true)
  }

  @Test func signsSessionsRegionsAndOddCharacters() {
    let path = "/bucket/" + S3Signature.encoded("captures/a b/ä+~.mov", keepsSlashes: true)
    let headers = S3Signature(credentials: .init(key: "key", secret: "secret/+", token: "FwoGZ/tok=="), region: "eu-central-1").headers(
      method: "POST", host: "localhost:9000", path: path,
      query: [("uploadId", "a/b+c="), ("partNumber", "2"), ("partNumber", "10"), ("~x", "ä &")],
      headers: ["X-Amz-Checksum-Sha256": "abc="], bodyDigest: Self.empty, time: 1_709_251_198)
    #expect(
      headers == [
        "host": "localhost:9000", "x-amz-date": "20240229T235958Z", "x-amz-content-sha256": Self.empty,
        "x-amz-security-token": "FwoGZ/tok==", "x-amz-checksum-sha256": "abc=",
        "authorization":
          "AWS4-HMAC-SHA256 Credential=key/20240229/eu-central-1/s3/aws4_request, SignedHeaders=host;x-amz-checksum-sha256;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=995bbe91ee151042aca1016969d86458542b8d12048e1acbb0cd7b78453411da",
      ])
  }

  @Test func encodesAllButUnreservedCharacters() {
    #expect(S3Signature.encoded("AZaz09-._~") == "AZaz09-._~")
    #expect(S3Signature.encoded("/ +ä@`[{:") == "%2F%20%2B%C3%A4%40%60%5B%7B%3A")
    #expect(S3Signature.encoded("a/b c", keepsSlashes: true) == "a/b%20c")
    #expect(S3Signature.encoded([("b", "1"), ("a b", "="), ("a", "2"), ("a", "10")]) == "a=10&a=2&a%20b=%3D&b=1")
  }

  @Test(arguments: [
    ("s3://bucket", "https://s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com", "", "us-east-1"),
    ("s3://bucket/a/b/?region=eu-west-1", "https://s3.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com", "a/b/", "eu-west-1"),
    ("s3://bucket/a?endpoint=https://minio.lan:443/", "https://minio.lan", "minio.lan", "a/", "us-east-1"),
    ("s3://bucket?endpoint=http://127.0.0.1:9000&region=x", "http://127.0.0.1:9000", "127.0.0.1:9000", "", "x"),
  ]) func readsAnAddress(text: String, endpoint: String, host: String, prefix: String, region: String) throws {
    let location = try S3Location(text)
    #expect(
      [location.bucket, location.endpoint, location.host, location.prefix, location.region] == ["bucket", endpoint, host, prefix, region])
  }
}
