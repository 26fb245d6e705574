#ifndef CSIMDJSON_H
#define CSIMDJSON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// An entry of a list of poses.
typedef struct {
  double number;  // rgbIndex
  double depth_index;
  double depth;
  double transform[16];
  /// Digits of the time as written in the text.
  const char *timestamp;
  size_t timestamp_count;
  uint8_t has_depth_index;
  uint8_t has_depth;
  uint8_t has_null_depth;
} csimdjson_pose;

/// Number of bytes after the text that must be readable.
#define CSIMDJSON_PADDING 64

/// A parser of poses, reusable for one text after the other.
typedef struct csimdjson_parser csimdjson_parser;
csimdjson_parser *csimdjson_new(void);
void csimdjson_free(csimdjson_parser *parser);

/// Reads a list of poses with simdjson and passes each to `visit`. Returns their number, or -1 for any text other than a list of complete
/// entries with the usual keys: invalid or truncated JSON, NaN, other keys. Poses passed to `visit` before that must be discarded.
int64_t csimdjson_read_poses(
    csimdjson_parser *parser, const uint8_t *text, size_t count, void *context,
    void (*visit)(void *context, const csimdjson_pose *pose));

#ifdef __cplusplus
}
#endif

#endif
