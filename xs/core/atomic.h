/*
 * atomic.h - the only spelling of atomic access in this code base.
 *
 * Every word that another process may look at while we change it goes through
 * these functions, so that one search finds all of them and a sanitizer can
 * follow them.  Nothing else belongs here: no lock, no loop, no policy.
 *
 * Orders: "relaxed" where only the word itself matters; "release" for a store
 * that says "what I wrote before is complete"; read-modify-writes and the
 * "acquire" loads are sequentially consistent, because the lock's two sides
 * each store one word and then read the other's.
 */
#ifndef CBF_ATOMIC_H
#define CBF_ATOMIC_H

#include <stddef.h>
#include <stdint.h>

/* Whether ThreadSanitizer is watching: it follows atomic access only. */
#if defined(__SANITIZE_THREAD__)
#define CBF_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CBF_THREAD_SANITIZER 1
#endif
#endif
#ifndef CBF_THREAD_SANITIZER
#define CBF_THREAD_SANITIZER 0
#endif

#define CBF_DEFINE_ATOMIC(bits)                                              \
    static inline uint##bits##_t                                             \
    cbf_load##bits(const uint##bits##_t *p)                                  \
    {                                                                        \
        return __atomic_load_n(p, __ATOMIC_RELAXED);                         \
    }                                                                        \
    static inline uint##bits##_t                                             \
    cbf_acquire##bits(const uint##bits##_t *p)                               \
    {                                                                        \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                         \
    }                                                                        \
    static inline void                                                       \
    cbf_store##bits(uint##bits##_t *p, uint##bits##_t value)                 \
    {                                                                        \
        __atomic_store_n(p, value, __ATOMIC_RELAXED);                        \
    }                                                                        \
    static inline void                                                       \
    cbf_release##bits(uint##bits##_t *p, uint##bits##_t value)               \
    {                                                                        \
        __atomic_store_n(p, value, __ATOMIC_RELEASE);                        \
    }                                                                        \
    static inline uint##bits##_t                                             \
    cbf_fetch_add##bits(uint##bits##_t *p, uint##bits##_t value)             \
    {                                                                        \
        return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);               \
    }                                                                        \
    static inline uint##bits##_t                                             \
    cbf_fetch_or##bits(uint##bits##_t *p, uint##bits##_t value)              \
    {                                                                        \
        return __atomic_fetch_or(p, value, __ATOMIC_SEQ_CST);                \
    }                                                                        \
    static inline uint##bits##_t                                             \
    cbf_fetch_and##bits(uint##bits##_t *p, uint##bits##_t value)             \
    {                                                                        \
        return __atomic_fetch_and(p, value, __ATOMIC_SEQ_CST);               \
    }                                                                        \
    static inline uint##bits##_t                                             \
    cbf_fetch_sub##bits(uint##bits##_t *p, uint##bits##_t value)             \
    {                                                                        \
        return __atomic_fetch_sub(p, value, __ATOMIC_SEQ_CST);               \
    }                                                                        \
    /* 1 and *p = desired if *p was expected, else 0 and *p as it was. */    \
    static inline int                                                        \
    cbf_swap_if##bits(uint##bits##_t *p, uint##bits##_t expected,            \
                      uint##bits##_t desired)                                \
    {                                                                        \
        return __atomic_compare_exchange_n(p, &expected, desired, 0,         \
                                           __ATOMIC_SEQ_CST,                 \
                                           __ATOMIC_SEQ_CST);                \
    }

CBF_DEFINE_ATOMIC(8)
CBF_DEFINE_ATOMIC(32)
CBF_DEFINE_ATOMIC(64)

#undef CBF_DEFINE_ATOMIC

/* The same for a pointer that threads publish once. */
static inline void *
cbf_acquire_pointer(void *const *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* 1 and *p = desired if *p was NULL, else 0. */
static inline int
cbf_publish_pointer(void **p, void *desired)
{
    void *none = NULL;

    return __atomic_compare_exchange_n(p, &none, desired, 0, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/*
 * Keeps the compiler from moving stores across this point.  Enough where the
 * only thing that may come between two stores is a SIGKILL: the kernel lets
 * every store of the dead process reach memory, in program order as far as the
 * process that later learns of its death can tell.
 */
static inline void
cbf_kill_fence(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/*
 * What is loaded after this was not loaded before an earlier read-modify-write
 * stored its word.  On x86 the locked instruction sees to that; elsewhere the
 * store half of it may still be on its way when later loads are done.
 */
static inline void
cbf_after_swap(void)
{
#if defined(__x86_64__)
    cbf_kill_fence();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/*
 * Whether any of n words is not 0; n is a multiple of 4.  By plain wide loads,
 * where ThreadSanitizer does not look on: every 64-bit part is loaded whole,
 * the parts in any order.  Only behind a fence or a read-modify-write, which
 * they can't be moved across.
 */
static inline int
cbf_any_set(const uint64_t *words, unsigned n)
{
#if CBF_THREAD_SANITIZER
    uint64_t any = 0;
    unsigned i;

    for (i = 0; i < n; i++)
        any |= cbf_load64(words + i);
    return any != 0;
#else
    typedef uint64_t pair __attribute__((vector_size(16), may_alias));
    const pair *p = (const pair *)(const void *)words;
    pair a = p[0];
    pair b = p[1];
    unsigned i;

    for (i = 2; i < n / 2; i += 2) {
        a |= p[i];
        b |= p[i + 1];
    }
    a |= b;
    return (a[0] | a[1]) != 0;
#endif
}

/*
 * Asks for a cache line to be written soon.  __builtin_prefetch asks for it to
 * be read, unless the compiler may assume a processor that has the better
 * instruction; the others take that one for a no-operation.
 */
static inline void
cbf_prefetch_write(const void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}

/* A hint to the processor that this is a spinning loop. */
static inline void
cbf_spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    cbf_kill_fence();
#endif
}

#endif
