/*
 * object.h - a Perl object and the core's handle behind it: recognising one,
 * keeping it alive while foreign code runs, and every croak.
 *
 * An object is a reference to a blessed scalar with ext magic of our table;
 * mg_ptr is its reference to the core's handle, NULL after DESTROY; mg_obj is
 * the class it was found to belong to, if it is ours or a subclass.  The
 * scalar itself holds nothing, so nothing that Perl code writes into it, and
 * no forged object, can turn into a pointer.  Each ithread has a scalar of its
 * own with a reference of its own: DESTROY in one leaves the others alone.
 *
 * Knows no items, no arguments, and of the core only references and errors.
 */
#ifndef XS_OBJECT_H
#define XS_OBJECT_H

#define XS_CLASS "Data::CountingBloomFilter::Shared"

#define XS_REASON_BYTES 5120 /* a path of 4096 bytes and a sentence */

/*
 * One call of a method.  Lives in the C stack of an XSUB; what a croak must
 * undo is on Perl's save stack, so no cleanup reads this struct.
 */
struct xs_call {
    CV *cv;             /* the method */
    SV *who;            /* the object's scalar, or the class's name; held */
    struct cbf *core;   /* held; NULL in constructors and class methods */
    const char *path;   /* for messages; NULL = none */
    struct cbf_error error;
};

static void
xs_drop_core(pTHX_ void *core)
{
    PERL_UNUSED_CONTEXT;
    cbf_unref((struct cbf *)core);
}

static int
xs_magic_free(pTHX_ SV *sv, MAGIC *mg)
{
    PERL_UNUSED_ARG(sv);
    xs_drop_core(aTHX_ mg->mg_ptr);
    mg->mg_ptr = NULL;
    return 0;
}

#ifdef USE_ITHREADS
static int
xs_magic_dup(pTHX_ MAGIC *mg, CLONE_PARAMS *param)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(param);
    if (mg->mg_ptr)
        cbf_ref((struct cbf *)mg->mg_ptr);
    return 0;
}
#define XS_MAGIC_DUP xs_magic_dup
#else
#define XS_MAGIC_DUP NULL
#endif

/* Its address is what makes a scalar one of ours. */
static const MGVTBL xs_magic_table = {
    NULL,          /* get */
    NULL,          /* set */
    NULL,          /* len */
    NULL,          /* clear */
    xs_magic_free, /* free */
    NULL,          /* copy */
    XS_MAGIC_DUP,  /* dup */
    NULL           /* local */
};

/* Our magic on the scalar behind a reference, or NULL. */
static MAGIC *
xs_magic_of(const SV *scalar)
{
    if (SvTYPE(scalar) < SVt_PVMG)
        return NULL;
    return mg_findext(scalar, PERL_MAGIC_ext, &xs_magic_table);
}

/* The class in messages: of an object, or as the caller wrote it. */
static SV *
xs_class_name(pTHX_ SV *who)
{
    HEK *name;

    if (!who)
        return newSVpvs_flags(XS_CLASS, SVs_TEMP);
    if (!SvOBJECT(who))
        return who;
    name = HvNAME_HEK(SvSTASH(who));
    if (!name)
        return newSVpvs_flags("__ANON__", SVs_TEMP);
    return sv_2mortal(newSVhek(name));
}

/* Every croak of this module: "CLASS->method: reason at FILE line N." */
static void xs_croak(pTHX_ CV *cv, SV *who, const char *pattern, ...)
    __attribute__((noreturn));

static void
xs_croak(pTHX_ CV *cv, SV *who, const char *pattern, ...)
{
    const GV *gv = CvGV(cv);
    SV *text = sv_mortalcopy(xs_class_name(aTHX_ who));
    va_list args;

    sv_catpvf(text, "->%s: ", gv ? GvNAME(gv) : "?");
    va_start(args, pattern);
    sv_vcatpvf(text, pattern, &args);
    va_end(args);
    croak_sv(text);
}

/* The only place where an error of the core becomes a croak. */
static void xs_croak_core(pTHX_ const struct xs_call *c)
    __attribute__((noreturn));

static void
xs_croak_core(pTHX_ const struct xs_call *c)
{
    char reason[XS_REASON_BYTES];

    cbf_error_format(&c->error, c->path, reason, sizeof reason);
    if (!c->error.sys_errno)
        xs_croak(aTHX_ c->cv, c->who, "%s", reason);
    errno = c->error.sys_errno;
    xs_croak(aTHX_ c->cv, c->who, "%s: %s", reason,
             Strerror(c->error.sys_errno));
}

/*
 * Whether an object is of our class or a subclass.  The class that was found
 * to be one is remembered in the magic, so this is asked once, and again after
 * the object was blessed anew.
 */
static int
xs_is_derived(pTHX_ SV *scalar, MAGIC *mg)
{
    SV *class;
    SV *before = mg->mg_obj;

    if (!SvOBJECT(scalar))
        return 0;
    class = (SV *)SvSTASH(scalar);
    if (class == before)
        return 1;
    /* a reference of our own: a tied variable is not to be asked again */
    if (!sv_derived_from(sv_2mortal(newRV_inc(scalar)), XS_CLASS))
        return 0;
    mg->mg_obj = SvREFCNT_inc_simple_NN(class);
    mg->mg_flags |= MGf_REFCOUNTED;
    SvREFCNT_dec(before);
    return 1;
}

/* The magic of an object, destroyed or not; NULL if self is not one. */
static MAGIC *
xs_object_magic(pTHX_ SV *self)
{
    MAGIC *mg;

    /* A method call has asked a tied invocant already. */
    if (!SvROK(self))
        SvGETMAGIC(self);
    if (!SvROK(self))
        return NULL;
    mg = xs_magic_of(SvRV(self));
    if (!mg || !xs_is_derived(aTHX_ SvRV(self), mg))
        return NULL;
    return mg;
}

/* The checked handle of a method's object; croaks if there is none. */
static struct cbf *
xs_self(pTHX_ CV *cv, SV *self)
{
    const MAGIC *mg = xs_object_magic(aTHX_ self);

    if (!mg)
        xs_croak(aTHX_ cv, NULL, "not a " XS_CLASS " object");
    if (!mg->mg_ptr)
        xs_croak(aTHX_ cv, SvRV(self), "the filter is destroyed");
    return (struct cbf *)mg->mg_ptr;
}

/*
 * The same for hot methods, in a few instructions: NULL where anything is out
 * of the ordinary (other magic, blessed anew, no object), which the slow way
 * then sorts out.
 */
PERL_STATIC_INLINE struct cbf *
xs_self_fast(SV *self)
{
    SV *scalar;
    const MAGIC *mg;

    if (UNLIKELY(!SvROK(self)))
        return NULL;
    scalar = SvRV(self);
    if (UNLIKELY(SvTYPE(scalar) < SVt_PVMG))
        return NULL;
    mg = SvMAGIC(scalar);
    if (UNLIKELY(!mg || mg->mg_virtual != &xs_magic_table))
        return NULL;
    if (UNLIKELY(mg->mg_obj != (SV *)SvSTASH(scalar)))
        return NULL;
    return (struct cbf *)mg->mg_ptr;
}

/* Keeps sv alive until the scope of this call is left, by a croak too. */
static void
xs_hold(pTHX_ SV *sv)
{
    SAVEFREESV(SvREFCNT_inc_simple_NN(sv));
}

/*
 * Begins a method that may run foreign code: opens a scope (close it with
 * LEAVE) that keeps the object, its handle and the argument, if there is one,
 * whatever that code destroys.
 */
static void
xs_call_begin(pTHX_ struct xs_call *c, CV *cv, SV *self, SV *argument)
{
    ENTER;
    xs_hold(aTHX_ (SV *)cv);
    if (argument)
        xs_hold(aTHX_ argument);
    c->core = xs_self(aTHX_ cv, self);
    c->cv = cv;
    c->who = SvRV(self);
    c->path = cbf_path(c->core);
    xs_hold(aTHX_ c->who);
    cbf_ref(c->core);
    SAVEDESTRUCTOR_X(xs_drop_core, c->core);
}

/*
 * Looks at what the core returned: 0 ends the loop around the call, an
 * interrupted wait lets %SIG handlers run and asks for another turn, anything
 * else croaks.
 */
static int
xs_again(pTHX_ const struct xs_call *c, int code)
{
    cbf_watch_signals(NULL);
    if (LIKELY(code == CBF_OK))
        return 0;
    if (code != CBF_E_INTERRUPTED)
        xs_croak_core(aTHX_ c);
    PERL_ASYNC_CHECK();
    /* nothing has died in a handler: on with it, until the next one is due */
    cbf_watch_signals(&PL_sig_pending);
    return 1;
}

/* A method without arguments and results. */
static void
xs_call_plain(pTHX_ CV *cv, SV *self,
              int (*work)(struct cbf *f, struct cbf_error *e))
{
    struct xs_call c;

    xs_call_begin(aTHX_ &c, cv, self, NULL);
    while (xs_again(aTHX_ &c, work(c.core, &c.error)))
        continue;
    LEAVE;
}

/* A new object, mortal, of class c->who; takes over the reference to core. */
static SV *
xs_object_new(pTHX_ const struct xs_call *c, struct cbf *core)
{
    HV *class = gv_stashsv(c->who, GV_ADD);
    int derived = sv_derived_from(c->who, XS_CLASS);
    SV *scalar = newSV_type(SVt_PVMG);
    SV *self = sv_2mortal(newRV_noinc(scalar));
    MAGIC *mg = sv_magicext(scalar, derived ? (SV *)class : NULL,
                            PERL_MAGIC_ext, &xs_magic_table,
                            (const char *)core, 0);

    mg->mg_flags |= MGf_DUP;
    return sv_bless(self, class);
}

#endif
