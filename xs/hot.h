/*
 * hot.h - the bodies of the single-item methods, for the case that is nearly
 * all of them: an object of ours and an item whose bytes can be read as they
 * are.  No scope is opened and nothing is held, because no foreign code runs;
 * everything else is xs_single's.
 */
#ifndef XS_HOT_H
#define XS_HOT_H

/* A hot method's result, in the SV that the call's op owns. */
#ifdef TARGi
#define XS_RETURN_IV(value)                                                  \
    STMT_START {                                                             \
        TARGi((value), 1);                                                   \
        ST(0) = TARG;                                                        \
        XSRETURN(1);                                                         \
    } STMT_END
#else
#define XS_RETURN_IV(value)                                                  \
    STMT_START {                                                             \
        sv_setiv_mg(TARG, (value));                                          \
        ST(0) = TARG;                                                        \
        XSRETURN(1);                                                         \
    } STMT_END
#endif

/* The body of a hot method that changes one item. */
PERL_STATIC_INLINE IV
xs_change(pTHX_ CV *cv, enum xs_op op, SV *self, SV *item,
          int (*change)(struct cbf *f, const void *item, size_t len,
                        int *changed, struct cbf_error *e))
{
    struct cbf *f = xs_self_fast(self);
    char digits[XS_DIGITS];
    size_t len;
    const char *bytes = xs_bytes_fast(item, digits, &len);
    struct cbf_error e;
    int changed;

    if (UNLIKELY(!f || !bytes))
        return xs_single(aTHX_ cv, op, self, item, NULL);
    if (UNLIKELY(change(f, bytes, len, &changed, &e)))
        return xs_single(aTHX_ cv, op, self, item, &e);
    return changed;
}

/* The body of one that only looks. */
#define XS_LOOK(answer, op, look)                                            \
    STMT_START {                                                             \
        struct cbf *f = xs_self_fast(self);                                  \
        char digits[XS_DIGITS];                                              \
        size_t len;                                                          \
        const char *bytes = xs_bytes_fast(item, digits, &len);               \
                                                                             \
        if (LIKELY(f && bytes))                                              \
            answer = (IV)look(f, bytes, len);                                \
        else                                                                 \
            answer = xs_single(aTHX_ cv, op, self, item, NULL);              \
    } STMT_END

#endif
