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
  /// The digits of the time as they stand in the text.
  const char *timestamp;
  size_t timestamp_count;
  uint8_t has_depth_index;
  uint8_t has_depth;
  uint8_t has_null_depth;
} csimdjson_pose;

/// Bytes after the text that must be readable.
#define CSIMDJSON_PADDING 64

/// A reader of poses, for texts one after the other.
typedef struct csimdjson_parser csimdjson_parser;
csimdjson_parser *csimdjson_new(void);
void csimdjson_free(csimdjson_parser *parser);

/// Reads a list of poses with simdjson and hands each to `visit`. Returns how many, or -1 for a text that is anything but a list of whole
/// entries with the usual keys: broken, cut off, with NaN, with other keys. What `visit` was handed by then is of no use.
int64_t csimdjson_read_poses(
    csimdjson_parser *parser, const uint8_t *text, size_t count, void *context,
    void (*visit)(void *context, const csimdjson_pose *pose));

#ifdef __cplusplus
}
#endif

#endif
