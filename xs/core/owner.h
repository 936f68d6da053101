/*
 * owner.h - who is this process, and is that one dead?
 *
 * A process is its pid, its start time, its PID namespace and the boot it
 * lives in.  The last three are packed into 64 bits, the identity, so that it
 * fits a reader slot:
 *
 *   bits 63..32  start time, clock ticks since boot (low 32 bits); 0 = unknown
 *   bits 31..12  PID namespace (and time namespace); all ones = unknown
 *   bits 11..0   boot, hashed; 0 = unknown
 *
 * An identity is never 0 (nothing recorded) and never CBF_OWNER_RESERVED.  The
 * only file that reads /proc; knows no table and no lock.
 */
#ifndef CBF_OWNER_H
#define CBF_OWNER_H

#include "atomic.h"
#include <stdint.h>

#define CBF_OWNER_NONE ((uint64_t)0)
#define CBF_OWNER_RESERVED ((uint64_t)1)

struct cbf_owner {
    uint64_t id;
    uint32_t pid;
};

enum cbf_owner_state {
    CBF_OWNER_ALIVE, /* exists, and its identity proves it is the same one */
    CBF_OWNER_UNSURE, /* can't be judged: treat as alive, but not for ever */
    CBF_OWNER_DEAD
};

/* For cbf_owner_self only.  The page is wiped by the kernel in a fork
 * child. */
extern void *cbf_owner_page;
const struct cbf_owner *cbf_owner_refresh(void);

/*
 * This process: right in a fork child too, at the price of one load.  Never
 * NULL; the pointer stays good for the life of the process.  Safe in threads.
 */
static inline const struct cbf_owner *
cbf_owner_self(void)
{
    struct cbf_owner *page = cbf_acquire_pointer(&cbf_owner_page);

    if (page && cbf_acquire32(&page->pid))
        return page;
    return cbf_owner_refresh();
}

/*
 * Judges the process that wrote pid and id (CBF_OWNER_NONE = nothing recorded:
 * the pid alone decides).  Dead = another boot; or the same namespace and no
 * such pid, a zombie, or another start time.  A few system calls.
 */
enum cbf_owner_state cbf_owner_judge(uint32_t pid, uint64_t id);

#endif
