/*
 * memory.h - large blocks of memory of our own, for copies and other work that
 * ends with the call.  Knows no table; what a filter lives in is store's.
 */
#ifndef CBF_MEMORY_H
#define CBF_MEMORY_H

#include <stddef.h>
#include <sys/mman.h>

/* All 0, or NULL; in large pages where the kernel grants them: fresh memory
 * would cost more time in page faults than in use. */
static inline void *
cbf_memory_new(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static inline void
cbf_memory_free(void *p, size_t bytes)
{
    munmap(p, bytes);
}

#endif
