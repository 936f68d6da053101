/*
 * lock_holder.c - who holds the write lock, is it dead, and taking it over.
 *
 * Suspicion comes from plain reads; the deed is one compare-and-swap on the
 * very value suspected, and a look whether somebody else was faster.
 */
#include "lock_private.h"
#include "atomic.h"

/*
 * The holder has not written its identity: it is between its compare-and-swap
 * and that store, alive or dead.  Its slot tells who it is, and so would all
 * slots of that pid, if several namespaces have one: it is dead only if all
 * are.  One that lives may have got the pid of a holder that died just there,
 * so it is not waited for without end.  No slot at all: an older release, for
 * which the pid decides, unless the slots are full, when it may be one of ours
 * that found none.
 */
static enum cbf_owner_state
judge_by_slots(const struct cbf_lock *l, uint32_t pid)
{
    int found = 0;
    int free = 0;
    uint32_t at;
    uint64_t id;

    for (at = 0; at < CBF_FMT_SLOTS; at++) {
        id = cbf_acquire64(&l->slots[at].id);
        free += id == CBF_OWNER_NONE;
        if (id == CBF_OWNER_NONE || id == CBF_OWNER_RESERVED
            || cbf_load32(&l->slots[at].owner.part.pid) != pid)
            continue;
        found = 1;
        if (cbf_owner_judge(pid, id) != CBF_OWNER_DEAD)
            return CBF_OWNER_UNSURE;
    }
    if (found)
        return CBF_OWNER_DEAD;
    if (!free)
        return CBF_OWNER_UNSURE;
    return cbf_owner_judge(pid, CBF_OWNER_NONE);
}

enum cbf_owner_state
cbf_lock_judge_writer(const struct cbf_lock *l, uint32_t writer)
{
    uint32_t pid = writer & ~CBF_FMT_WRITER_HELD;
    uint32_t recorded;

    if (!(writer & CBF_FMT_WRITER_HELD))
        return CBF_OWNER_DEAD; /* no release ever wrote that */
    recorded = cbf_acquire32(&l->header->writer_pid);
    if (recorded == pid)
        return cbf_owner_judge(pid, cbf_load64(&l->header->writer_id));
    return judge_by_slots(l, pid);
}

void
cbf_lock_trust(struct cbf_lock *l)
{
    if (cbf_load64(&l->doubt_since) != 0)
        cbf_store64(&l->doubt_since, 0);
}

/* Whether the holder in the way has been in doubt for too long.  Progress, or
 * another holder, starts the time anew. */
int
cbf_lock_doubted_too_long(struct cbf_lock *l, uint32_t who)
{
    uint64_t ops = cbf_load64(&l->header->ops);
    uint64_t since = cbf_load64(&l->doubt_since);
    uint64_t now = (uint64_t)cbf_lock_now_ns();

    if (since == 0 || who != cbf_load32(&l->doubt_who)
        || ops != cbf_load64(&l->doubt_ops)) {
        cbf_store32(&l->doubt_who, who);
        cbf_store64(&l->doubt_ops, ops);
        cbf_store64(&l->doubt_since, now);
        return 0;
    }
    if (now - since < CBF_LOCK_UNSURE_NS)
        return 0;
    cbf_lock_trust(l); /* the next call gives the holder its time again */
    return 1;
}

int
cbf_lock_give_up(const struct cbf_lock_wait *w, uint32_t pid)
{
    cbf_error_set(w->e, CBF_E_OWNER, NULL);
    if (w->e)
        w->e->pid = pid;
    return CBF_E_OWNER;
}

/* What was judged: it must be there still when the word has been swapped. */
struct suspect {
    uint32_t writer;
    uint32_t recovered;
    uint32_t pid; /* of the signature, 0 = had not signed */
    uint64_t id;
};

static struct suspect
suspect_of(const struct cbf_fmt_header *hdr)
{
    struct suspect s = { .recovered = cbf_acquire32(&hdr->recovered) };

    s.writer = cbf_acquire32(&hdr->writer);
    s.pid = cbf_acquire32(&hdr->writer_pid);
    s.id = cbf_acquire64(&hdr->writer_id);
    return s;
}

/*
 * Takes the word over from a holder judged dead.  The compare-and-swap alone
 * would not do, for the same value may stand for another by now: a process of
 * another namespace with the same pid, or the one that took over before us, if
 * it has the pid of the dead.  The first has another signature, or none yet.
 * The second has counted `recovered` up, or will fail to: whoever counts it up
 * from what it was at the judgement is the one; and the signature of the dead
 * goes before that, so that nobody judges it a second time.  In the other
 * cases the word is given back; its holder has noticed nothing, or has freed
 * it meanwhile, which is as good.
 */
static void
take_over(struct cbf_lock *l, struct cbf_lock_wait *w, const struct suspect *s)
{
    struct cbf_fmt_header *hdr = l->header;
    uint32_t mine = CBF_FMT_WRITER_HELD | w->self->pid;

    if (!cbf_swap_if32(&hdr->writer, s->writer, mine))
        return;
    CBF_KILL_POINT("takeover: word swapped");
    if (cbf_acquire32(&hdr->writer_pid) == s->pid
        && cbf_acquire64(&hdr->writer_id) == s->id) {
        cbf_release32(&hdr->writer_pid, 0);
        CBF_KILL_POINT("takeover: signature gone");
        if (cbf_swap_if32(&hdr->recovered, s->recovered, s->recovered + 1)) {
            w->took_over = 1;
            w->was_signed = s->writer == (CBF_FMT_WRITER_HELD | s->pid);
            return;
        }
    }
    cbf_swap_if32(&hdr->writer, mine, s->writer);
}

int
cbf_lock_examine_writer(struct cbf_lock *l, struct cbf_lock_wait *w)
{
    struct suspect s = suspect_of(l->header);
    enum cbf_owner_state state;

    if (s.writer == 0)
        return CBF_OK;
    state = cbf_lock_judge_writer(l, s.writer);
    if (state == CBF_OWNER_DEAD)
        take_over(l, w, &s);
    else if (state == CBF_OWNER_ALIVE)
        cbf_lock_trust(l);
    else if (cbf_lock_doubted_too_long(l, s.writer))
        return cbf_lock_give_up(w, s.writer & ~CBF_FMT_WRITER_HELD);
    return CBF_OK;
}
