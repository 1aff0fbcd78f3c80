/* Loaded before the C library: every fsync takes DELAY_NS longer, and nothing else does. */

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int slowly(long number, int file) {
    const struct timespec delay = {.tv_nsec = DELAY_NS};
    const int result = (int)syscall(number, file);
    nanosleep(&delay, 0);
    return result;
}

int fsync(int file) { return slowly(SYS_fsync, file); }

int fdatasync(int file) { return slowly(SYS_fdatasync, file); }
