/*
 * unroll.h - how a loop over the probes of an item is compiled: eight rounds
 * at a time, or without a loop where their number is known.  gcc does that at
 * -O2 only when asked, clang without.
 */
#ifndef CBF_UNROLL_H
#define CBF_UNROLL_H

#ifdef __clang__
#define CBF_UNROLL
#else
#define CBF_UNROLL _Pragma("GCC unroll 8")
#endif

#endif
