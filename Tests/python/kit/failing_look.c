/* Preloaded into the command: the FAIL_AT-th call of one kind (FAIL_KIND) below a directory (FAIL_BELOW) fails with FAIL_ERRNO, that one only;
   with an errno of 0 it goes well, but first the whole process stops until it is sent on its way. FAIL_LOG, a file, then gets the path.
   The kind "change" is every write, fsync, rename, removal and mkdir.
   How many such calls there were is written to the file FAIL_COUNT at the end.
   Processes that convert a take look for LD_CHILD_FAIL_KIND and so on instead, because they do not get the others. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int calls;

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

static const char *setting(const char *name) {
  static int is_child = -1;
  if (is_child < 0) {
    char words[4096];
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
    long length = syscall(SYS_read, descriptor, words, sizeof words);
    is_child = length > 0 && memmem(words, (size_t)length, "convert-take", 12) != NULL;
    syscall(SYS_close, descriptor);
  }
  char whole[64];
  snprintf(whole, sizeof whole, "%s%s", is_child ? "LD_CHILD_" : "", name);
  return getenv(whole);
}

static int is_below(const char *path) {
  const char *prefix = setting("FAIL_BELOW");
  return prefix && path && strncmp(path, prefix, strlen(prefix)) == 0;
}

static int is_of(const char *kind, const char *wanted) {
  return strcmp(wanted, kind) == 0 || (strcmp(wanted, "change") == 0 && strstr("write fsync rename remove mkdir", kind));
}

/* Counts a call of a kind on a path; 1 with errno set when it is the one to fail. */
static int fails(const char *kind, const char *path) {
  const char *wanted = setting("FAIL_KIND"), *at = setting("FAIL_AT"), *code = setting("FAIL_ERRNO"), *log = setting("FAIL_LOG");
  if (!wanted || !is_of(kind, wanted) || !is_below(path)) return 0;
  int number = atomic_fetch_add(&calls, 1) + 1;
  if (!at || !code || number != atoi(at)) return 0;
  if (log) {
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (descriptor >= 0) {
      syscall(SYS_write, descriptor, path, strlen(path));
      syscall(SYS_close, descriptor);
    }
  }
  /* Of the whole process, but this thread must not go on until another one has seen the signal. */
  if (atoi(code) == 0) return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGSTOP), 0;
  errno = atoi(code);
  return 1;
}

static const char *of_descriptor(int descriptor, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return NULL;
  path[length] = 0;
  return path;
}

static const char *at_descriptor(int directory, const char *name, char *path) {
  if (!name || name[0] == '/' || directory == AT_FDCWD) return name;
  if (!of_descriptor(directory, path)) return NULL;
  size_t length = strlen(path);
  snprintf(path + length, PATH_MAX - length, "%s%s", name[0] ? "/" : "", name);
  return path;
}

__attribute__((destructor)) static void tell(void) {
  const char *path = setting("FAIL_COUNT");
  if (!path) return;
  char text[32];
  int length = snprintf(text, sizeof text, "%d", atomic_load(&calls));
  int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (descriptor < 0) return;
  syscall(SYS_write, descriptor, text, length);
  syscall(SYS_close, descriptor);
}

#define MODE(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  return fails("open", path) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  MODE(flags)
  return fails("open", path) ? -1 : REAL(open64)(path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
  char whole[PATH_MAX];
  MODE(flags)
  return fails("open", at_descriptor(directory, path, whole)) ? -1 : REAL(openat)(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
  char whole[PATH_MAX];
  MODE(flags)
  return fails("open", at_descriptor(directory, path, whole)) ? -1 : REAL(openat64)(directory, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) { return fails("open", path) ? NULL : REAL(fopen)(path, mode); }
FILE *fopen64(const char *path, const char *mode) { return fails("open", path) ? NULL : REAL(fopen64)(path, mode); }

DIR *opendir(const char *path) { return fails("opendir", path) ? NULL : REAL(opendir)(path); }

DIR *fdopendir(int descriptor) {
  char path[PATH_MAX];
  return fails("opendir", of_descriptor(descriptor, path)) ? NULL : REAL(fdopendir)(descriptor);
}

struct dirent *readdir(DIR *handle) {
  char path[PATH_MAX];
  return fails("readdir", of_descriptor(dirfd(handle), path)) ? NULL : REAL(readdir)(handle);
}

struct dirent64 *readdir64(DIR *handle) {
  char path[PATH_MAX];
  return fails("readdir", of_descriptor(dirfd(handle), path)) ? NULL : REAL(readdir64)(handle);
}

int stat(const char *path, struct stat *found) { return fails("stat", path) ? -1 : REAL(stat)(path, found); }
int stat64(const char *path, struct stat64 *found) { return fails("stat", path) ? -1 : REAL(stat64)(path, found); }
int lstat(const char *path, struct stat *found) { return fails("stat", path) ? -1 : REAL(lstat)(path, found); }
int lstat64(const char *path, struct stat64 *found) { return fails("stat", path) ? -1 : REAL(lstat64)(path, found); }

int fstatat(int directory, const char *path, struct stat *found, int flags) {
  char whole[PATH_MAX];
  return fails("stat", at_descriptor(directory, path, whole)) ? -1 : REAL(fstatat)(directory, path, found, flags);
}

int fstatat64(int directory, const char *path, struct stat64 *found, int flags) {
  char whole[PATH_MAX];
  return fails("stat", at_descriptor(directory, path, whole)) ? -1 : REAL(fstatat64)(directory, path, found, flags);
}

int statx(int directory, const char *path, int flags, unsigned mask, struct statx *found) {
  char whole[PATH_MAX];
  return fails("stat", at_descriptor(directory, path, whole)) ? -1 : REAL(statx)(directory, path, flags, mask, found);
}

int fstat(int descriptor, struct stat *found) {
  char path[PATH_MAX];
  return fails("fstat", of_descriptor(descriptor, path)) ? -1 : REAL(fstat)(descriptor, found);
}

int fstat64(int descriptor, struct stat64 *found) {
  char path[PATH_MAX];
  return fails("fstat", of_descriptor(descriptor, path)) ? -1 : REAL(fstat64)(descriptor, found);
}

int access(const char *path, int mode) { return fails("stat", path) ? -1 : REAL(access)(path, mode); }

char *realpath(const char *path, char *resolved) { return fails("realpath", path) ? NULL : REAL(realpath)(path, resolved); }

ssize_t read(int descriptor, void *bytes, size_t count) {
  char path[PATH_MAX];
  return fails("read", of_descriptor(descriptor, path)) ? -1 : REAL(read)(descriptor, bytes, count);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
  char path[PATH_MAX];
  return fails("pread", of_descriptor(descriptor, path)) ? -1 : REAL(pread)(descriptor, bytes, count, offset);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset) {
  char path[PATH_MAX];
  return fails("pread", of_descriptor(descriptor, path)) ? -1 : REAL(pread64)(descriptor, bytes, count, offset);
}

int unlink(const char *path) { return fails("remove", path) ? -1 : REAL(unlink)(path); }

int unlinkat(int directory, const char *path, int flags) {
  char whole[PATH_MAX];
  return fails("remove", at_descriptor(directory, path, whole)) ? -1 : REAL(unlinkat)(directory, path, flags);
}

int rename(const char *from, const char *to) { return fails("rename", to) ? -1 : REAL(rename)(from, to); }

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
  char whole[PATH_MAX];
  return fails("rename", at_descriptor(to_directory, to, whole)) ? -1 : REAL(renameat)(from_directory, from, to_directory, to);
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
  char whole[PATH_MAX];
  return fails("rename", at_descriptor(to_directory, to, whole)) ? -1 : REAL(renameat2)(from_directory, from, to_directory, to, flags);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  char path[PATH_MAX];
  return fails("write", of_descriptor(descriptor, path)) ? -1 : REAL(write)(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
  char path[PATH_MAX];
  return fails("write", of_descriptor(descriptor, path)) ? -1 : REAL(pwrite)(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
  char path[PATH_MAX];
  return fails("write", of_descriptor(descriptor, path)) ? -1 : REAL(pwrite64)(descriptor, bytes, count, offset);
}

ssize_t pwritev(int descriptor, const struct iovec *pieces, int count, off_t offset) {
  char path[PATH_MAX];
  return fails("write", of_descriptor(descriptor, path)) ? -1 : REAL(pwritev)(descriptor, pieces, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *pieces, int count, off64_t offset) {
  char path[PATH_MAX];
  return fails("write", of_descriptor(descriptor, path)) ? -1 : REAL(pwritev64)(descriptor, pieces, count, offset);
}

int fsync(int descriptor) {
  char path[PATH_MAX];
  return fails("fsync", of_descriptor(descriptor, path)) ? -1 : REAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
  char path[PATH_MAX];
  return fails("fsync", of_descriptor(descriptor, path)) ? -1 : REAL(fdatasync)(descriptor);
}

int flock(int descriptor, int operation) {
  char path[PATH_MAX];
  return fails("flock", of_descriptor(descriptor, path)) ? -1 : REAL(flock)(descriptor, operation);
}

int mkdir(const char *path, mode_t mode) { return fails("mkdir", path) ? -1 : REAL(mkdir)(path, mode); }
