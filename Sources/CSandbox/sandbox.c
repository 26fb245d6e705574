#define _GNU_SOURCE
#include "csandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Only a privileged process may set more than what it has been left.
static int limit(int resource, rlim_t soft, rlim_t hard) {
  struct rlimit found, wanted;
  if (getrlimit(resource, &found)) return errno;
  wanted.rlim_max = hard < found.rlim_max ? hard : found.rlim_max;
  wanted.rlim_cur = soft < wanted.rlim_max ? soft : wanted.rlim_max;
  return setrlimit(resource, &wanted) ? errno : 0;
}

int csandbox_limit(int64_t memory, int64_t seconds) {
  int code = limit(RLIMIT_CORE, 0, 0);
  if (!code) code = limit(RLIMIT_AS, (rlim_t)memory, (rlim_t)memory);
  // SIGXCPU at the first, SIGKILL at the second.
  if (!code) code = limit(RLIMIT_CPU, (rlim_t)seconds, (rlim_t)seconds + 5);
  return code;
}

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

int csandbox_has_filters(void) {
#ifndef ARCHITECTURE
  return 0;
#else
  uint32_t action = SECCOMP_RET_KILL_PROCESS;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
#endif
}

int csandbox_deny_system_calls(int programs) {
#ifndef ARCHITECTURE
  return ENOSYS;
#else
  // Containers refuse what they do not know with other errors, too.
  if (!csandbox_has_filters()) return ENOSYS;
  const uint32_t self = (uint32_t)getpid();
  // Another program in place of this one has the same rights, and no process more.
  const uint32_t program_answer = programs ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM;
#define ANSWER(call, code) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code))
#define DENY(call) ANSWER(call, EPERM)
// Denies a call unless its first argument passes a test; the lower half of the argument is enough for process ids and flags.
#define DENY_UNLESS(call, test, value)                                                                                                     \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 4), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),           \
      BPF_JUMP(BPF_JMP | (test) | BPF_K, (value), 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),                             \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
// Denies a call with this value of an argument, of which the lower half is enough.
#define DENY_IF(call, argument, value)                                                                                                     \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 4),                                                                                       \
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[argument])),                                                   \
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),                            \
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
  struct sock_filter filter[] = {
      // System calls of another architecture have other numbers.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef __x86_64__
      // The x32 interface, whose numbers have this bit.
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
#endif
      DENY(SYS_socket),
      DENY(SYS_socketpair),
      DENY(SYS_connect),
      DENY(SYS_bind),
      DENY(SYS_listen),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, program_answer),
      DENY(SYS_execveat),
      // Threads, but no processes, which would outlive this one. The flags of clone3 are in memory, where no filter can see them; without
      // it libraries use clone.
      DENY_UNLESS(SYS_clone, BPF_JSET, CLONE_THREAD),
      ANSWER(SYS_clone3, ENOSYS),
#ifdef SYS_fork
      DENY(SYS_fork),
      DENY(SYS_vfork),
#endif
      // Memory that no limit of address space counts; some of it outlives the process.
      DENY(SYS_memfd_create),
      DENY(SYS_memfd_secret),
      DENY(SYS_shmget),
      DENY(SYS_msgget),
      DENY(SYS_semget),
      DENY(SYS_mq_open),
      DENY(SYS_add_key),
      DENY(SYS_request_key),
      DENY(SYS_keyctl),
      // Signals, limits and priorities of other processes.
      DENY_UNLESS(SYS_kill, BPF_JEQ, self),
      DENY_UNLESS(SYS_tgkill, BPF_JEQ, self),
      DENY_UNLESS(SYS_rt_sigqueueinfo, BPF_JEQ, self),
      DENY_UNLESS(SYS_rt_tgsigqueueinfo, BPF_JEQ, self),
      DENY(SYS_tkill),
      DENY(SYS_pidfd_send_signal),
      // The kernel signals whoever owns a pipe, as it is told.
      DENY_IF(SYS_fcntl, 1, F_SETOWN),
      DENY_IF(SYS_fcntl, 1, F_SETOWN_EX),
      DENY_IF(SYS_fcntl, 1, F_SETSIG),
      // To live on without the parent.
      DENY_IF(SYS_prctl, 0, PR_SET_PDEATHSIG),
      DENY_UNLESS(SYS_prlimit64, BPF_JEQ, 0),
      DENY(SYS_setpriority),
      DENY(SYS_ioprio_set),
      DENY(SYS_sched_setaffinity),
      DENY(SYS_sched_setattr),
      DENY(SYS_sched_setparam),
      DENY(SYS_sched_setscheduler),
      DENY(SYS_setpgid),
      DENY(SYS_setsid),
      // Owners, permissions, times and attributes, which Landlock does not protect.
#ifdef SYS_chmod
      DENY(SYS_chmod),
      DENY(SYS_chown),
      DENY(SYS_lchown),
      DENY(SYS_utime),
      DENY(SYS_utimes),
      DENY(SYS_futimesat),
#endif
      DENY(SYS_fchmod),
      DENY(SYS_fchmodat),
      DENY(452),  // fchmodat2
      DENY(SYS_fchown),
      DENY(SYS_fchownat),
      DENY(SYS_utimensat),
      DENY(SYS_setxattr),
      DENY(SYS_lsetxattr),
      DENY(SYS_fsetxattr),
      DENY(SYS_removexattr),
      DENY(SYS_lremovexattr),
      DENY(SYS_fremovexattr),
      DENY(463),  // setxattrat
      DENY(466),  // removexattrat
      DENY(SYS_ptrace),
      DENY(SYS_process_vm_readv),
      DENY(SYS_process_vm_writev),
      DENY(SYS_pidfd_getfd),
      DENY(SYS_perf_event_open),
      DENY(SYS_open_by_handle_at),
      DENY(SYS_bpf),
      DENY(SYS_userfaultfd),
      DENY(SYS_mount),
      DENY(SYS_unshare),
      DENY(SYS_setns),
      // Rings of requests would pass this filter by.
      DENY(SYS_io_uring_setup),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) return errno;
  return 0;
#endif
}

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
// Only those of the first version are needed, which every kernel with Landlock has; the later ones are forbidden everywhere.
#define FIRST_VERSION ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#define WRITING                                                                                                              \
  (READING | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                \
   LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG)

// The attributes of version 6, which older headers do not have.
struct rules {
  uint64_t files, network, scopes;
};

int csandbox_has_landlock(void) { return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0; }

static int allow(int rules, const char *path, uint64_t access) {
  struct landlock_path_beneath_attr rule = {.parent_fd = open(path, O_PATH | O_CLOEXEC)};
  // What cannot be opened now stays forbidden, and the take's own error names it. Only a lack of descriptors or memory is not the file's.
  if (rule.parent_fd < 0) return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? errno : 0;
  struct stat status;
  int code = fstat(rule.parent_fd, &status) ? errno : 0;
  // What concerns directories cannot be allowed for a file.
  rule.allowed_access = S_ISDIR(status.st_mode) ? access : access & (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE);
  if (!code && syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0)) code = errno;
  close(rule.parent_fd);
  return code;
}

int csandbox_allow_files(
    const char *const *readable, int readable_count, const char *const *writable, int writable_count, int programs) {
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  // Older containers answer EPERM to system calls that they do not know.
  if (version < 0) return ENOSYS;
  struct rules wanted = {FIRST_VERSION, 0, 0};
  uint64_t writing = WRITING, reading = READING | (programs ? LANDLOCK_ACCESS_FS_EXECUTE : 0);
  size_t size = sizeof wanted.files;
  if (version >= 2) wanted.files |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) {
    wanted.files |= LANDLOCK_ACCESS_FS_TRUNCATE;
    writing |= LANDLOCK_ACCESS_FS_TRUNCATE;
  }
  if (version >= 4) {
    wanted.network = 3;  // bind and connect of TCP
    size = offsetof(struct rules, scopes);
  }
  if (version >= 6) {
    wanted.scopes = 3;  // abstract sockets and signals
    size = sizeof wanted;
  }
  int rules = (int)syscall(SYS_landlock_create_ruleset, &wanted, size, 0);
  if (rules < 0) return errno;
  int code = 0;
  for (int index = 0; index < readable_count && !code; index++) code = allow(rules, readable[index], reading);
  for (int index = 0; index < writable_count && !code; index++) code = allow(rules, writable[index], writing);
  if (!code && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) code = errno;
  if (!code && syscall(SYS_landlock_restrict_self, rules, 0)) code = errno;
  close(rules);
  return code;
}

int csandbox_drop_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct found[2];
  if (syscall(SYS_capget, &header, found)) return errno;
  if (!found[0].permitted && !found[1].permitted) return 0;
  // Files of other users stay readable for root, as they are without a child process.
  const uint32_t kept = 1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH;
  struct __user_cap_data_struct wanted[2] = {{found[0].effective & kept, found[0].permitted & kept, 0}, {0, 0, 0}};
  return syscall(SYS_capset, &header, wanted) ? errno : 0;
}

int csandbox_memory_file(int64_t size) {
  int descriptor = memfd_create("takeset", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return -1;
  if (ftruncate(descriptor, size) == 0 && fcntl(descriptor, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0) return descriptor;
  int code = errno;
  close(descriptor);
  errno = code;
  return -1;
}

void csandbox_clear_memory_file(int descriptor, int64_t size) {
  fallocate(descriptor, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, size);
}

int csandbox_start_server(const char *program, char *const *arguments, char *const *environment, pid_t *process, int *connection) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return errno;
  // Above the number that it gets: a descriptor that is copied to itself would be closed by exec.
  int moved = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
  int code = moved < 0 ? errno : posix_spawn_file_actions_init(&actions);
  close(pair[1]);
  if (!code) {
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, moved, CSANDBOX_CONNECTION);
    // Libraries may have opened files that exec does not close.
    posix_spawn_file_actions_addclosefrom_np(&actions, CSANDBOX_CONNECTION + 1);
    posix_spawnattr_init(&attributes);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    code = posix_spawn(process, program, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  if (moved >= 0) close(moved);
  if (code) close(pair[0]);
  else *connection = pair[0];
  return code;
}

// A message of one byte with the descriptors of a child.
union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(CSANDBOX_MOST_DESCRIPTORS * sizeof(int))];
};

int csandbox_ask(int connection, const int *descriptors, int count) {
  union control control = {0};
  char byte = 0;
  if (count < 2 || count > CSANDBOX_MOST_DESCRIPTORS) return EINVAL;
  const size_t size = (size_t)count * sizeof *descriptors;
  struct iovec content = {&byte, 1};
  struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(size)};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  memcpy(CMSG_DATA(header), descriptors, size);
  ssize_t sent;
  while ((sent = sendmsg(connection, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {}
  return sent < 0 ? EPIPE : 0;
}

static int answer(int connection, pid_t *process) {
  int answer = 0;
  ssize_t count;
  while ((count = recv(connection, &answer, sizeof answer, MSG_DONTWAIT)) < 0 && errno == EINTR) {}
  if (count < 0 && errno == EAGAIN) return ETIMEDOUT;
  if (count != sizeof answer) return EPIPE;
  if (answer < 0) return -answer;
  *process = answer;
  return 0;
}

int csandbox_answer(int connection, int milliseconds, pid_t *process) {
  struct pollfd wait = {connection, POLLIN, 0};
  poll(&wait, 1, milliseconds);
  return answer(connection, process);
}

int csandbox_last_answer(int connection, pid_t *process) {
  shutdown(connection, SHUT_RDWR);
  return answer(connection, process);
}

// Those of the next child.
static int received[CSANDBOX_MOST_DESCRIPTORS];
static int received_count;

int csandbox_next_request(void) {
  union control control;
  char byte;
  struct iovec content = {&byte, 1};
  struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ssize_t count;
  while ((count = recvmsg(CSANDBOX_CONNECTION, &message, 0)) < 0 && errno == EINTR) {}
  struct cmsghdr *header = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  // Whoever asks has ended.
  if (!header || header->cmsg_len < CMSG_LEN(2 * sizeof *received)) _exit(0);
  received_count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof *received);
  memcpy(received, CMSG_DATA(header), (size_t)received_count * sizeof *received);
  return received[1];
}

// Makes the server's copy, or the server itself, the child.
static int become_child(void) {
  // The child tells its id itself: where no answer comes, there is no child.
  int answer = getpid();
  if (send(CSANDBOX_CONNECTION, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) _exit(0);
  // The first may be 4, and each is above the one before: none is replaced before it is copied.
  for (int index = 0; index < received_count; index++) dup2(received[index], index + 2);
  closefrom(2 + received_count);
  return 1;
}

int csandbox_become_child(void) {
  const pid_t parent = getppid();
  // Not fork(), which makes a child of this process, and not of the one that asks. This process has one thread, so that no lock is held.
  int process = (int)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
  if (process == 0) {
    if (getppid() != parent) _exit(0);
    setpgid(0, 0);
    return become_child();
  }
  // Emulators of the kernel refuse the flag (qemu) or ignore it (gVisor), and then the copy is a child of this process.
  if (process < 0 ? errno == EINVAL : waitpid(process, NULL, 0) == process) return become_child();
  if (process < 0) {
    process = -errno;
    if (send(CSANDBOX_CONNECTION, &process, sizeof process, MSG_NOSIGNAL) != sizeof process) _exit(0);
  }
  for (int index = 0; index < received_count; index++) close(received[index]);
  return 0;
}

int csandbox_wait(pid_t process, int milliseconds, int *status, int64_t *peak) {
  int descriptor = (int)syscall(SYS_pidfd_open, process, 0);
  if (descriptor >= 0) {
    struct pollfd wait = {descriptor, POLLIN, 0};
    poll(&wait, 1, milliseconds);
    close(descriptor);
  } else {
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
  }
  struct rusage used = {0};
  pid_t found = wait4(process, status, WNOHANG, &used);
  if (found < 0) return errno == EINTR ? 0 : -errno;
  *peak = (int64_t)used.ru_maxrss << 10;
  return found == process;
}

// What a program is started with, found by the new process before it becomes the program: it calls nothing that is unsafe after a fork.
static int become_program(
    const char *program, char *const *arguments, char *const *environment, const int *descriptors, int64_t memory,
    const char *const *readable, int readable_count) {
  int code = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || chdir("/")) return errno;
  for (int index = 0; index < 3; index++) dup2(null, index);
  // Both are above 5, so neither is replaced before it is copied.
  dup2(descriptors[0], 3);
  dup2(descriptors[1], 4);
  closefrom(6);
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  code = limit(RLIMIT_CORE, 0, 0);
  if (!code) code = limit(RLIMIT_FSIZE, 0, 0);
  if (!code) code = limit(RLIMIT_AS, (rlim_t)memory, (rlim_t)memory);
  if (!code) code = csandbox_drop_capabilities();
  if (!code) code = csandbox_allow_files(readable, readable_count, NULL, 0, 1);
  if (code == ENOSYS || code == EOPNOTSUPP) code = 0;
  if (!code) code = csandbox_deny_system_calls(1);
  if (code == ENOSYS) code = 0;
  if (code) return code;
  execve(program, arguments, environment);
  return errno;
}

int csandbox_start_program(
    const char *program, char *const *arguments, char *const *environment, int memory_file, int64_t memory, const char *const *readable,
    int readable_count, pid_t *process, int *connection) {
  int pair[2], failure[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return errno;
  int descriptors[2] = {fcntl(pair[1], F_DUPFD_CLOEXEC, 10), fcntl(memory_file, F_DUPFD_CLOEXEC, 10)};
  int code = descriptors[0] < 0 || descriptors[1] < 0 || pipe2(failure, O_CLOEXEC) ? errno : 0;
  close(pair[1]);
  if (!code) {
    const pid_t parent = getpid();
    *process = fork();
    if (*process == 0) {
      setpgid(0, 0);
      // No program lives on without whoever started it.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int told = getppid() == parent ? dup3(failure[1], 5, O_CLOEXEC) : -1;
      if (told < 0) told = failure[1];
      code = become_program(program, arguments, environment, descriptors, memory, readable, readable_count);
      ssize_t written = write(told, &code, sizeof code);
      _exit(written == sizeof code ? 127 : 126);
    }
    if (*process < 0) code = errno;
    close(failure[1]);
    ssize_t count = -1;
    if (!code) {
      while ((count = read(failure[0], &code, sizeof code)) < 0 && errno == EINTR) {}
      if (count != sizeof code) code = 0;
      else waitpid(*process, NULL, 0);
    }
    close(failure[0]);
  }
  for (int index = 0; index < 2; index++) if (descriptors[index] >= 0) close(descriptors[index]);
  if (code) close(pair[0]);
  else *connection = pair[0];
  return code;
}
