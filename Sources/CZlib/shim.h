#include <zlib.h>

// inflateInit2 is a macro.
static inline int czlib_inflate_init(z_streamp stream, int window_bits) { return inflateInit2(stream, window_bits); }
