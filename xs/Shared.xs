/*
 * Shared.xs - the methods: arguments in, one call of the core, result or croak
 * out.  How arguments, items and handles are treated stands in the headers
 * beside this file; locks, files and counters are the core's.
 */
#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"

#include "core/cbf.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "args.h"
#include "items.h"
#include "hot.h"
#include "text.h"
#include "looks.h"

/* The only symbol that the shared object shows. */
XS_EXTERNAL(boot_Data__CountingBloomFilter__Shared)
    __attribute__((visibility("default")));

MODULE = Data::CountingBloomFilter::Shared  PACKAGE = Data::CountingBloomFilter::Shared

PROTOTYPES: DISABLE

BOOT:
    xs_hot_boot(aTHX);

 # ---- single items

IV
contains(self, item)
    SV *self
    SV *item
  ALIAS:
    contains = XS_CONTAINS
    count_of = XS_COUNT_OF
    add = XS_ADD
    remove = XS_REMOVE
    add_if_absent = XS_ADD_IF_ABSENT
  CODE:
    xs_hot_adopt(aTHX);
    RETVAL = xs_hot(aTHX_ cv, (enum xs_op)ix, self, item);
  OUTPUT:
    RETVAL

 # ---- batches

void
add_many(self, items)
    SV *self
    SV *items
  ALIAS:
    add_many = XS_ADD
    remove_many = XS_REMOVE
    contains_many = XS_CONTAINS
    count_of_many = XS_COUNT_OF
    add_if_absent_many = XS_ADD_IF_ABSENT
    present = XS_PRESENT
    absent = XS_ABSENT
  PPCODE:
    PERL_UNUSED_VAR(self);
    PERL_UNUSED_VAR(items);
    xs_batch_call(aTHX_ cv, (enum xs_op)ix, ax);
    return;

 # ---- texts, for the command: not in the manual

UV
_add_text(self, text, separator)
    SV *self
    SV *text
    SV *separator
  CODE:
    RETVAL = xs_add_text(aTHX_ cv, self, text, separator);
  OUTPUT:
    RETVAL

void
_present_text(self, text, separator)
    SV *self
    SV *text
    SV *separator
  ALIAS:
    _present_text = XS_PRESENT
    _absent_text = XS_ABSENT
  PPCODE:
    PERL_UNUSED_VAR(self);
    PERL_UNUSED_VAR(text);
    PERL_UNUSED_VAR(separator);
    xs_select_text(aTHX_ cv, (enum xs_op)ix, ax);
    return;

 # ---- constructors

void
new(class, path, capacity, fp_rate = NULL, mode = NULL)
    SV *class
    SV *path
    SV *capacity
    SV *fp_rate
    SV *mode
  PREINIT:
    struct xs_call c;
    struct cbf_geometry plan;
    struct cbf *core;
    unsigned bits;
  CODE:
    xs_class_begin(aTHX_ &c, cv, class, &ST(0), items);
    xs_path(aTHX_ &c, path);
    xs_plan(aTHX_ &c, capacity, fp_rate, &plan);
    bits = xs_mode(aTHX_ &c, mode);
    while (xs_again(aTHX_ &c,
                    c.path ? cbf_open_path(c.path, &plan, bits, &core,
                                           &c.error)
                           : cbf_open_anonymous(&plan, &core, &c.error)))
        continue;
    ST(0) = xs_object_new(aTHX_ &c, core);
    LEAVE;
    XSRETURN(1);

void
new_memfd(class, name, capacity, fp_rate = NULL)
    SV *class
    SV *name
    SV *capacity
    SV *fp_rate
  PREINIT:
    struct xs_call c;
    struct cbf_geometry plan;
    struct cbf *core;
    const char *label;
  CODE:
    xs_class_begin(aTHX_ &c, cv, class, &ST(0), items);
    label = xs_bytes_of(aTHX_ &c, name, "name");
    xs_plan(aTHX_ &c, capacity, fp_rate, &plan);
    while (xs_again(aTHX_ &c,
                    cbf_open_memfd(label, &plan, &core, &c.error)))
        continue;
    ST(0) = xs_object_new(aTHX_ &c, core);
    LEAVE;
    XSRETURN(1);

void
new_from_fd(class, fd)
    SV *class
    SV *fd
  PREINIT:
    struct xs_call c;
    struct cbf *core;
    int number;
  CODE:
    xs_class_begin(aTHX_ &c, cv, class, &ST(0), items);
    number = xs_descriptor(aTHX_ &c, fd);
    while (xs_again(aTHX_ &c, cbf_open_fd(number, &core, &c.error)))
        continue;
    ST(0) = xs_object_new(aTHX_ &c, core);
    LEAVE;
    XSRETURN(1);

void
new_readonly(class, path = NULL)
    SV *class
    SV *path
  PREINIT:
    struct xs_call c;
    struct cbf *core;
  CODE:
    xs_class_begin(aTHX_ &c, cv, class, &ST(0), items);
    xs_path_required(aTHX_ &c, path);
    while (xs_again(aTHX_ &c, cbf_open_readonly(c.path, &core, &c.error)))
        continue;
    ST(0) = xs_object_new(aTHX_ &c, core);
    LEAVE;
    XSRETURN(1);

void
new_from_bytes(class, bytes)
    SV *class
    SV *bytes
  PREINIT:
    struct xs_call c;
    struct cbf *core;
    const char *image;
    STRLEN len;
  CODE:
    xs_class_begin(aTHX_ &c, cv, class, &ST(0), items);
    image = xs_image(aTHX_ &c, bytes, &len);
    if (cbf_open_image(image, len, &core, &c.error))
        xs_croak_core(aTHX_ &c);
    ST(0) = xs_object_new(aTHX_ &c, core);
    LEAVE;
    XSRETURN(1);

void
DESTROY(self)
    SV *self
  PREINIT:
    MAGIC *mg;
    struct cbf *core;
  CODE:
    /* Anything else than an object of ours has nothing to close. */
    mg = SvROK(self) ? xs_magic_of(SvRV(self)) : NULL;
    if (mg) {
        core = (struct cbf *)mg->mg_ptr;
        mg->mg_ptr = NULL;
        cbf_unref(core);
    }

 # ---- the whole filter

void
clear(self)
    SV *self
  CODE:
    xs_call_plain(aTHX_ cv, self, cbf_clear);

void
freeze(self)
    SV *self
  CODE:
    xs_call_plain(aTHX_ cv, self, cbf_freeze);

void
sync(self)
    SV *self
  CODE:
    xs_call_plain(aTHX_ cv, self, cbf_sync);

void
reserve(self)
    SV *self
  CODE:
    xs_call_plain(aTHX_ cv, self, cbf_reserve);

void
merge(self, other)
    SV *self
    SV *other
  PREINIT:
    struct xs_call c;
    struct cbf *source;
  CODE:
    xs_call_begin(aTHX_ &c, cv, self, other);
    source = xs_other(aTHX_ &c, other);
    while (xs_again(aTHX_ &c, cbf_merge(c.core, source, &c.error)))
        continue;
    LEAVE;

void
unlink(self, path = NULL)
    SV *self
    SV *path
  PREINIT:
    struct xs_call c;
  CODE:
    if (SvROK(self)) {
        xs_self(aTHX_ cv, self);
        if (path)
            xs_croak(aTHX_ cv, SvRV(self),
                     "path is the object's own, it can't be given");
        xs_call_plain(aTHX_ cv, self, cbf_unlink);
        XSRETURN_EMPTY;
    }
    xs_class_begin(aTHX_ &c, cv, self, &ST(0), items);
    xs_path_required(aTHX_ &c, path);
    while (xs_again(aTHX_ &c, cbf_unlink_path(c.path, &c.error)))
        continue;
    LEAVE;

void
save(self, path, mode = NULL)
    SV *self
    SV *path
    SV *mode
  PREINIT:
    struct xs_call c;
    unsigned bits;
  CODE:
    xs_call_begin(aTHX_ &c, cv, self, path);
    if (mode)
        xs_hold(aTHX_ mode);
    xs_path_required(aTHX_ &c, path);
    bits = xs_mode(aTHX_ &c, mode);
    while (xs_again(aTHX_ &c, cbf_save(c.core, c.path, bits, &c.error)))
        continue;
    LEAVE;

void
to_bytes(self)
    SV *self
  PREINIT:
    struct xs_call c;
    SV *image;
  CODE:
    xs_call_begin(aTHX_ &c, cv, self, NULL);
    image = xs_image_new(aTHX_ &c);
    while (xs_again(aTHX_ &c,
                    cbf_image_write(c.core, SvPVX(image), &c.error)))
        continue;
    LEAVE;
    ST(0) = image;
    XSRETURN(1);

IV
refresh(self)
    SV *self
  CODE:
    RETVAL = xs_refresh(aTHX_ cv, self);
  OUTPUT:
    RETVAL

 # ---- looking

void
verify(self)
    SV *self
  PREINIT:
    struct xs_call c;
    int result;
  CODE:
    xs_call_begin(aTHX_ &c, cv, self, NULL);
    while (xs_again(aTHX_ &c, cbf_verify(c.core, &result, &c.error)))
        continue;
    LEAVE;
    ST(0) = result < 0 ? &PL_sv_undef : sv_2mortal(newSViv(result));
    XSRETURN(1);

UV
count(self)
    SV *self
  PREINIT:
    struct cbf_stats s;
  CODE:
    xs_stats_read(aTHX_ cv, self, &s);
    RETVAL = s.count;
  OUTPUT:
    RETVAL

NV
estimated_fp_rate(self)
    SV *self
  PREINIT:
    struct cbf_stats s;
  CODE:
    xs_stats_read(aTHX_ cv, self, &s);
    RETVAL = s.fp_now;
  OUTPUT:
    RETVAL

void
stats(self)
    SV *self
  CODE:
    ST(0) = xs_stats(aTHX_ cv, self);
    XSRETURN(1);

void
histogram(self)
    SV *self
  CODE:
    ST(0) = xs_histogram(aTHX_ cv, self);
    XSRETURN(1);

void
geometry(class, capacity, fp_rate = NULL)
    SV *class
    SV *capacity
    SV *fp_rate
  PREINIT:
    struct xs_call c;
    struct cbf_geometry plan;
  CODE:
    xs_class_begin(aTHX_ &c, cv, class, &ST(0), items);
    xs_plan(aTHX_ &c, capacity, fp_rate, &plan);
    LEAVE;
    ST(0) = xs_geometry(aTHX_ &plan);
    XSRETURN(1);

UV
capacity(self)
    struct cbf *self
  CODE:
    RETVAL = cbf_geometry_of(self)->capacity;
  OUTPUT:
    RETVAL

UV
counters(self)
    struct cbf *self
  CODE:
    RETVAL = cbf_geometry_of(self)->n_counters;
  OUTPUT:
    RETVAL

UV
hashes(self)
    struct cbf *self
  CODE:
    RETVAL = cbf_geometry_of(self)->n_probes;
  OUTPUT:
    RETVAL

NV
fp_rate(self)
    struct cbf *self
  CODE:
    RETVAL = cbf_geometry_of(self)->fp_rate;
  OUTPUT:
    RETVAL

void
path(self)
    struct cbf *self
  PREINIT:
    const char *path;
  CODE:
    path = cbf_path(self);
    ST(0) = path ? sv_2mortal(newSVpv(path, 0)) : &PL_sv_undef;
    XSRETURN(1);

IV
memfd(self)
    struct cbf *self
  CODE:
    RETVAL = cbf_fd(self);
  OUTPUT:
    RETVAL

IV
frozen(self)
    struct cbf *self
  CODE:
    RETVAL = cbf_frozen(self);
  OUTPUT:
    RETVAL

IV
readonly(self)
    struct cbf *self
  CODE:
    RETVAL = cbf_readonly(self);
  OUTPUT:
    RETVAL
