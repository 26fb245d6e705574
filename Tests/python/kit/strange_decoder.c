/* Preloaded into the command: decoders that do what LD_STRANGE says when they meet an image or a packet with the word STRANGE in it.

   crash, abort: die; spin, wait: never come back; memory: take all there is; the same with -once: only the first time that this take is tried;
   attack: try to leave the process, and write a line for each try to the file LD_REPORT, or else to stderr and exit with 70. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The directory of the shard that is being written. */
static const char *own_directory(void) {
  static char path[PATH_MAX];
  DIR *all = opendir("/proc/self/fd");
  const char *found = NULL;
  for (struct dirent *one; all && !found && (one = readdir(all));) {
    char link[300];
    snprintf(link, sizeof link, "/proc/self/fd/%s", one->d_name);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) continue;
    path[length] = 0;
    char *end = strrchr(path, '/');
    if (!end || !strstr(end, ".partial")) continue;
    *end = 0;
    found = path;
  }
  if (all) closedir(all);
  return found;
}

static char report[8192];

static void tell(const char *name, int code) {
  size_t used = strlen(report);
  snprintf(report + used, sizeof report - used, "%s %s\n", name, code == 0 ? "ok" : strerrorname_np(code));
}

#define TRY(name, call) (errno = 0, tell(name, (call) == -1 ? errno : 0))

static int opened(const char *directory, const char *name, int flags) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s", directory, name);
  int descriptor = open(path, flags | O_CLOEXEC, 0644);
  if (descriptor < 0) return -1;
  char byte = 'x';
  int code = (flags & O_WRONLY ? write(descriptor, &byte, 1) : flags & O_DIRECTORY ? 1 : read(descriptor, &byte, 1)) < 0 ? -1 : 0;
  close(descriptor);
  return code;
}

static void *thread(void *nothing) { return nothing; }

static int reaped(pid_t process) { return process < 0 ? -1 : (waitpid(process, NULL, 0), 0); }

static int forked(void) {
  pid_t process = fork();
  if (process == 0) _exit(0);
  return reaped(process);
}

static int failed(int code) { return code ? (errno = code, -1) : 0; }

static int spawned(void) {
  char *arguments[] = {"true", NULL}, *nothing[] = {NULL};
  pid_t process;
  int code = posix_spawn(&process, "/bin/true", NULL, NULL, arguments, nothing);
  return code ? failed(code) : reaped(process);
}

static int closed(int descriptor) { return descriptor < 0 ? -1 : close(descriptor); }

static int shared(void) {
  int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  return segment < 0 ? -1 : shmctl(segment, IPC_RMID, NULL);
}

/* A program that cannot be run says so with another error than a forbidden call. */
static int executed(void) {
  char *nothing[] = {NULL};
  execve("/dev/null", nothing, nothing);
  return errno == EACCES ? 0 : -1;
}

static int connected(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
  return connect(0, (struct sockaddr *)&address, sizeof address) == -1 && errno != ENOTSOCK ? -1 : 0;
}

static void attack(void) {
  const char *outside = getenv("LD_OUTSIDE"), *other = getenv("LD_OTHER"), *victim = getenv("LD_VICTIM"), *own = own_directory();
  if (!outside || !other || !victim || !own) return;
  pid_t process = atoi(victim);
  char path[PATH_MAX], more[PATH_MAX];
  pthread_t other_thread;
  /* What must work. */
  TRY("own:write", opened(own, "/note", O_WRONLY | O_CREAT));
  TRY("own:read", opened(own, "/note", O_RDONLY));
  TRY("own:libraries", opened("/usr", "", O_RDONLY | O_DIRECTORY));
  TRY("own:thread", failed(pthread_create(&other_thread, NULL, thread, NULL)) || failed(pthread_join(other_thread, NULL)) ? -1 : 0);
  /* Files. */
  TRY("read:/etc/passwd", opened("/etc/passwd", "", O_RDONLY));
  TRY("read:root", opened("/proc/self/root", "/etc/passwd", O_RDONLY));
  TRY("read:other", opened(other, "", O_RDONLY));
  TRY("list:outside", opened(outside, "", O_RDONLY | O_DIRECTORY));
  TRY("list:dataset", opened(own, "/../..", O_RDONLY | O_DIRECTORY));
  snprintf(path, sizeof path, "/proc/%d", process);
  TRY("read:environment", opened(path, "/environ", O_RDONLY));
  TRY("read:memory", opened(path, "/mem", O_RDONLY) == -1 && errno == EIO ? 0 : errno ? -1 : 0);
  TRY("write:other", opened(other, "", O_WRONLY | O_APPEND));
  TRY("write:file", opened(outside, "/file", O_WRONLY));
  TRY("write:new", opened(outside, "/new", O_WRONLY | O_CREAT));
  TRY("write:tmp", opened("/tmp/takeset-strange-", victim, O_WRONLY | O_CREAT));
  snprintf(path, sizeof path, "/tmp/takeset-strange-%s", victim);
  unlink(path);
  snprintf(path, sizeof path, "%s/file", outside);
  snprintf(more, sizeof more, "%s/made", outside);
  TRY("change:truncate", truncate(path, 3));
  TRY("change:mode", chmod(path, 0600));
  TRY("change:times", utimensat(AT_FDCWD, path, NULL, 0));
  TRY("change:owner", chown(path, getuid(), getgid()));
  TRY("change:mkdir", mkdir(more, 0700));
  TRY("change:rmdir", rmdir(more));
  TRY("change:symlink", symlink("/etc", more));
  TRY("change:unlink", unlink(more));
  TRY("change:link", link(path, more));
  TRY("change:rename", rename(path, more));
  TRY("change:remove", unlink(more) && unlink(path) ? -1 : 0);
  /* Network. */
  TRY("net:inet", socket(AF_INET, SOCK_STREAM, 0));
  TRY("net:unix", socket(AF_UNIX, SOCK_STREAM, 0));
  TRY("net:netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  TRY("net:connect", connected());
  /* Processes. */
  TRY("run:execve", executed());
  TRY("run:spawn", spawned());
  TRY("run:fork", forked());
  TRY("process:signal", kill(process, SIGCONT));
  TRY("process:thread-signal", syscall(SYS_tgkill, process, process, SIGCONT));
  struct rlimit limit;
  TRY("process:limits", prlimit(process, RLIMIT_CPU, NULL, &limit));
  struct iovec local = {path, 1}, remote = {path, 1};
  TRY("process:memory", process_vm_readv(process, &local, 1, &remote, 1, 0) == -1 && errno == EFAULT ? 0 : errno ? -1 : 0);
  TRY("process:ptrace", ptrace(PTRACE_SEIZE, process, 0, 0));
  int pipes[2];
  if (pipe(pipes)) return;
  TRY("process:owner", fcntl(pipes[0], F_SETOWN, process));
  struct f_owner_ex owner = {F_OWNER_PID, process};
  TRY("process:other-owner", fcntl(pipes[0], F_SETOWN_EX, &owner));
  TRY("process:owner-signal", fcntl(pipes[0], F_SETSIG, SIGCONT));
  TRY("process:parent", prctl(PR_SET_PDEATHSIG, 0));
  TRY("process:group", setpgid(0, 0));
  TRY("process:priority", setpriority(PRIO_PROCESS, process, 19));
  cpu_set_t processors;
  sched_getaffinity(0, sizeof processors, &processors);
  TRY("process:processors", sched_setaffinity(process, sizeof processors, &processors));
  TRY("root:directory", chroot("/"));
  /* Memory that the limit does not count. */
  TRY("memory:file", closed(memfd_create("more", 0)));
  TRY("memory:shared", shared());

  const char *place = getenv("LD_REPORT");
  int descriptor = place ? open(place, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
  if (descriptor >= 0 && write(descriptor, report, strlen(report)) > 0) {
    close(descriptor);
    return;
  }
  if (write(2, report, strlen(report)) > 0) _exit(70);
}

static int first_time(void) {
  const char *own = own_directory();
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/tried", own ? own : "");
  int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (descriptor >= 0) close(descriptor);
  return descriptor >= 0;
}

static void meet(const void *data, size_t size) {
  static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
  const char *wanted = getenv("LD_STRANGE");
  if (!wanted || !data || !memmem(data, size, "STRANGE", 7)) return;
  pthread_mutex_lock(&once);
  char what[32];
  snprintf(what, sizeof what, "%s", wanted);
  char *ending = strstr(what, "-once");
  if (ending) *ending = 0;
  if (ending && !first_time()) what[0] = 0;
  if (!strcmp(what, "crash")) *(volatile int *)0 = 1;
  if (!strcmp(what, "abort")) abort();
  if (!strcmp(what, "spin")) for (volatile int turn = 0;; turn++);
  if (!strcmp(what, "wait")) for (;;) pause();
  if (!strcmp(what, "memory")) {
    const size_t piece = 1 << 20;
    for (char *more; (more = malloc(piece));) memset(more, 1, piece);
    while (malloc(1000)) {}
  }
  if (!strcmp(what, "attack") && !report[0]) attack();
  pthread_mutex_unlock(&once);
}

int tjDecompress2(void *handle, const unsigned char *data, unsigned long size, unsigned char *pixels, int width, int pitch, int height, int format, int flags) {
  static int (*real)(void *, const unsigned char *, unsigned long, unsigned char *, int, int, int, int, int);
  if (!real) real = (typeof(real))dlsym(RTLD_NEXT, "tjDecompress2");
  meet(data, size);
  return real(handle, data, size, pixels, width, pitch, height, format, flags);
}

/* The first members of FFmpeg's AVPacket. */
struct packet {
  void *buffer;
  int64_t shown, decoded;
  uint8_t *data;
  int size;
};

static int (*send_packet)(void *, const struct packet *);

static int strange_send_packet(void *context, const struct packet *packet) {
  if (packet && packet->size > 0) meet(packet->data, packet->size);
  return send_packet(context, packet);
}

/* The command looks up FFmpeg's functions by name. */
void *dlsym(void *library, const char *name) {
  static void *(*real)(void *, const char *);
  if (!real) real = (typeof(real))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (!real) real = (typeof(real))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  void *found = real(library, name);
  if (!found || strcmp(name, "avcodec_send_packet") != 0) return found;
  send_packet = (typeof(send_packet))found;
  return (void *)strange_send_packet;
}
