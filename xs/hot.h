/*
 * hot.h - the single-item methods, for the case that is nearly all of them: an
 * object of ours and an item whose bytes can be read as they are.  No scope is
 * opened and nothing is held, because no foreign code runs; everything else is
 * xs_single's.
 *
 * Of such a call perl's own part takes longer than ours: a scope, a copy of
 * each temporary argument, a check of the result, all for the sake of subs
 * that might be anything.  So the op that has called one of these methods is
 * given a function of ours, which does what is left when the sub is known.  It
 * looks each time which sub it is to call, and leaves any other one, and any
 * argument that is not plain, to perl.  (Class::XSAccessor speeds accessors up
 * in this way.)
 */
#ifndef XS_HOT_H
#define XS_HOT_H

#include <dlfcn.h>

/* The XSUB of all of them, by perl's name for it; XSANY says which one. */
XS_INTERNAL(XS_Data__CountingBloomFilter__Shared_contains);
#define XS_HOT_XSUB XS_Data__CountingBloomFilter__Shared_contains

#define XS_NOT_PLAIN (-1) /* beside the core's codes */

/* CBF_OK and the answer; or a code of the core, told in *e; or XS_NOT_PLAIN.
 * Nothing is changed then. */
static inline __attribute__((always_inline)) int
xs_hot_try(enum xs_op op, SV *self, SV *item, IV *answer, struct cbf_error *e)
{
    struct cbf *f = xs_self_fast(self);
    char digits[XS_DIGITS];
    size_t len;
    const char *bytes = xs_bytes_fast(item, digits, &len);
    int changed = 0;
    int code = CBF_OK;

    if (UNLIKELY(!f || !bytes))
        return XS_NOT_PLAIN;
    switch (op) {
    case XS_CONTAINS:
        changed = cbf_contains(f, bytes, len);
        break;
    case XS_COUNT_OF:
        changed = (int)cbf_count_of(f, bytes, len);
        break;
    case XS_ADD:
        code = cbf_add(f, bytes, len, &changed, e);
        break;
    case XS_REMOVE:
        code = cbf_remove(f, bytes, len, &changed, e);
        break;
    default:
        code = cbf_add_if_absent(f, bytes, len, &changed, e);
        break;
    }
    *answer = changed;
    return code;
}

/* The body of the XSUB. */
PERL_STATIC_INLINE IV
xs_hot(pTHX_ CV *cv, enum xs_op op, SV *self, SV *item)
{
    struct cbf_error e;
    IV answer;
    int code = xs_hot_try(op, self, item, &answer, &e);

    if (UNLIKELY(code != CBF_OK))
        answer = xs_single(aTHX_ cv, op, self, item,
                           code == XS_NOT_PLAIN ? NULL : &e);
    return answer;
}

/* Perl's own pp_entersub; NULL where another module had put a function in its
 * place before this one was loaded. */
static OP *(*xs_perls_entersub)(pTHX);

/* Once, when the module is loaded: whether it is perl's own is told by where
 * it lies. */
static void
xs_hot_boot(pTHX)
{
    OP *(*entersub)(pTHX) = PL_ppaddr[OP_ENTERSUB];
    SV *(*perls)(pTHX) = Perl_sv_newmortal;
    Dl_info here;
    Dl_info there;

    PERL_UNUSED_CONTEXT;
    if (dladdr(FPTR2DPTR(void *, entersub), &here)
        && dladdr(FPTR2DPTR(void *, perls), &there)
        && here.dli_fbase == there.dli_fbase)
        xs_perls_entersub = entersub;
}

/*
 * What an op that calls does instead of perl's pp_entersub.  On the stack,
 * from the mark on: the object, the item, the sub.  They stay there until it
 * is sure that the call is answered here.
 */
static OP *
xs_hot_pp(pTHX)
{
    SV **argument = PL_stack_base + TOPMARK + 1;
    CV *cv = (CV *)*PL_stack_sp;
    struct cbf_error e;
    IV answer;
    SV *TARG;
    int code = XS_NOT_PLAIN;

    if (LIKELY(PL_stack_sp - argument == 2 && SvTYPE(cv) == SVt_PVCV
               && CvXSUB(cv) == XS_HOT_XSUB && argument[1]))
        code = xs_hot_try((enum xs_op)XSANY.any_i32, argument[0], argument[1],
                          &answer, &e);
    if (UNLIKELY(code != CBF_OK)) {
        if (code == XS_NOT_PLAIN)
            return xs_perls_entersub(aTHX);
        answer = xs_single(aTHX_ cv, (enum xs_op)XSANY.any_i32, argument[0],
                           argument[1], &e);
        argument = PL_stack_base + TOPMARK + 1; /* it may have moved */
    }
    TARG = PAD_SV(PL_op->op_targ);
#ifdef TARGi
    TARGi(answer, 1);
#else
    sv_setiv_mg(TARG, answer);
#endif
    argument[0] = TARG;
    PL_stack_sp = argument;
    (void)POPMARK;
    return NORMAL;
}

/*
 * Called by the XSUB: makes the op that called it one of ours.  Only where
 * perl's own function is in it, which a module that wants to see all calls
 * would have replaced; and not where a debugger or profiler was on, or is.
 * Ithreads share ops; they all store the same pointer.
 */
PERL_STATIC_INLINE void
xs_hot_adopt(pTHX)
{
    /* a stack that counts references, and ops that can't be written to */
#if !defined(PERL_RC_STACK) && !defined(PERL_DEBUG_READONLY_OPS)
    const U8 flags = OPpENTERSUB_HASTARG | OPpENTERSUB_DB;
    OP *op = PL_op;

    if (op->op_type == OP_ENTERSUB && op->op_ppaddr == xs_perls_entersub
        && (op->op_private & flags) == OPpENTERSUB_HASTARG && !PL_perldb)
        op->op_ppaddr = xs_hot_pp;
#endif
}

#endif
