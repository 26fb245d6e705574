// `make build` writes revision.h with the commit the binary is built from; without it the revision is unknown.
#if __has_include("revision.h")
#include "revision.h"
#endif
#ifndef TAKESET_REVISION
#define TAKESET_REVISION "unknown"
#endif
static const char *const takeset_revision = TAKESET_REVISION;
