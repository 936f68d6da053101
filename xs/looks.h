/*
 * looks.h - the longer methods that take no items: what a filter says about
 * itself, images, and the two that deal with a second handle.
 *
 * Numbers become Perl values here; what they mean is the core's.
 */
#ifndef XS_LOOKS_H
#define XS_LOOKS_H

/* The filter that merge takes, held; croaks if the argument is none. */
static struct cbf *
xs_other(pTHX_ const struct xs_call *c, SV *argument)
{
    SV *value = xs_copy(aTHX_ argument);
    const MAGIC *mg = xs_object_magic(aTHX_ value);
    struct cbf *other;

    if (!mg)
        xs_croak(aTHX_ c->cv, c->who,
                 "can't merge %s: not a " XS_CLASS " object",
                 xs_show(aTHX_ value));
    if (!mg->mg_ptr)
        xs_croak(aTHX_ c->cv, c->who,
                 "can't merge a filter that is destroyed");
    other = (struct cbf *)mg->mg_ptr;
    cbf_ref(other);
    SAVEDESTRUCTOR_X(xs_drop_core, other);
    return other;
}

/* Moves the object to the file that its path names by now: 1, or 0 if that is
 * the one it has. */
static IV
xs_refresh(pTHX_ CV *cv, SV *self)
{
    struct xs_call c;
    struct cbf *fresh = NULL;
    MAGIC *mg;
    IV switched = 0;

    xs_call_begin(aTHX_ &c, cv, self, NULL);
    while (xs_again(aTHX_ &c, cbf_refresh(c.core, &fresh, &c.error)))
        continue;
    if (fresh) {
        /* A signal handler may have destroyed or refreshed it meanwhile. */
        mg = xs_magic_of(c.who);
        if (mg && (struct cbf *)mg->mg_ptr == c.core) {
            mg->mg_ptr = (char *)fresh;
            fresh = c.core;
            switched = 1;
        }
        cbf_unref(fresh);
    }
    LEAVE;
    return switched;
}

/* ---- images ------------------------------------------------------------- */

/* A string with room for an image, mortal. */
static SV *
xs_image_new(pTHX_ const struct xs_call *c)
{
    const size_t bytes = cbf_geometry_of(c->core)->file_bytes;
    void *probe = malloc(bytes + 1);
    SV *image;

    /* Perl would end the process where there is no memory. */
    if (!probe)
        xs_croak(aTHX_ c->cv, c->who, "no memory for %" UVuf " bytes",
                 (UV)bytes);
    free(probe);
    image = sv_2mortal(newSV(bytes));
    SvPOK_only(image);
    SvCUR_set(image, bytes);
    SvPVX(image)[bytes] = '\0';
    return image;
}

/* The bytes of an image, held. */
static const char *
xs_image(pTHX_ const struct xs_call *c, SV *argument, STRLEN *len)
{
    if (!xs_is_plain(argument)) {
        argument = xs_copy(aTHX_ argument);
        if (!SvOK(argument))
            xs_croak(aTHX_ c->cv, c->who, "bytes are required");
        xs_make_bytes(aTHX_ c, argument, "bytes");
    }
    return SvPV_nomg_const(argument, *len);
}

/* ---- numbers ------------------------------------------------------------ */

static void
xs_put(pTHX_ HV *hash, const char *key, SV *value)
{
    if (!hv_store(hash, key, (I32)strlen(key), value, 0))
        SvREFCNT_dec(value);
}

/* The figures of a filter whose method has begun. */
static void
xs_stats_of(pTHX_ struct xs_call *c, struct cbf_stats *s)
{
    while (xs_again(aTHX_ c, cbf_stats(c->core, s, &c->error)))
        continue;
}

static void
xs_stats_read(pTHX_ CV *cv, SV *self, struct cbf_stats *s)
{
    struct xs_call c;

    xs_call_begin(aTHX_ &c, cv, self, NULL);
    xs_stats_of(aTHX_ &c, s);
    LEAVE;
}

/* sum / k: whole unless something is saturated, or was. */
static SV *
xs_items_of(pTHX_ uint64_t sum, uint32_t n_probes)
{
    if (sum % n_probes == 0)
        return newSVuv(sum / n_probes);
    return newSVnv((NV)sum / n_probes);
}

static SV *
xs_stats(pTHX_ CV *cv, SV *self)
{
    HV *hash = newHV();
    SV *result = sv_2mortal(newRV_noinc((SV *)hash));
    const struct cbf_geometry *g;
    struct cbf_stats s;
    struct xs_call c;

    xs_call_begin(aTHX_ &c, cv, self, NULL);
    xs_stats_of(aTHX_ &c, &s);
    g = cbf_geometry_of(c.core);
    xs_put(aTHX_ hash, "capacity", newSVuv(g->capacity));
    xs_put(aTHX_ hash, "fp_rate", newSVnv(g->fp_rate));
    xs_put(aTHX_ hash, "counters", newSVuv(g->n_counters));
    xs_put(aTHX_ hash, "hashes", newSVuv(g->n_probes));
    xs_put(aTHX_ hash, "mmap_size", newSVuv(g->file_bytes));
    xs_put(aTHX_ hash, "counters_set", newSVuv(s.nonzero));
    xs_put(aTHX_ hash, "fill_ratio",
           newSVnv((NV)s.nonzero / (NV)g->n_counters));
    xs_put(aTHX_ hash, "count", newSVuv(s.count));
    xs_put(aTHX_ hash, "items", xs_items_of(aTHX_ s.sum, g->n_probes));
    xs_put(aTHX_ hash, "saturated", newSVuv(s.saturated));
    xs_put(aTHX_ hash, "estimated_fp_rate", newSVnv(s.fp_now));
    xs_put(aTHX_ hash, "ops", newSVuv(s.ops));
    xs_put(aTHX_ hash, "recovered", newSVuv(s.recovered));
    xs_put(aTHX_ hash, "frozen", newSViv(cbf_frozen(c.core)));
    xs_put(aTHX_ hash, "readonly", newSViv(cbf_readonly(c.core)));
    LEAVE;
    return result;
}

static SV *
xs_histogram(pTHX_ CV *cv, SV *self)
{
    AV *array = newAV();
    SV *result = sv_2mortal(newRV_noinc((SV *)array));
    uint64_t n[XS_MAX_VALUE + 1];
    struct xs_call c;
    int i;

    xs_call_begin(aTHX_ &c, cv, self, NULL);
    while (xs_again(aTHX_ &c, cbf_histogram(c.core, n, &c.error)))
        continue;
    LEAVE;
    for (i = 0; i <= XS_MAX_VALUE; i++)
        av_push(array, newSVuv(n[i]));
    return result;
}

static SV *
xs_geometry(pTHX_ const struct cbf_geometry *plan)
{
    HV *hash = newHV();

    xs_put(aTHX_ hash, "counters", newSVuv(plan->n_counters));
    xs_put(aTHX_ hash, "hashes", newSVuv(plan->n_probes));
    xs_put(aTHX_ hash, "mmap_size", newSVuv(plan->file_bytes));
    return sv_2mortal(newRV_noinc((SV *)hash));
}

#endif
