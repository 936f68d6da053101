/*
 * killpoint.h - named places inside a change where a test may stop a process.
 *
 * Built with CBF_TESTING, each calls a function that the test program brings;
 * otherwise they vanish, and the shipped object holds no trace of them.
 */
#ifndef CBF_KILLPOINT_H
#define CBF_KILLPOINT_H

#ifdef CBF_TESTING
void cbf_test_kill_point(const char *name);
#define CBF_KILL_POINT(name) cbf_test_kill_point(name)
#else
#define CBF_KILL_POINT(name) ((void)0)
#endif

#endif
