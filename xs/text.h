/*
 * text.h - items that are parts of one string, each ended by a separator: they
 * are hashed where they stand, without a Perl value each.
 *
 * The methods are the command's own: making a value for each line was the
 * greatest part of what a line cost.
 * As in items.h, all that may run foreign code comes before the first hash.
 */
#ifndef XS_TEXT_H
#define XS_TEXT_H

/* A text: bytes that nothing changes before they are hashed. */
struct xs_text {
    const char *bytes;
    STRLEN len;
    char separator;
};

/* The one byte that ends each item. */
static char
xs_separator(pTHX_ const struct xs_call *c, SV *argument)
{
    SV *value = xs_copy(aTHX_ argument);
    const char *bytes = NULL;
    STRLEN len = 0;

    if (SvOK(value)) {
        SvPV_force_nolen(value);
        if (sv_utf8_downgrade(value, TRUE))
            bytes = SvPV_const(value, len);
    }
    if (len != 1)
        xs_croak(aTHX_ c->cv, c->who, "separator must be one byte, not %s",
                 xs_show(aTHX_ value));
    return *bytes;
}

/* Begins a method whose arguments are a text and a separator; both are read
 * here, the text last. */
static void
xs_text_begin(pTHX_ struct xs_call *c, CV *cv, SV *self, SV *text,
              SV *separator, struct xs_text *t)
{
    xs_call_begin(aTHX_ c, cv, self, text);
    xs_hold(aTHX_ separator);
    t->separator = xs_separator(aTHX_ c, separator);
    if (!xs_is_plain(text)) {
        text = xs_copy(aTHX_ text);
        xs_make_bytes(aTHX_ c, text, "text");
    }
    t->bytes = SvPV_nomg_const(text, t->len);
}

/* How many of the bytes are separators, eight at a time. */
static size_t
xs_separators(const struct xs_text *t)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    const uint64_t low = each * 0x7f;
    const uint64_t wanted = each * (uint8_t)t->separator;
    uint64_t word;
    size_t n = 0;
    size_t i;

    for (i = 0; i + sizeof word <= t->len; i += sizeof word) {
        memcpy(&word, t->bytes + i, sizeof word);
        word ^= wanted;
        /* the top bit of each byte that is 0 by now, no other */
        word = ~(((word & low) + low) | word | low);
        n += (word >> 7) * each >> 56;
    }
    for (; i < t->len; i++)
        n += t->bytes[i] == t->separator;
    return n;
}

/* Where the item at `at` ends; the last one's separator may be missing. */
PERL_STATIC_INLINE size_t
xs_item_end(const struct xs_text *t, size_t at)
{
    const char *stop = (const char *)memchr(t->bytes + at, t->separator,
                                            t->len - at);

    return stop ? (size_t)(stop - t->bytes) : t->len;
}

/* The hashes of all items; each: with room for an answer for each. */
static struct xs_batch *
xs_text_read(pTHX_ const struct xs_call *c, const struct xs_text *t, int each)
{
    const size_t n = xs_separators(t)
                     + (t->len > 0 && t->bytes[t->len - 1] != t->separator);
    struct xs_batch *b = xs_batch_new(aTHX_ c, n, each, 0);
    size_t at = 0;
    size_t end;

    for (; b->n < n; b->n++) {
        end = xs_item_end(t, at);
        b->hash[b->n] = cbf_hash_item(t->bytes + at, end - at);
        at = end + 1;
    }
    return b;
}

/* Adds all items of a text and returns how many they were. */
static UV
xs_add_text(pTHX_ CV *cv, SV *self, SV *text, SV *separator)
{
    struct xs_call c;
    struct xs_text t;
    const struct xs_batch *b;
    size_t n_done = 0;

    xs_text_begin(aTHX_ &c, cv, self, text, separator, &t);
    b = xs_text_read(aTHX_ &c, &t, 0);
    while (xs_again(aTHX_ &c, cbf_add_bulk(c.core, b->hash, b->n, &n_done,
                                           &c.error)))
        continue;
    LEAVE;
    return (UV)n_done;
}

/* The items with this answer, mortal, each with its separator.  Neighbours are
 * copied as one. */
static SV *
xs_text_items(pTHX_ const struct xs_text *t, const struct xs_batch *b,
              uint8_t answer)
{
    SV *items = sv_2mortal(newSV(t->len + 1));
    size_t from = 0;
    size_t at = 0;
    size_t end;
    size_t i;

    sv_setpvs(items, "");
    for (i = 0; i < b->n; i++) {
        end = xs_item_end(t, at);
        if (b->each[i] != answer) {
            sv_catpvn_nomg(items, t->bytes + from, at - from);
            from = end + 1;
        }
        at = end + 1;
    }
    if (from < t->len) {
        sv_catpvn_nomg(items, t->bytes + from, t->len - from);
        if (at > t->len)
            sv_catpvn_nomg(items, &t->separator, 1);
    }
    return items;
}

/*
 * A method that selects the items of a text that are present, or those that
 * are absent.  Leaves their number on Perl's stack, and in list context the
 * items as a text.
 */
static void
xs_select_text(pTHX_ CV *cv, enum xs_op op, I32 ax)
{
    const int each = GIMME_V == G_LIST;
    SV *self = PL_stack_base[ax];
    SV *text = PL_stack_base[ax + 1];
    SV *separator = PL_stack_base[ax + 2];
    struct xs_call c;
    struct xs_text t;
    struct xs_batch *b;
    SV *items = NULL;
    size_t n = 0;
    SV **sp;

    xs_text_begin(aTHX_ &c, cv, self, text, separator, &t);
    b = xs_text_read(aTHX_ &c, &t, each);
    n = cbf_contains_many(c.core, b->hash, b->n, b->each);
    if (op == XS_ABSENT)
        n = b->n - n;
    if (each)
        items = xs_text_items(aTHX_ &t, b, op != XS_ABSENT);
    LEAVE;
    sp = PL_stack_base + ax - 1;
    PUSHs(sv_2mortal(newSVuv(n)));
    if (each)
        PUSHs(items);
    PUTBACK;
}

#endif
