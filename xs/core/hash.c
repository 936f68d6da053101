/*
 * hash.c - the one file that includes the system's xxhash.h, inlined, so that
 * there is no library to link with or to find at run time.
 *
 * Hashes bytes; where a hash leads is in hash.h, and no counter is known here.
 */
#include "hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#if XXH_VERSION_NUMBER < 800
#error "xxhash.h 0.8.0 or newer is needed: earlier XXH3 values were not final"
#endif

struct cbf_hash
cbf_hash_item(const void *item, size_t len)
{
    XXH128_hash_t h = XXH3_128bits(item, len);

    return (struct cbf_hash){.lo = h.low64, .hi = h.high64};
}

uint64_t
cbf_hash_checksum(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}
