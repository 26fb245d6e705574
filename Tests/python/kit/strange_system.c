/* Preloaded into the command and its processes: a system that is not as usual.
   LD_CLONE=refused, ignored: a child of another process, as gVisor and qemu do it.
   LD_LIBRARIES=crash, exit, miss, none: loading FFmpeg; `miss` only until there is a file at LD_ONCE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_set(const char *name, const char *value) {
  const char *found = getenv(name);
  return found && !strcmp(found, value);
}

long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  long a[6];
  va_list list;
  va_start(list, number);
  for (int index = 0; index < 6; index++) a[index] = va_arg(list, long);
  va_end(list);
  if (number == SYS_clone && a[0] & CLONE_PARENT) {
    if (is_set("LD_CLONE", "refused")) return errno = EINVAL, -1;
    if (is_set("LD_CLONE", "ignored")) a[0] &= ~(long)CLONE_PARENT;
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void *dlopen(const char *name, int flags) {
  static void *(*real)(const char *, int);
  if (!real) real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
  if (name && !strncmp(name, "libav", 5) && is_set("LD_LIBRARIES", "none")) return real("/nowhere/libav.so", flags);
  if (name && strstr(name, "libavcodec")) {
    const char *once = getenv("LD_ONCE");
    if (is_set("LD_LIBRARIES", "crash")) raise(SIGILL);
    if (is_set("LD_LIBRARIES", "exit")) exit(1);
    if (is_set("LD_LIBRARIES", "miss") && once && access(once, F_OK)) {
      close(open(once, O_WRONLY | O_CREAT, 0644));
      return real("/nowhere/libavcodec.so", flags);
    }
  }
  return real(name, flags);
}
