// Preloaded, it makes every call that changes a file slow, as a tired disk does. Sockets and pipes stay as they are.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_file(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
}

static void wait_for(int descriptor, int milliseconds) {
  if (is_file(descriptor)) usleep(milliseconds * 1000);
}

#define ORIGINAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *bytes, size_t count) {
  wait_for(descriptor, 5);
  return ORIGINAL(write)(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
  wait_for(descriptor, 5);
  return ORIGINAL(pwrite)(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
  wait_for(descriptor, 5);
  return ORIGINAL(pwrite64)(descriptor, bytes, count, offset);
}

int fsync(int descriptor) {
  wait_for(descriptor, 100);
  return ORIGINAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
  wait_for(descriptor, 100);
  return ORIGINAL(fdatasync)(descriptor);
}
