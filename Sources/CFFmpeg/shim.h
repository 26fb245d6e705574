#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
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
