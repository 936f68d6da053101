/*
 * text.h - items that are parts of one string, each ended by a separator: they
 * are hashed where they stand, without a Perl value each.
 *
 * The methods are the command's own: most of what a line costs is its value.
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
        SvPV_force_nolen(text);
        if (!sv_utf8_downgrade(text, TRUE))
            xs_croak(aTHX_ c->cv, c->who, "Wide character in text");
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

/* The hashes of all items; the last one's separator may be missing. */
static struct xs_batch *
xs_text_read(pTHX_ const struct xs_call *c, const struct xs_text *t)
{
    const char *at = t->bytes;
    const char *const end = at + t->len;
    size_t n = xs_separators(t);
    const char *stop;
    struct xs_batch *b;

    n += t->len > 0 && end[-1] != t->separator;
    b = xs_batch_new(aTHX_ c, n, 0, 0);
    for (; b->n < n; b->n++) {
        stop = (const char *)memchr(at, t->separator, (size_t)(end - at));
        if (!stop)
            stop = end;
        b->hash[b->n] = cbf_hash_item(at, (size_t)(stop - at));
        at = stop + 1;
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
    b = xs_text_read(aTHX_ &c, &t);
    while (xs_again(aTHX_ &c, cbf_add_bulk(c.core, b->hash, b->n, &n_done,
                                           &c.error)))
        continue;
    LEAVE;
    return (UV)n_done;
}

#endif
