/*
 * args.h - arguments that are not items: classes, paths, capacities, rates,
 * modes, descriptors.  Each is read exactly once, checked, and named in the
 * croak that refuses it.
 *
 * Knows no items and no counters; what a good value does is the core's.
 */
#ifndef XS_ARGS_H
#define XS_ARGS_H

#define XS_DEFAULT_FP_RATE 0.01
#define XS_MAX_MODE 07777
#define XS_SHOWN_BYTES 64 /* of a bad value in a message */
#define XS_UV_RANGE 18446744073709551616.0

/*
 * Begins a constructor or class method: opens a scope (close it with LEAVE)
 * that keeps all arguments, since reading one may run code that frees another.
 */
static void
xs_class_begin(pTHX_ struct xs_call *c, CV *cv, SV *class, SV **argument,
               I32 items)
{
    I32 i;

    ENTER;
    xs_hold(aTHX_ (SV *)cv);
    for (i = 0; i < items; i++)
        xs_hold(aTHX_ argument[i]);
    c->cv = cv;
    c->who = NULL;
    c->core = NULL;
    c->path = NULL;
    /* A method call has asked a tied invocant already. */
    if (!SvOK(class))
        SvGETMAGIC(class);
    if (SvROK(class) && SvOBJECT(SvRV(class)))
        c->who = xs_class_name(aTHX_ SvRV(class));
    else if (SvPOK(class) && SvCUR(class) > 0)
        c->who = newSVpvn_flags(SvPVX_const(class), SvCUR(class),
                                SVs_TEMP | SvUTF8(class));
    else
        xs_croak(aTHX_ cv, NULL, "not called on a class");
}

/* A private copy of an argument, mortal; runs its get magic, once. */
static SV *
xs_copy(pTHX_ SV *argument)
{
    SV *copy = sv_newmortal();

    sv_setsv_flags(copy, argument,
                   SV_GMAGIC | SV_NOSTEAL | SV_DO_COW_SVSETSV);
    return copy;
}

/* Makes such a copy a string of bytes; name: what is told of a wide one. */
static void
xs_make_bytes(pTHX_ const struct xs_call *c, SV *copy, const char *name)
{
    SvPV_force_nolen(copy);
    if (!sv_utf8_downgrade(copy, TRUE))
        xs_croak(aTHX_ c->cv, c->who, "Wide character in %s", name);
}

/* xs_copy for a number: an object with overloading is asked for its own. */
static SV *
xs_number(pTHX_ SV *argument)
{
    SV *value = xs_copy(aTHX_ argument);

    if (SvROK(value) && SvAMAGIC(value)) {
        SV *number = AMG_CALLunary(value, numer_amg);
        if (number)
            value = xs_copy(aTHX_ number);
    }
    return value;
}

/* A value as messages show it; runs no code of the value's. */
static const char *
xs_show(pTHX_ SV *value)
{
    STRLEN len;
    const char *bytes;

    if (!SvOK(value))
        return "undef";
    if (SvROK(value))
        return Perl_form(aTHX_ "a reference (%s)",
                         sv_reftype(SvRV(value), 1));
    if (SvNIOK(value) && !SvPOK(value))
        return SvPV_nolen_const(value);
    bytes = SvPV_nomg_const(value, len);
    return pv_pretty(sv_newmortal(), bytes, len, XS_SHOWN_BYTES, NULL, NULL,
                     PERL_PV_PRETTY_QUOTE | PERL_PV_PRETTY_ELLIPSES
                         | (SvUTF8(value) ? PERL_PV_ESCAPE_UNI : 0));
}

/*
 * A whole number of at least 1, any UV exactly; a fraction is cut.  More than
 * a UV holds becomes UV_MAX, which the core finds too large like the rest.
 */
static UV
xs_capacity(pTHX_ const struct xs_call *c, SV *value)
{
    UV whole = 0;

    if (SvIOK(value)) {
        if (SvIsUV(value) || SvIVX(value) > 0)
            whole = SvUVX(value);
    }
    else if (looks_like_number(value)) {
        const int exact = IS_NUMBER_IN_UV;
        int kind = 0;

        if (SvPOK(value))
            kind = grok_number(SvPVX_const(value), SvCUR(value), &whole);
        if ((kind & (exact | IS_NUMBER_NEG)) != exact) {
            NV number = SvNV_nomg(value);

            whole = 0;
            if (number >= XS_UV_RANGE && !Perl_isinf(number))
                whole = UV_MAX;
            else if (number >= 1 && number < XS_UV_RANGE)
                whole = (UV)number;
        }
    }
    if (whole == 0)
        xs_croak(aTHX_ c->cv, c->who,
                 "capacity must be a whole number of at least 1, not %s",
                 xs_show(aTHX_ value));
    return whole;
}

/* Strictly between 0 and 1; undef and NULL are the default. */
static double
xs_fp_rate(pTHX_ const struct xs_call *c, SV *argument)
{
    SV *value;
    double rate = 0;

    if (!argument)
        return XS_DEFAULT_FP_RATE;
    value = xs_number(aTHX_ argument);
    if (!SvOK(value))
        return XS_DEFAULT_FP_RATE;
    if (looks_like_number(value))
        rate = (double)SvNV_nomg(value);
    if (!(rate > 0 && rate < 1))
        xs_croak(aTHX_ c->cv, c->who,
                 "fp_rate must lie strictly between 0 and 1, not %s",
                 xs_show(aTHX_ value));
    return rate;
}

/* Capacity and rate, as the geometry they ask for. */
static void
xs_plan(pTHX_ struct xs_call *c, SV *capacity, SV *fp_rate,
        struct cbf_geometry *plan)
{
    SV *value = xs_number(aTHX_ capacity);
    UV n = xs_capacity(aTHX_ c, value);
    double rate = xs_fp_rate(aTHX_ c, fp_rate);
    int code = cbf_geometry_plan(n, rate, plan);

    if (code == CBF_E_TOO_LARGE)
        xs_croak(aTHX_ c->cv, c->who, "capacity %s: %s",
                 xs_show(aTHX_ value), cbf_error_text(code));
    if (code != CBF_OK) {
        cbf_error_set(&c->error, code, NULL);
        xs_croak_core(aTHX_ c);
    }
}

/* Permission bits; undef and NULL are the default. */
static unsigned
xs_mode(pTHX_ const struct xs_call *c, SV *argument)
{
    SV *value;
    NV bits = -1;

    if (!argument)
        return CBF_DEFAULT_MODE;
    value = xs_number(aTHX_ argument);
    if (!SvOK(value))
        return CBF_DEFAULT_MODE;
    if (looks_like_number(value))
        bits = SvNV_nomg(value);
    if (!(bits >= 0 && bits <= XS_MAX_MODE) || bits != (NV)(unsigned)bits)
        xs_croak(aTHX_ c->cv, c->who,
                 "mode must be a whole number from 0 to 07777, not %s",
                 xs_show(aTHX_ value));
    return (unsigned)bits;
}

/* A string for the system, as bytes that live as long as the statement; NULL
 * for undef and NULL. */
static const char *
xs_bytes_of(pTHX_ const struct xs_call *c, SV *argument, const char *name)
{
    SV *value;
    SV *bytes;
    const char *string;
    STRLEN len;

    if (!argument)
        return NULL;
    value = xs_copy(aTHX_ argument);
    if (!SvOK(value))
        return NULL;
    string = SvPV_nomg_const(value, len);
    bytes = newSVpvn_flags(string, len, SVs_TEMP | SvUTF8(value));
    if (!sv_utf8_downgrade(bytes, TRUE))
        xs_croak(aTHX_ c->cv, c->who, "Wide character in %s", name);
    string = SvPV_const(bytes, len);
    if (memchr(string, '\0', len))
        xs_croak(aTHX_ c->cv, c->who, "%s contains a NUL byte: %s", name,
                 xs_show(aTHX_ bytes));
    return string;
}

/* A path, which messages name from now on; undef and NULL give NULL. */
static const char *
xs_path(pTHX_ struct xs_call *c, SV *argument)
{
    const char *path = xs_bytes_of(aTHX_ c, argument, "path");

    if (path && !*path)
        xs_croak(aTHX_ c->cv, c->who, "path is the empty string");
    c->path = path;
    return path;
}

/* The same where there must be one. */
static const char *
xs_path_required(pTHX_ struct xs_call *c, SV *argument)
{
    if (!xs_path(aTHX_ c, argument))
        xs_croak(aTHX_ c->cv, c->who, "path is required");
    return c->path;
}

/* The file handle in a glob, a reference to one, or an IO object; or NULL. */
static IO *
xs_io_of(SV *value)
{
    if (SvROK(value))
        value = SvRV(value);
    if (SvTYPE(value) == SVt_PVIO)
        return (IO *)value;
    if (isGV_with_GP(value))
        return GvIO((GV *)value);
    return NULL;
}

/* A descriptor: a number, or a file handle that has one. */
static int
xs_descriptor(pTHX_ const struct xs_call *c, SV *argument)
{
    SV *value = xs_copy(aTHX_ argument);
    IO *io = xs_io_of(value);
    NV fd = -1;

    if (io) {
        if (IoIFP(io))
            fd = PerlIO_fileno(IoIFP(io));
    }
    else {
        value = xs_number(aTHX_ value);
        if (looks_like_number(value))
            fd = SvNV_nomg(value);
    }
    if (!(fd >= 0 && fd <= INT_MAX) || fd != (NV)(int)fd)
        xs_croak(aTHX_ c->cv, c->who, "not a file descriptor: %s",
                 xs_show(aTHX_ value));
    return (int)fd;
}

#endif
