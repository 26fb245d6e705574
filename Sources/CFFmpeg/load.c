// FFmpeg's functions, each resolved on its first call.
//
// libavcodec and libavformat depend on a hundred other libraries, which take longer to load than a small take to convert. So nothing is
// linked with them; they are loaded when a video is opened. The compiler checks the functions below against FFmpeg's own declarations.

#include "CFFmpeg.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT(number) #number
#define NAME(library, major) library ".so." TEXT(major)

// The versions of the headers at compile time.
enum library { UTIL, CODEC, FORMAT, SCALE };
static const char *const names[] = {
    NAME("libavutil", LIBAVUTIL_VERSION_MAJOR), NAME("libavcodec", LIBAVCODEC_VERSION_MAJOR),
    NAME("libavformat", LIBAVFORMAT_VERSION_MAJOR), NAME("libswscale", LIBSWSCALE_VERSION_MAJOR)};
static void *handles[4];

static void *library(enum library number) {
  void *handle = __atomic_load_n(&handles[number], __ATOMIC_ACQUIRE);
  if (!handle) {
    // Concurrent calls get the same handle.
    handle = dlopen(names[number], RTLD_LAZY | RTLD_LOCAL);
    if (handle) __atomic_store_n(&handles[number], handle, __ATOMIC_RELEASE);
  }
  return handle;
}

const char *cffmpeg_load(void) {
  for (enum library number = UTIL; number <= SCALE; number++)
    if (!library(number)) return dlerror();
  return NULL;
}

static void *find(enum library number, const char *function) {
  void *handle = library(number);
  void *found = handle ? dlsym(handle, function) : NULL;
  if (!found) {
    // `cffmpeg_load` is called first; a library without the function does not match the headers at compile time.
    fprintf(stderr, "%s has no %s\n", names[number], function);
    exit(1);
  }
  return found;
}

#define FORWARD(library, type, name, parameters, arguments)              \
  type name parameters {                                                 \
    static type(*known) parameters;                                      \
    type(*function) parameters = __atomic_load_n(&known, __ATOMIC_RELAXED); \
    if (!function) {                                                     \
      function = (type(*) parameters)find(library, #name);               \
      __atomic_store_n(&known, function, __ATOMIC_RELAXED);              \
    }                                                                    \
    return function arguments;                                           \
  }

FORWARD(UTIL, const char *, av_version_info, (void), ())
const char *cffmpeg_version(void) { return library(UTIL) ? av_version_info() : NULL; }
FORWARD(UTIL, const char *, av_color_primaries_name, (enum AVColorPrimaries a), (a))
FORWARD(UTIL, const char *, av_color_range_name, (enum AVColorRange a), (a))
FORWARD(UTIL, const char *, av_color_space_name, (enum AVColorSpace a), (a))
FORWARD(UTIL, const char *, av_color_transfer_name, (enum AVColorTransferCharacteristic a), (a))
FORWARD(UTIL, AVRational, av_d2q, (double a, int b), (a, b))
FORWARD(UTIL, void, av_dict_free, (AVDictionary * *a), (a))
FORWARD(UTIL, AVDictionaryEntry *, av_dict_get, (const AVDictionary *a, const char *b, const AVDictionaryEntry *c, int d), (a, b, c, d))
FORWARD(UTIL, int, av_dict_set, (AVDictionary * *a, const char *b, const char *c, int d), (a, b, c, d))
FORWARD(UTIL, double, av_display_rotation_get, (const int32_t a[9]), (a))
FORWARD(UTIL, void, av_display_rotation_set, (int32_t a[9], double b), (a, b))
FORWARD(UTIL, AVFrame *, av_frame_alloc, (void), ())
FORWARD(UTIL, void, av_frame_free, (AVFrame * *a), (a))
FORWARD(UTIL, int, av_frame_get_buffer, (AVFrame * a, int b), (a, b))
FORWARD(UTIL, int, av_frame_make_writable, (AVFrame * a), (a))
FORWARD(UTIL, void, av_frame_move_ref, (AVFrame * a, AVFrame *b), (a, b))
FORWARD(UTIL, void, av_frame_unref, (AVFrame * a), (a))
FORWARD(UTIL, void, av_freep, (void *a), (a))
FORWARD(UTIL, const char *, av_get_pix_fmt_name, (enum AVPixelFormat a), (a))
FORWARD(UTIL, void, av_log_set_callback, (void (*a)(void *, int, const char *, va_list)), (a))
FORWARD(UTIL, void *, av_malloc, (size_t a), (a))
FORWARD(UTIL, void, av_max_alloc, (size_t a), (a))
FORWARD(UTIL, const AVPixFmtDescriptor *, av_pix_fmt_desc_get, (enum AVPixelFormat a), (a))
FORWARD(UTIL, int, av_strerror, (int a, char *b, size_t c), (a, b, c))

FORWARD(CODEC, int, av_new_packet, (AVPacket * a, int b), (a, b))
FORWARD(CODEC, AVPacket *, av_packet_alloc, (void), ())
FORWARD(CODEC, void, av_packet_free, (AVPacket * *a), (a))
FORWARD(CODEC, void, av_packet_rescale_ts, (AVPacket * a, AVRational b, AVRational c), (a, b, c))
FORWARD(CODEC, void, av_packet_unref, (AVPacket * a), (a))
FORWARD(CODEC, AVCodecContext *, avcodec_alloc_context3, (const AVCodec *a), (a))
FORWARD(CODEC, int, avcodec_default_get_buffer2, (AVCodecContext * a, AVFrame *b, int c), (a, b, c))
FORWARD(CODEC, const AVCodec *, avcodec_find_decoder, (enum AVCodecID a), (a))
FORWARD(CODEC, const AVCodec *, avcodec_find_encoder_by_name, (const char *a), (a))
FORWARD(CODEC, void, avcodec_free_context, (AVCodecContext * *a), (a))
FORWARD(CODEC, void, av_parser_close, (AVCodecParserContext * a), (a))
FORWARD(CODEC, AVCodecParserContext *, av_parser_init, (int a), (a))
FORWARD(
    CODEC, int, av_parser_parse2,
    (AVCodecParserContext * a, AVCodecContext *b, uint8_t **c, int *d, const uint8_t *e, int f, int64_t g, int64_t h, int64_t i),
    (a, b, c, d, e, f, g, h, i))
FORWARD(CODEC, const AVClass *, avcodec_get_class, (void), ())
FORWARD(CODEC, const char *, avcodec_get_name, (enum AVCodecID a), (a))
FORWARD(CODEC, int, avcodec_open2, (AVCodecContext * a, const AVCodec *b, AVDictionary **c), (a, b, c))
FORWARD(CODEC, int, avcodec_parameters_from_context, (AVCodecParameters * a, const AVCodecContext *b), (a, b))
FORWARD(CODEC, int, avcodec_parameters_to_context, (AVCodecContext * a, const AVCodecParameters *b), (a, b))
FORWARD(CODEC, int, avcodec_receive_frame, (AVCodecContext * a, AVFrame *b), (a, b))
FORWARD(CODEC, int, avcodec_receive_packet, (AVCodecContext * a, AVPacket *b), (a, b))
FORWARD(CODEC, int, avcodec_send_frame, (AVCodecContext * a, const AVFrame *b), (a, b))
FORWARD(CODEC, int, avcodec_send_packet, (AVCodecContext * a, const AVPacket *b), (a, b))

FORWARD(FORMAT, const AVInputFormat *, av_find_input_format, (const char *a), (a))
FORWARD(FORMAT, int, av_interleaved_write_frame, (AVFormatContext * a, AVPacket *b), (a, b))
FORWARD(FORMAT, int, av_read_frame, (AVFormatContext * a, AVPacket *b), (a, b))
FORWARD(FORMAT, int, av_seek_frame, (AVFormatContext * a, int b, int64_t c, int d), (a, b, c, d))
FORWARD(FORMAT, uint8_t *, av_stream_get_side_data, (const AVStream *a, enum AVPacketSideDataType b, size_t *c), (a, b, c))
FORWARD(FORMAT, uint8_t *, av_stream_new_side_data, (AVStream * a, enum AVPacketSideDataType b, size_t c), (a, b, c))
FORWARD(FORMAT, int, av_write_frame, (AVFormatContext * a, AVPacket *b), (a, b))
FORWARD(FORMAT, int, av_write_trailer, (AVFormatContext * a), (a))
FORWARD(FORMAT, AVFormatContext *, avformat_alloc_context, (void), ())
FORWARD(FORMAT, int, avformat_alloc_output_context2, (AVFormatContext * *a, const AVOutputFormat *b, const char *c, const char *d), (a, b, c, d))
FORWARD(FORMAT, void, avformat_close_input, (AVFormatContext * *a), (a))
FORWARD(FORMAT, void, avformat_free_context, (AVFormatContext * a), (a))
FORWARD(FORMAT, int, avformat_index_get_entries_count, (const AVStream *a), (a))
FORWARD(FORMAT, const AVIndexEntry *, avformat_index_get_entry, (AVStream * a, int b), (a, b))
FORWARD(FORMAT, AVStream *, avformat_new_stream, (AVFormatContext * a, const AVCodec *b), (a, b))
FORWARD(FORMAT, int, avformat_open_input, (AVFormatContext * *a, const char *b, const AVInputFormat *c, AVDictionary **d), (a, b, c, d))
FORWARD(FORMAT, int, avformat_write_header, (AVFormatContext * a, AVDictionary **b), (a, b))
FORWARD(
    FORMAT, AVIOContext *, avio_alloc_context,
    (unsigned char *a, int b, int c, void *d, int (*e)(void *, uint8_t *, int), int (*f)(void *, uint8_t *, int),
     int64_t (*g)(void *, int64_t, int)),
    (a, b, c, d, e, f, g))
FORWARD(FORMAT, int, avio_close_dyn_buf, (AVIOContext * a, uint8_t **b), (a, b))
FORWARD(FORMAT, int, avio_closep, (AVIOContext * *a), (a))
FORWARD(FORMAT, void, avio_context_free, (AVIOContext * *a), (a))
FORWARD(FORMAT, int, avio_open, (AVIOContext * *a, const char *b, int c), (a, b, c))
FORWARD(FORMAT, int, avio_open_dyn_buf, (AVIOContext * *a), (a))

FORWARD(SCALE, void, sws_freeContext, (struct SwsContext * a), (a))
FORWARD(SCALE, const int *, sws_getCoefficients, (int a), (a))
FORWARD(
    SCALE, struct SwsContext *, sws_getContext,
    (int a, int b, enum AVPixelFormat c, int d, int e, enum AVPixelFormat f, int g, SwsFilter *h, SwsFilter *i, const double *j),
    (a, b, c, d, e, f, g, h, i, j))
FORWARD(
    SCALE, int, sws_scale,
    (struct SwsContext * a, const uint8_t *const b[], const int c[], int d, int e, uint8_t *const f[], const int g[]), (a, b, c, d, e, f, g))
FORWARD(
    SCALE, int, sws_setColorspaceDetails, (struct SwsContext * a, const int b[4], int c, const int d[4], int e, int f, int g, int h),
    (a, b, c, d, e, f, g, h))

void cffmpeg_coded_size(const AVCodecParameters *parameters, const AVPacket *packet, int *width, int *height) {
  *width = *height = 0;
  AVCodecParserContext *parser = av_parser_init(parameters->codec_id);
  AVCodecContext *context = avcodec_alloc_context3(NULL);
  if (parser && context && avcodec_parameters_to_context(context, parameters) >= 0) {
    uint8_t *data;
    int size;
    parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    av_parser_parse2(parser, context, &data, &size, packet->data, packet->size, packet->pts, packet->dts, packet->pos);
    *width = parser->coded_width;
    *height = parser->coded_height;
  }
  avcodec_free_context(&context);
  if (parser) av_parser_close(parser);
}
