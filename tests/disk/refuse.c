/* A disk that refuses: counts the calls of a process that change files below a folder, and lets one of them, or all from
 * one on, fail, or kills the process there. Preloaded (LD_PRELOAD), so that libraries meet it too; see layer.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, FROM_ON, ONCE, KILL };
#define LISTED 20000

/* shared with forked processes, so that calls of workers count too */
static struct state {
    int armed, mode, error, open_folder;
    long at, calls;
    char folder[4096];
    char listed[LISTED][200];
} *now;

__attribute__((constructor)) static void begin(void) {
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

void refuse_arm(const char *folder, int mode, long at, int error) {
    snprintf(now->folder, sizeof now->folder, "%s", folder);
    now->mode = mode, now->at = at, now->error = error, now->calls = 0;
    __atomic_store_n(&now->armed, 1, __ATOMIC_SEQ_CST);
}
void refuse_disarm(void) { __atomic_store_n(&now->armed, 0, __ATOMIC_SEQ_CST); }
long refuse_calls(void) { return now->calls; }
const char *refuse_listed(long i) { return i >= 0 && i < LISTED ? now->listed[i] : ""; }

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })

static int below(const char *path) {
    char whole[4096], place[4096];
    if (!path) return 0;
    if (path[0] != '/') {
        if (!getcwd(place, sizeof place)) return 0;
        snprintf(whole, sizeof whole, "%.2000s/%.2000s", place, path);
        path = whole;
    }
    size_t n = strlen(now->folder);
    return !strncmp(path, now->folder, n) && (path[n] == '/' || !path[n]);
}

/* 1: this call fails, and errno says why. fills: it needs room on the disk. */
static int refused(const char *what, const char *path, int fills) {
    if (!now || !__atomic_load_n(&now->armed, __ATOMIC_SEQ_CST) || !below(path)) return 0;
    long number = __atomic_fetch_add(&now->calls, 1, __ATOMIC_SEQ_CST);
    if (number < LISTED) snprintf(now->listed[number], 200, "%s %.180s", what, path + strlen(now->folder));
    if (now->mode == COUNT || number < now->at) return 0;
    if (now->mode == KILL) { kill(getpid(), SIGKILL); pause(); }
    if (now->mode == ONCE && number != now->at) return 0;
    if (now->mode == FROM_ON && !fills && (now->error == ENOSPC || now->error == EDQUOT)) return 0;
    errno = now->error;
    return 1;
}

static int refused_at(const char *what, int fd, int fills) {
    if (!now || !__atomic_load_n(&now->armed, __ATOMIC_SEQ_CST)) return 0;
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return refused(what, path, fills);
}

static const char *at(int folder, const char *path, char *buffer) {
    if (folder == AT_FDCWD || (path && path[0] == '/')) return path;
    char name[64], place[4000];
    snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
    ssize_t n = readlink(name, place, sizeof place - 1);
    if (n <= 0) return path;
    place[n] = 0;
    snprintf(buffer, 8192, "%s/%s", place, path);
    return buffer;
}

/* --- names --- */
static int makes(int flags) { return flags & (O_CREAT | O_TRUNC) || (flags & O_ACCMODE) != O_RDONLY; }
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list list; va_start(list, flags); mode_t mode = va_arg(list, int); va_end(list); \
        if (makes(flags) && refused("open", path, flags & O_CREAT)) return -1; \
        return REAL(name)(path, flags, mode); }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list list; va_start(list, flags); mode_t mode = va_arg(list, int); va_end(list); char b[8192]; \
        if (makes(flags) && refused("open", at(folder, path, b), flags & O_CREAT)) return -1; \
        return REAL(name)(folder, path, flags, mode); }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)
#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        if (strpbrk(mode, "wa+") && refused("open", path, 1)) return NULL; \
        return REAL(name)(path, mode); }
FOPEN(fopen) FOPEN(fopen64)
int mkdir(const char *path, mode_t mode) { return refused("mkdir", path, 1) ? -1 : REAL(mkdir)(path, mode); }
int mkdirat(int f, const char *path, mode_t mode) { char b[8192]; return refused("mkdir", at(f, path, b), 1) ? -1 : REAL(mkdirat)(f, path, mode); }
int rename(const char *a, const char *b) { return refused("rename", b, 0) ? -1 : REAL(rename)(a, b); }
int renameat(int f, const char *a, int g, const char *b) { char c[8192]; return refused("rename", at(g, b, c), 0) ? -1 : REAL(renameat)(f, a, g, b); }
int link(const char *a, const char *b) { return refused("link", b, 1) ? -1 : REAL(link)(a, b); }
int symlink(const char *a, const char *b) { return refused("symlink", b, 1) ? -1 : REAL(symlink)(a, b); }
int unlink(const char *path) { return refused("unlink", path, 0) ? -1 : REAL(unlink)(path); }
int unlinkat(int f, const char *path, int flags) { char b[8192]; return refused("unlink", at(f, path, b), 0) ? -1 : REAL(unlinkat)(f, path, flags); }
int rmdir(const char *path) { return refused("rmdir", path, 0) ? -1 : REAL(rmdir)(path); }
int truncate(const char *path, off_t n) { return refused("truncate", path, 1) ? -1 : REAL(truncate)(path, n); }

/* --- contents --- the first write that a full disk refuses is cut short, as it is in life */
static size_t part(size_t n, const char *what, int fd) {
    long before = now ? now->calls : 0;
    if (!refused_at(what, fd, 1)) return n;
    return now->mode == FROM_ON && now->error == ENOSPC && before == now->at && n > 1 ? n / 2 : 0;
}
ssize_t write(int fd, const void *p, size_t n) { size_t k = n ? part(n, "write", fd) : 0; return n && !k ? -1 : REAL(write)(fd, p, k); }
#define PWRITE(name, type) \
    ssize_t name(int fd, const void *p, size_t n, type o) { size_t k = n ? part(n, "write", fd) : 0; return n && !k ? -1 : REAL(name)(fd, p, k, o); }
PWRITE(pwrite, off_t) PWRITE(pwrite64, off64_t)
ssize_t writev(int fd, const struct iovec *v, int n) { return refused_at("write", fd, 1) ? -1 : REAL(writev)(fd, v, n); }
size_t fwrite(const void *p, size_t size, size_t n, FILE *f) { return refused_at("write", fileno(f), 1) ? 0 : REAL(fwrite)(p, size, n, f); }
ssize_t sendfile(int out, int in, off_t *o, size_t n) { return refused_at("write", out, 1) ? -1 : REAL(sendfile)(out, in, o, n); }
ssize_t sendfile64(int out, int in, off64_t *o, size_t n) { return refused_at("write", out, 1) ? -1 : REAL(sendfile64)(out, in, o, n); }
ssize_t copy_file_range(int in, off64_t *a, int out, off64_t *b, size_t n, unsigned f) { return refused_at("write", out, 1) ? -1 : REAL(copy_file_range)(in, a, out, b, n, f); }
int ftruncate(int fd, off_t n) { return refused_at("truncate", fd, 1) ? -1 : REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { return refused_at("truncate", fd, 1) ? -1 : REAL(ftruncate64)(fd, n); }
int posix_fallocate(int fd, off_t o, off_t n) { return refused_at("allocate", fd, 1) ? errno : REAL(posix_fallocate)(fd, o, n); }
int posix_fallocate64(int fd, off64_t o, off64_t n) { return refused_at("allocate", fd, 1) ? errno : REAL(posix_fallocate64)(fd, o, n); }
int fallocate(int fd, int m, off_t o, off_t n) { return refused_at("allocate", fd, 1) ? -1 : REAL(fallocate)(fd, m, o, n); }
int fsync(int fd) { return refused_at("fsync", fd, 0) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return refused_at("fsync", fd, 0) ? -1 : REAL(fdatasync)(fd); }
