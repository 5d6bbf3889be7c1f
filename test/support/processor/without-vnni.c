/* Preloaded into a process, hides AVX-512, VNNI and AMX from it: onnxruntime then takes the kernels of an older processor.
   Linux on x64 can make the instruction CPUID fault; the handler answers it with the features cleared. Who reads
   /proc/cpuinfo gets the file that the variable CPUINFO names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012

static void answer(int number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  const unsigned char *at = (const unsigned char *)registers[REG_RIP];
  if (at[0] != 0x0f || at[1] != 0xa2) {
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  unsigned a = registers[REG_RAX], b, c = registers[REG_RCX], d;
  const unsigned leaf = a, part = c;
  syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
  if (leaf == 7 && part == 0) {
    b &= ~0xdc230000u; /* AVX-512 */
    c &= ~0x00005842u; /* AVX-512 VBMI, VNNI, BITALG, VPOPCNTDQ */
    d &= ~0x03c0010cu; /* AVX-512, AMX */
  }
  if (leaf == 7 && part == 1) {
    a &= ~0x00800030u; /* AVX-VNNI, AVX-512 BF16, AVX-IFMA */
    d &= ~0x00080430u; /* AVX-VNNI-INT8 and -INT16, AVX10 */
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

/* Node gives every signal its default when it starts. */
int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
  int (*real)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
  const int is_ours = action && (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == answer;
  if (number != SIGSEGV || action == NULL || is_ours) return real(number, action, old);
  if (old) memset(old, 0, sizeof *old);
  return 0;
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = va_arg(rest, int);
  va_end(rest);
  int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
  const char *other = getenv("CPUINFO");
  return real(other && strcmp(path, "/proc/cpuinfo") == 0 ? other : path, flags, mode);
}

int open(const char *path, int flags, ...) __attribute__((alias("open64")));

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
}
