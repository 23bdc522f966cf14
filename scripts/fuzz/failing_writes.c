/* Preloaded, it lets one write below some folders fail as on a full disk: the FAULT_AT-th of all processes together,
 * and with FAULT_STAYS all after it, too. FAULT_FOLDERS are the folders, with colons; FAULT_COUNT is a file of eight
 * bytes that counts. Counted are calls that can find a disk full: files made, written, copied by the system, brought
 * to the disk, moved. Not seen are writes to mapped memory, and calls that go by no library. */
#define _GNU_SOURCE
#define _FORTIFY_SOURCE 0
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int below(const char *path) {
    const char *each = getenv("FAULT_FOLDERS");
    while (each && *each) {
        size_t length = strcspn(each, ":");
        if (length && !strncmp(path, each, length) && (path[length] == '/' || !path[length])) return 1;
        each += length;
        if (*each == ':') each++;
    }
    return 0;
}

static int fails(void) {
    static long *count = NULL;
    if (!count) {
        static int (*real)(const char *, int, ...) = NULL;
        const char *file = getenv("FAULT_COUNT");
        if (!file) return 0;
        real = dlsym(RTLD_NEXT, "open");
        int handle = real(file, O_RDWR);
        if (handle < 0) return 0;
        void *place = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
        close(handle);
        if (place == MAP_FAILED) return 0;
        count = place;
    }
    const char *at = getenv("FAULT_AT"), *stays = getenv("FAULT_STAYS");
    long now = __sync_add_and_fetch(count, 1), wanted = at ? atol(at) : 0;
    if (!wanted || (now != wanted && !(stays && *stays && now > wanted))) return 0;
    errno = ENOSPC;
    return 1;
}

static int path_fails(int folder, const char *path) {
    char whole[PATH_MAX], base[PATH_MAX];
    if (path[0] == '/') return below(path) && fails();
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return 0;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return 0;
        base[length] = 0;
    }
    if (snprintf(whole, sizeof whole, "%s/%s", base, path) >= (int)sizeof whole) return 0;
    return below(whole) && fails();
}

static int handle_fails(int handle) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path) && fails();
}

static int stream_fails(FILE *stream) {
    int handle = fileno(stream);
    return handle >= 0 && handle_fails(handle);
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__) = NULL; \
    if (!real) real = dlsym(RTLD_NEXT, name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name, const char *, int, ...); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } \
        if ((flags & O_CREAT) && path_fails(AT_FDCWD, path)) return -1; \
        return real(path, flags, mode); \
    }
#define OPEN_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(int, #name, int, const char *, int, ...); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } \
        if ((flags & O_CREAT) && path_fails(folder, path)) return -1; \
        return real(folder, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

#define OF_HANDLE(result, name, declared, passed) \
    result name declared { \
        static result (*real) declared = NULL; \
        if (!real) real = dlsym(RTLD_NEXT, #name); \
        return handle_fails(handle) ? -1 : real passed; \
    }
OF_HANDLE(ssize_t, write, (int handle, const void *data, size_t size), (handle, data, size))
OF_HANDLE(ssize_t, writev, (int handle, const struct iovec *parts, int number), (handle, parts, number))
OF_HANDLE(ssize_t, pwrite, (int handle, const void *data, size_t size, off_t at), (handle, data, size, at))
OF_HANDLE(ssize_t, pwrite64, (int handle, const void *data, size_t size, off64_t at), (handle, data, size, at))
OF_HANDLE(int, ftruncate, (int handle, off_t size), (handle, size))
OF_HANDLE(int, fsync, (int handle), (handle))
OF_HANDLE(int, fdatasync, (int handle), (handle))

OF_HANDLE(ssize_t, sendfile, (int handle, int from, off_t *at, size_t size), (handle, from, at, size))
OF_HANDLE(ssize_t, sendfile64, (int handle, int from, off64_t *at, size_t size), (handle, from, at, size))
OF_HANDLE(int, posix_fallocate, (int handle, off_t at, off_t size), (handle, at, size))
OF_HANDLE(int, fallocate, (int handle, int mode, off_t at, off_t size), (handle, mode, at, size))

ssize_t copy_file_range(int from, off64_t *from_at, int handle, off64_t *at, size_t size, unsigned flags) {
    REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    return handle_fails(handle) ? -1 : real(from, from_at, handle, at, size, flags);
}

#define OPEN_STREAM(name) \
    FILE *name(const char *path, const char *mode) { \
        REAL(FILE *, #name, const char *, const char *); \
        return *mode != 'r' && path_fails(AT_FDCWD, path) ? NULL : real(path, mode); \
    }
OPEN_STREAM(fopen)
OPEN_STREAM(fopen64)

size_t fwrite(const void *data, size_t size, size_t number, FILE *stream) {
    REAL(size_t, "fwrite", const void *, size_t, size_t, FILE *);
    return stream_fails(stream) ? 0 : real(data, size, number, stream);
}

/* What is still in the memory of a stream is written when it is closed or flushed: that can fail, too. */
#define LAST(name) \
    int name(FILE *stream) { \
        REAL(int, #name, FILE *); \
        int lost = stream && __fwritable(stream) && __fpending(stream) && stream_fails(stream); \
        if (lost) __fpurge(stream); \
        int result = real(stream); \
        if (!lost) return result; \
        errno = ENOSPC; \
        return EOF; \
    }
LAST(fclose)
LAST(fflush)

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return path_fails(AT_FDCWD, path) ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return path_fails(AT_FDCWD, to) ? -1 : real(from, to);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    return path_fails(folder, path) ? -1 : real(folder, path, mode);
}

int renameat(int from_folder, const char *from, int folder, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    return path_fails(folder, to) ? -1 : real(from_folder, from, folder, to);
}

int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *);
    return path_fails(AT_FDCWD, to) ? -1 : real(from, to);
}

int symlink(const char *from, const char *to) {
    REAL(int, "symlink", const char *, const char *);
    return path_fails(AT_FDCWD, to) ? -1 : real(from, to);
}
