/*
 * owner.c - process identity, and the judgement whether a process is dead.
 *
 * The only file that reads /proc.  Where /proc is not there or belongs to
 * another PID namespace, pidfds give what they can, and the rest stays
 * "unknown", which leads to "can't be judged", never to "dead".
 */
#include "owner.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS_BITS 20
#define NS_UNKNOWN ((1u << NS_BITS) - 1)
#define BOOT_BITS 12
#define BOOT_UNKNOWN 0u

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* Kernels since 6.11 hand out the namespaces of a pidfd. */
#define GET_PID_NAMESPACE _IO(0xFF, 5)
#define GET_TIME_NAMESPACE _IO(0xFF, 7)

void *cbf_owner_page;

/* Reads a small file into buf, terminated.  Length, or -1. */
static ssize_t
read_small(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read(fd, buf, size - 1);
    close(fd);
    if (n >= 0)
        buf[n] = '\0';
    return n;
}

/* The state letter, thread count and start time of /proc/NAME/stat. */
struct process_stat {
    char state;
    long threads;
    uint32_t start; /* clock ticks since boot, low 32 bits, never 0 */
};

/* 0, or -1 where the file can't be read. */
static int
read_stat(const char *name, struct process_stat *out)
{
    char path[64];
    char buf[1024];
    const char *at;
    unsigned long long start;
    int n;

    snprintf(path, sizeof path, "/proc/%s/stat", name);
    if (read_small(path, buf, sizeof buf) <= 0)
        return -1;
    /* the command name may hold anything, parentheses and blanks included */
    at = strrchr(buf, ')');
    if (!at)
        return -1;
    n = sscanf(at + 1,
               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d"
               " %*d %*d %ld %*d %llu",
               &out->state, &out->threads, &start);
    if (n != 3)
        return -1;
    out->start = (uint32_t)start ? (uint32_t)start : UINT32_MAX;
    return 0;
}

static int
open_pidfd(uint32_t pid)
{
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

/* Inode number of one of our namespaces, 0 if it can't be had. */
static uint64_t
namespace_inode(const char *path, unsigned long request)
{
    struct stat st;
    uint64_t inode = 0;
    int pidfd;
    int ns;

    if (stat(path, &st) == 0)
        return (uint64_t)st.st_ino;
    pidfd = open_pidfd((uint32_t)getpid());
    if (pidfd < 0)
        return 0;
    ns = ioctl(pidfd, request, 0);
    if (ns >= 0) {
        if (fstat(ns, &st) == 0)
            inode = (uint64_t)st.st_ino;
        close(ns);
    }
    close(pidfd);
    return inode;
}

/*
 * The PID namespace, in 20 bits.  The kernel numbers namespaces upwards from
 * one base and reuses the numbers, so 20 bits tell apart a million that live
 * at the same time.  Start times are shown relative to the time namespace, so
 * processes of two time namespaces must not compare theirs either.
 */
static uint32_t
namespace_tag(void)
{
    uint64_t pid_ns = namespace_inode("/proc/self/ns/pid", GET_PID_NAMESPACE);
    uint64_t time_ns
        = namespace_inode("/proc/self/ns/time", GET_TIME_NAMESPACE);
    uint32_t tag;

    if (pid_ns == 0)
        return NS_UNKNOWN;
    tag = (uint32_t)(pid_ns + time_ns * 0x9E375u) & NS_UNKNOWN;
    return tag == NS_UNKNOWN ? 0 : tag;
}

/*
 * The boot, in 12 bits, never BOOT_UNKNOWN.  Two boots that fall on one value
 * do no harm: the start time and the pid still have to be equal for a process
 * of an older boot to pass for a living one.
 */
static uint32_t
boot_tag(void)
{
    char buf[64];
    uint32_t hash = 2166136261u;
    const char *p;

    if (read_small("/proc/sys/kernel/random/boot_id", buf, sizeof buf) <= 0)
        return BOOT_UNKNOWN;
    for (p = buf; *p && *p != '\n'; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    hash = (hash ^ hash >> BOOT_BITS) & ((1u << BOOT_BITS) - 1);
    return hash == BOOT_UNKNOWN ? 1 : hash;
}

static uint64_t
pack_id(uint32_t start, uint32_t ns, uint32_t boot)
{
    uint64_t id = (uint64_t)start << 32 | (uint64_t)ns << BOOT_BITS | boot;

    /* with nothing known at all, "unknown namespace" keeps it off these */
    return id == CBF_OWNER_NONE || id == CBF_OWNER_RESERVED ? id + 2 : id;
}

/* Finds out who we are; pid last, for it says that the rest is there. */
static void
identify(struct cbf_owner *self)
{
    struct process_stat st;
    uint32_t start = 0;

    if (read_stat("self", &st) == 0)
        start = st.start;
    cbf_store64(&self->id, pack_id(start, namespace_tag(), boot_tag()));
    cbf_release32(&self->pid, (uint32_t)getpid());
}

/* A page that a fork child finds zeroed; NULL where the kernel has no such. */
static struct cbf_owner *
make_page(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        munmap(page, bytes);
        return NULL;
    }
    return page;
}

/* Where fork can't be noticed for free, the price is getpid at every lock. */
static const struct cbf_owner *
self_without_page(void)
{
    static struct cbf_owner self;
    static struct cbf_owner fresh;

    if (cbf_load32(&self.pid) != (uint32_t)getpid()) {
        identify(&fresh);
        cbf_store64(&self.id, cbf_load64(&fresh.id));
        cbf_release32(&self.pid, cbf_load32(&fresh.pid));
    }
    return &self;
}

const struct cbf_owner *
cbf_owner_refresh(void)
{
    int saved = errno;
    struct cbf_owner *page = cbf_acquire_pointer(&cbf_owner_page);
    const struct cbf_owner *self;

    if (!page) {
        page = make_page();
        /* another thread may have been first; then its page is the one */
        if (page && !cbf_publish_pointer(&cbf_owner_page, page)) {
            munmap(page, (size_t)sysconf(_SC_PAGESIZE));
            page = cbf_acquire_pointer(&cbf_owner_page);
        }
    }
    if (page && !cbf_acquire32(&page->pid))
        identify(page);
    self = page ? page : self_without_page();
    errno = saved;
    return self;
}

/*
 * The number that /proc knows a pidfd's process by, which is not ours where
 * /proc was mounted in another PID namespace.  0 = it can't be seen there.
 */
static long
proc_number(int pidfd)
{
    char path[64];
    char buf[1024];
    const char *line;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (read_small(path, buf, sizeof buf) <= 0)
        return 0;
    line = strstr(buf, "\nPid:");
    if (!line)
        return 0;
    return strtol(line + 5, NULL, 10);
}

/* Judges an existing process by its start time, once /proc shows it. */
static enum cbf_owner_state
judge_start(const char *name, uint32_t start, int trust_zombie)
{
    struct process_stat st;

    if (read_stat(name, &st) != 0)
        return CBF_OWNER_UNSURE;
    /* a dead leader whose threads go on is a zombie too, with threads */
    if (trust_zombie && (st.state == 'Z' || st.state == 'X')
        && st.threads <= 1)
        return CBF_OWNER_DEAD;
    if (start == 0)
        return CBF_OWNER_UNSURE;
    return st.start == start ? CBF_OWNER_ALIVE : CBF_OWNER_DEAD;
}

static enum cbf_owner_state
judge_by_pidfd(int pidfd, uint32_t start)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    char name[32];
    long number;

    /* readable means: all its threads have ended, zombie or gone */
    if (poll(&p, 1, 0) == 1 && (p.revents & POLLIN))
        return CBF_OWNER_DEAD;
    number = proc_number(pidfd);
    if (number <= 0)
        return CBF_OWNER_UNSURE;
    snprintf(name, sizeof name, "%ld", number);
    return judge_start(name, start, 0);
}

/* Old kernels and sandboxes: /proc alone, if it is that of our namespace. */
static enum cbf_owner_state
judge_by_proc(uint32_t pid, uint32_t start)
{
    char name[32];
    ssize_t n = readlink("/proc/self", name, sizeof name - 1);

    if (n <= 0)
        return CBF_OWNER_UNSURE;
    name[n] = '\0';
    if (strtol(name, NULL, 10) != (long)getpid())
        return CBF_OWNER_UNSURE;
    snprintf(name, sizeof name, "%u", (unsigned)pid);
    return judge_start(name, start, 1);
}

/* A pid of our own namespace and boot. */
static enum cbf_owner_state
judge_local(uint32_t pid, uint32_t start)
{
    enum cbf_owner_state state;
    int pidfd;

    if (pid == 0 || pid > INT_MAX)
        return CBF_OWNER_DEAD;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return CBF_OWNER_DEAD;
    pidfd = open_pidfd(pid);
    if (pidfd >= 0) {
        state = judge_by_pidfd(pidfd, start);
        close(pidfd);
        return state;
    }
    /* gone meanwhile, or the number is a thread of some other process now */
    if (errno == ESRCH || errno == EINVAL || errno == ENOENT)
        return CBF_OWNER_DEAD;
    return judge_by_proc(pid, start);
}

enum cbf_owner_state
cbf_owner_judge(uint32_t pid, uint64_t id)
{
    int saved = errno;
    const struct cbf_owner *self = cbf_owner_self();
    uint64_t mine = cbf_load64(&self->id);
    uint32_t ns = (uint32_t)(id >> BOOT_BITS) & NS_UNKNOWN;
    uint32_t my_ns = (uint32_t)(mine >> BOOT_BITS) & NS_UNKNOWN;
    uint32_t boot = (uint32_t)id & ((1u << BOOT_BITS) - 1);
    uint32_t my_boot = (uint32_t)mine & ((1u << BOOT_BITS) - 1);
    enum cbf_owner_state state;

    if (id == CBF_OWNER_NONE || id == CBF_OWNER_RESERVED)
        state = judge_local(pid, 0);
    else if (boot != BOOT_UNKNOWN && my_boot != BOOT_UNKNOWN
             && boot != my_boot)
        state = CBF_OWNER_DEAD;
    else if (ns == NS_UNKNOWN || my_ns == NS_UNKNOWN || ns != my_ns)
        state = CBF_OWNER_UNSURE;
    else
        state = judge_local(pid, (uint32_t)(id >> 32));
    errno = saved;
    return state;
}
