#ifndef CFFMPEG_H
#define CFFMPEG_H

#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/dovi_meta.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

// Macros that Swift does not import.
static inline int cffmpeg_again(void) { return AVERROR(EAGAIN); }
static inline int cffmpeg_end(void) { return AVERROR_EOF; }
static inline int cffmpeg_denied(void) { return AVERROR(EACCES); }
static inline int cffmpeg_io(void) { return AVERROR(EIO); }
static inline int64_t cffmpeg_no_time(void) { return AV_NOPTS_VALUE; }

// What a decoder logs, because some damage is reported in no other way. `opaque` of its context points to this.
struct cffmpeg_log {
  int errors;
  // Whether a frame that is missing before another one is an error, too, as in a stream without an index. H.264 numbers its frames; FFmpeg puts
  // a copy in place of one that is missing, and says so for debugging only.
  int counts_gaps;
};

// Counts errors. Nothing is printed.
static inline void cffmpeg_count_errors(void *source, int level, const char *format, va_list arguments) {
  (void)arguments;
  int is_gap = level == AV_LOG_DEBUG && strncmp(format, "Frame num gap", 13) == 0;
  if ((level > AV_LOG_ERROR && !is_gap) || !source) return;
  const AVClass *class = *(const AVClass **)source;
  if (class != avcodec_get_class()) return;
  struct cffmpeg_log *log = (struct cffmpeg_log *)((AVCodecContext *)source)->opaque;
  if (log && (!is_gap || log->counts_gaps)) ++log->errors;
}
static inline void cffmpeg_quieten(void) { av_log_set_callback(cffmpeg_count_errors); }

// Gives the decoder cleared buffers, so that pixels that damaged data leave unwritten are the same in every run and leak no other memory.
static inline int cffmpeg_cleared_buffer(AVCodecContext *context, AVFrame *frame, int flags) {
  int status = avcodec_default_get_buffer2(context, frame, flags);
  if (status < 0) return status;
  for (int plane = 0; plane < AV_NUM_DATA_POINTERS && frame->buf[plane]; plane++)
    memset(frame->buf[plane]->data, 0, frame->buf[plane]->size);
  return status;
}
static inline void cffmpeg_clear_buffers(AVCodecContext *context) { context->get_buffer2 = cffmpeg_cleared_buffer; }

/// Reads the frame size from a sample's own headers, which may differ from the file's index; 0 where they have none. No frame is decoded or
/// allocated.
void cffmpeg_coded_size(const AVCodecParameters *parameters, const AVPacket *packet, int *width, int *height);

/// Loads FFmpeg's libraries unless they are loaded. Returns NULL, or the system's error message.
const char *cffmpeg_load(void);

// FFmpeg's release, or NULL if its smallest library cannot be loaded.
const char *cffmpeg_version(void);

#endif
