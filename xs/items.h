/*
 * items.h - items: from Perl values to hashes, one by one and by the array,
 * and the calls of the core that take them.
 *
 * Everything foreign (get magic, overloading, warning handlers) runs while
 * items are read, before the core is called; only their hashes are kept.
 * Whatever that code does to the object, the argument or the array, what is
 * used afterwards is held here.  Knows nothing of locks and counters.
 */
#ifndef XS_ITEMS_H
#define XS_ITEMS_H

#define XS_DIGITS 24   /* of a 64-bit integer, with sign */
#define XS_MAX_VALUE 15 /* of a count */

#ifndef G_LIST
#define G_LIST G_ARRAY /* its name before perl 5.36 */
#endif

enum xs_op {
    XS_ADD,
    XS_REMOVE,
    XS_CONTAINS,
    XS_COUNT_OF,
    XS_ADD_IF_ABSENT,
    XS_PRESENT,
    XS_ABSENT
};

/* ---- one item --------------------------------------------------------- */

/* Bytes that can be read as they stand. */
PERL_STATIC_INLINE int
xs_is_plain(const SV *sv)
{
    return (SvFLAGS(sv) & (SVf_POK | SVf_UTF8 | SVs_GMG)) == SVf_POK;
}

/* A value whose reading runs no code; it may still croak. */
PERL_STATIC_INLINE int
xs_is_quiet(const SV *sv)
{
    return !SvGMAGICAL(sv) && (SvPOK(sv) || SvIOK(sv));
}

/* An SV that holds an item for reading; created when first needed. */
static SV *
xs_scratch(pTHX_ SV **scratch)
{
    if (!*scratch) {
        *scratch = newSV(0);
        SAVEFREESV(*scratch);
    }
    return *scratch;
}

/*
 * What to read instead of item: itself where that is harmless, else a copy in
 * scratch, so that get magic runs once and the caller's value gets no string
 * form it did not have.
 */
static SV *
xs_item_value(pTHX_ SV *item, SV **scratch)
{
    if (xs_is_quiet(item) || (!SvGMAGICAL(item) && !SvOK(item)))
        return item;
    sv_setsv_flags(xs_scratch(aTHX_ scratch), item,
                   SV_GMAGIC | SV_NOSTEAL | SV_DO_COW_SVSETSV);
    return *scratch;
}

/* The decimal digits of an integer, as Perl writes it, at the end of digits;
 * returns the first. */
static const char *
xs_digits(const SV *value, char *digits, size_t *len)
{
    char *end = digits + XS_DIGITS;
    char *p = end;
    int negative = !SvIsUV(value) && SvIVX(value) < 0;
    UV rest = negative ? 0 - (UV)SvIVX(value) : SvUVX(value);

    do {
        *--p = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (negative)
        *--p = '-';
    *len = (size_t)(end - p);
    return p;
}

/* For hot methods: the bytes of an item that is plain or an integer, else
 * NULL. */
PERL_STATIC_INLINE const char *
xs_bytes_fast(const SV *item, char *digits, size_t *len)
{
    if (LIKELY(xs_is_plain(item))) {
        *len = SvCUR(item);
        return SvPVX_const(item);
    }
    if ((SvFLAGS(item) & (SVf_IOK | SVf_POK | SVs_GMG)) == SVf_IOK)
        return xs_digits(item, digits, len);
    return NULL;
}

/* A string that Perl keeps as UTF-8, by its bytes. */
static struct cbf_hash
xs_hash_upgraded(pTHX_ const struct xs_call *c, const char *string,
                 STRLEN len)
{
    bool is_utf8 = TRUE;
    U8 *bytes = bytes_from_utf8((const U8 *)string, &len, &is_utf8);
    struct cbf_hash hash;

    if (is_utf8)
        xs_croak(aTHX_ c->cv, c->who, "Wide character in item");
    hash = cbf_hash_item(bytes, len);
    if (bytes != (const U8 *)string)
        Safefree(bytes);
    return hash;
}

/* The hash of what xs_item_value gave; stringifies a reference. */
static struct cbf_hash
xs_hash_value(pTHX_ const struct xs_call *c, SV *value)
{
    char digits[XS_DIGITS];
    const char *bytes;
    STRLEN len;

    bytes = xs_bytes_fast(value, digits, &len);
    if (bytes)
        return cbf_hash_item(bytes, len);
    bytes = SvPV_nomg_const(value, len);
    if (SvUTF8(value))
        return xs_hash_upgraded(aTHX_ c, bytes, len);
    return cbf_hash_item(bytes, len);
}

/* ---- the core's side ---------------------------------------------------- */

/* *n_yes: how many answers were yes (of XS_ABSENT: no).  each: one answer an
 * item, or NULL; XS_ADD and XS_REMOVE give none. */
static int
xs_run(struct xs_call *c, enum xs_op op, const struct cbf_hash *hash,
       size_t n, uint8_t *each, size_t *n_yes)
{
    switch (op) {
    case XS_ADD:
        return cbf_add_many(c->core, hash, n, n_yes, &c->error);
    case XS_REMOVE:
        return cbf_remove_many(c->core, hash, n, n_yes, &c->error);
    case XS_ADD_IF_ABSENT:
        return cbf_add_if_absent_many(c->core, hash, n, each, n_yes,
                                      &c->error);
    case XS_COUNT_OF:
        *n_yes = cbf_count_of_many(c->core, hash, n, each);
        return CBF_OK;
    default:
        *n_yes = cbf_contains_many(c->core, hash, n, each);
        return CBF_OK;
    }
}

/*
 * A single-item method whose object or item is out of the ordinary, or whose
 * first try failed as *failed says (nothing was changed then).
 */
static IV
xs_single(pTHX_ CV *cv, enum xs_op op, SV *self, SV *item,
          const struct cbf_error *failed)
{
    struct xs_call c;
    struct cbf_hash hash;
    SV *scratch = NULL;
    size_t n_yes = 0;
    uint8_t each = 0;
    int code = CBF_E_INTERRUPTED;

    xs_call_begin(aTHX_ &c, cv, self, item);
    hash = xs_hash_value(aTHX_ &c, xs_item_value(aTHX_ item, &scratch));
    if (failed) {
        c.error = *failed;
        code = failed->code;
    }
    else
        code = xs_run(&c, op, &hash, 1, &each, &n_yes);
    while (xs_again(aTHX_ &c, code))
        code = xs_run(&c, op, &hash, 1, &each, &n_yes);
    LEAVE;
    return op == XS_COUNT_OF ? (IV)each : (IV)n_yes;
}

/* ---- batches ------------------------------------------------------------ */

/* The items of one call, in one block that the save stack frees. */
struct xs_batch {
    size_t n;              /* elements read so far */
    struct cbf_hash *hash; /* of each */
    SV **kept;             /* counted references, or NULL: not wanted */
    uint8_t *each;         /* an answer for each, or NULL: not wanted */
    SV *scratch;
};

static void
xs_batch_free(pTHX_ void *block)
{
    struct xs_batch *b = (struct xs_batch *)block;
    size_t i;

    if (b->kept)
        for (i = 0; i < b->n; i++)
            SvREFCNT_dec(b->kept[i]);
    free(b);
}

/* Room for n items; each and keep say which extra columns are wanted. */
static struct xs_batch *
xs_batch_new(pTHX_ const struct xs_call *c, size_t n, int each, int keep)
{
    const size_t row = sizeof(struct cbf_hash) + (keep ? sizeof(SV *) : 0)
                       + (each ? 1 : 0);
    struct xs_batch *b = NULL;
    char *column;

    if (n <= (SIZE_MAX - sizeof *b) / row)
        b = (struct xs_batch *)malloc(sizeof *b + n * row);
    if (!b)
        xs_croak(aTHX_ c->cv, c->who, "no memory for %" UVuf " items",
                 (UV)n);
    column = (char *)(b + 1);
    b->n = 0;
    b->scratch = NULL;
    b->hash = (struct cbf_hash *)column;
    column += n * sizeof(struct cbf_hash);
    b->kept = keep ? (SV **)column : NULL;
    column += keep ? n * sizeof(SV *) : 0;
    b->each = each ? (uint8_t *)column : NULL;
    SAVEDESTRUCTOR_X(xs_batch_free, b);
    return b;
}

/* The array of an argument, held; croaks if there is none. */
static AV *
xs_array(pTHX_ const struct xs_call *c, SV *argument)
{
    SV *array;

    if (SvGMAGICAL(argument))
        argument = xs_copy(aTHX_ argument);
    if (SvROK(argument) && SvAMAGIC(argument))
        argument = amagic_deref_call(argument, to_av_amg);
    if (!SvROK(argument) || SvTYPE(SvRV(argument)) != SVt_PVAV)
        xs_croak(aTHX_ c->cv, c->who,
                 "the items must come as an array reference, not %s",
                 xs_show(aTHX_ argument));
    array = SvRV(argument);
    xs_hold(aTHX_ array);
    return (AV *)array;
}

/* Whether the elements are made when asked for, by a tie or as in @-. */
static int
xs_is_tied(const AV *av)
{
    return SvRMAGICAL(av)
           && (mg_find((const SV *)av, PERL_MAGIC_tied)
               || mg_find((const SV *)av, PERL_MAGIC_regdata));
}

/* Element i of an array, or of a tied one; NULL where there is none. */
static SV *
xs_element(pTHX_ AV *av, size_t i, int tied)
{
    SV **slot;

    if (!tied)
        return AvARRAY(av)[i];
    slot = av_fetch(av, (SSize_t)i, 0);
    return slot ? *slot : NULL;
}

/* Reads one element that may run code.  A tied array's elements are made for
 * us, so of those the value is kept, as fetched. */
static void
xs_batch_foreign(pTHX_ const struct xs_call *c, struct xs_batch *b, AV *av,
                 int tied)
{
    const size_t i = b->n;
    SV *element;
    SV *value;

    /* Outside of the scope of this one element: the next one uses it too. */
    xs_scratch(aTHX_ &b->scratch);
    ENTER;
    SAVETMPS;
    element = xs_element(aTHX_ av, i, tied);
    if (element)
        xs_hold(aTHX_ element);
    value = element ? xs_item_value(aTHX_ element, &b->scratch)
                    : &PL_sv_undef;
    if (b->kept) {
        b->kept[i] = element && !tied ? SvREFCNT_inc_simple_NN(element)
                                      : newSVsv(value);
        b->n = i + 1;
    }
    b->hash[i] = xs_hash_value(aTHX_ c, value);
    b->n = i + 1;
    FREETMPS;
    LEAVE;
}

/*
 * How far ahead of the hashing an element's head is asked for, and, once that
 * is here, its string.  On a Sapphire Rapids Xeon 300,000 keys in random order
 * took 44 ns each to read and hash without, and 28 with this; 8 and 4 to 48
 * and 24 did equally well.
 */
#define XS_HEADS_AHEAD 16
#define XS_STRINGS_AHEAD 8

/* Asks for what an element's bytes are read through: where the length stands
 * and where the string does. */
PERL_STATIC_INLINE void
xs_prefetch_string(const SV *element)
{
    if (!element || !xs_is_plain(element))
        return;
    __builtin_prefetch(&((const XPV *)SvANY(element))->xpv_cur);
    __builtin_prefetch(SvPVX_const(element));
}

/*
 * Reads elements from b->n on, up to the first whose bytes cannot be read as
 * they stand.  No foreign code runs in here, so the array stays as it is.
 */
static void
xs_batch_plain(struct xs_batch *b, AV *av, size_t n)
{
    SV **const array = AvARRAY(av);
    const size_t filled = (size_t)(AvFILLp(av) + 1);
    const size_t end = n < filled ? n : filled;
    size_t i;

    for (i = b->n; i < end; i++) {
        SV *const element = array[i];

        if (i + XS_HEADS_AHEAD < end) {
            __builtin_prefetch(array[i + XS_HEADS_AHEAD]);
            xs_prefetch_string(array[i + XS_STRINGS_AHEAD]);
        }
        if (UNLIKELY(!element || !xs_is_plain(element)))
            break;
        b->hash[i] = cbf_hash_item(SvPVX_const(element), SvCUR(element));
        if (b->kept)
            b->kept[i] = SvREFCNT_inc_simple_NN(element);
    }
    b->n = i;
}

/*
 * Reads all elements.  The number is fixed at the start; an array that its own
 * elements' code shortens ends where it ends.  Nothing of the array is
 * remembered across such code.
 */
static struct xs_batch *
xs_batch_read(pTHX_ const struct xs_call *c, AV *av, int each, int keep)
{
    const SSize_t top = xs_is_tied(av) ? av_len(av) : AvFILLp(av);
    const size_t n = (size_t)(top + 1);
    struct xs_batch *b = xs_batch_new(aTHX_ c, n, each, keep);

    while (b->n < n) {
        const int tied = xs_is_tied(av);
        SV *element = NULL;

        if (!tied) {
            xs_batch_plain(b, av, n);
            if (b->n == n || (SSize_t)b->n > AvFILLp(av))
                break;
            element = AvARRAY(av)[b->n];
        }
        if (!element || !xs_is_quiet(element)) {
            xs_batch_foreign(aTHX_ c, b, av, tied);
            continue;
        }
        b->hash[b->n] = xs_hash_value(aTHX_ c, element);
        if (keep)
            b->kept[b->n] = SvREFCNT_inc_simple_NN(element);
        b->n++;
    }
    return b;
}

/* Pushes an answer for each item.  Answers repeat, so items with the same one
 * get the same read-only SV. */
static void
xs_push_values(pTHX_ SV **sp, const struct xs_batch *b)
{
    SV *value[XS_MAX_VALUE + 1];
    AV *owner = newAV();
    size_t i;

    sv_2mortal((SV *)owner);
    for (i = 0; i <= XS_MAX_VALUE; i++) {
        value[i] = newSViv((IV)i);
        SvREADONLY_on(value[i]);
        av_push(owner, value[i]);
    }
    EXTEND(sp, (SSize_t)b->n);
    for (i = 0; i < b->n; i++)
        PUSHs(value[b->each[i] & XS_MAX_VALUE]);
    PUTBACK;
}

/* Pushes the n elements with this answer, themselves. */
static void
xs_push_elements(pTHX_ SV **sp, struct xs_batch *b, uint8_t answer, size_t n)
{
    size_t i;

    EXTEND(sp, (SSize_t)n);
    for (i = 0; i < b->n; i++) {
        if (b->each[i] != answer)
            continue;
        PUSHs(sv_2mortal(b->kept[i]));
        b->kept[i] = NULL;
    }
    PUTBACK;
}

/*
 * A method that takes an array of items.  Leaves its results on Perl's stack
 * where its arguments were: in list context answers or items where the method
 * gives those, else the number of items it stands for.
 */
static void
xs_batch_call(pTHX_ CV *cv, enum xs_op op, I32 ax)
{
    const U8 want = GIMME_V;
    const int each = want == G_LIST && op != XS_ADD && op != XS_REMOVE;
    const int keep = each && op >= XS_ADD_IF_ABSENT;
    SV *items = PL_stack_base[ax + 1];
    struct xs_call c;
    struct xs_batch *b;
    SV **sp;
    size_t n = 0;

    xs_call_begin(aTHX_ &c, cv, PL_stack_base[ax], items);
    b = xs_batch_read(aTHX_ &c, xs_array(aTHX_ &c, items), each, keep);
    while (xs_again(aTHX_ &c, xs_run(&c, op, b->hash, b->n, b->each, &n)))
        continue;
    if (op == XS_ABSENT)
        n = b->n - n;
    sp = PL_stack_base + ax - 1;
    if (keep)
        xs_push_elements(aTHX_ sp, b, op != XS_ABSENT, n);
    else if (each)
        xs_push_values(aTHX_ sp, b);
    else {
        if (want != G_VOID)
            PUSHs(sv_2mortal(newSVuv(n)));
        PUTBACK;
    }
    LEAVE;
}

#endif
