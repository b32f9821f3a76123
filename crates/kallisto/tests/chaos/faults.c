/* Faults of a machine, put on one server: LD_PRELOAD brings this between it and libc.
 *
 * KALLISTO_FAULTS names a file of eight numbers that the test and the server both map or write, KALLISTO_FAULTS_UNDER the
 * directory whose disk is meant. The first three numbers are orders, the others say how often an order was felt: a fault
 * that nobody felt proves nothing. faults.rs holds the same list.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    int64_t syncs_fail, disk_full, clock_secs;        /* orders */
    int64_t syncs_failed, syncs_retried, writes_refused, clock_told, unused;
};

enum { FILES_MAX = 4096 };
static struct control nothing;
static volatile struct control *control = &nothing;
static const char *under;
/* Files whose sync failed: who syncs one again believes the second answer. */
static volatile char failed[FILES_MAX];

#define NEXT(result, name, ...)                   \
    static result (*next)(__VA_ARGS__);           \
    if (!next) next = dlsym(RTLD_NEXT, #name)
#define COUNT(number) __atomic_add_fetch(&control->number, 1, __ATOMIC_SEQ_CST)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("KALLISTO_FAULTS");
    under = getenv("KALLISTO_FAULTS_UNDER");
    int file = path && under ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) control = map;
}

static int is_under(const char *path) {
    size_t length = strlen(under);
    return strncmp(path, under, length) == 0 && path[length] == '/';
}

/* Whether the full disk refuses to let a file reach `end` bytes. What a file has can be written anew. */
static int no_space(int file, off_t end) {
    char link[64], path[4096];
    struct stat now;
    if (!control->disk_full) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!is_under(path) || fstat(file, &now) != 0 || end <= now.st_size) return 0;
    COUNT(writes_refused);
    errno = ENOSPC;
    return 1;
}

/* Where a plain write of so many bytes would end. */
static off_t end_of(int file, size_t bytes) { return lseek(file, 0, SEEK_CUR) + (off_t)bytes; }

ssize_t write(int file, const void *bytes, size_t count) {
    NEXT(ssize_t, write, int, const void *, size_t);
    return control->disk_full && no_space(file, end_of(file, count)) ? -1 : next(file, bytes, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(ssize_t, writev, int, const struct iovec *, int);
    size_t bytes = 0;
    for (int part = 0; part < count; part++) bytes += parts[part].iov_len;
    return control->disk_full && no_space(file, end_of(file, bytes)) ? -1 : next(file, parts, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    NEXT(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    return no_space(file, at + (off_t)count) ? -1 : next(file, bytes, count, at);
}

int ftruncate64(int file, off64_t length) {
    NEXT(int, ftruncate64, int, off64_t);
    return no_space(file, length) ? -1 : next(file, length);
}

int open64(const char *path, int flags, ...) {
    NEXT(int, open64, const char *, int, ...);
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (control->disk_full && flags & O_CREAT && is_under(path) && access(path, F_OK) != 0) {
        COUNT(writes_refused);
        errno = ENOSPC;
        return -1;
    }
    int file = next(path, flags, mode);
    /* Another file under a number that one may have had whose sync failed. */
    if (file >= 0 && file < FILES_MAX) failed[file] = 0;
    return file;
}

/* Whether the sync of a file fails, and whether its server had been told so before. */
static int sync_fails(int file) {
    if (!control->syncs_fail) return 0;
    if (file >= 0 && file < FILES_MAX && failed[file]++) COUNT(syncs_retried);
    COUNT(syncs_failed);
    errno = EIO;
    return 1;
}

int fsync(int file) {
    NEXT(int, fsync, int);
    return sync_fails(file) ? -1 : next(file);
}

int fdatasync(int file) {
    NEXT(int, fdatasync, int);
    return sync_fails(file) ? -1 : next(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    NEXT(int, clock_gettime, clockid_t, struct timespec *);
    int outcome = next(clock, now);
    if (clock == CLOCK_REALTIME && control->clock_secs) {
        COUNT(clock_told);
        now->tv_sec += control->clock_secs;
    }
    return outcome;
}
