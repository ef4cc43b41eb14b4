/* The record of one key, and what each command does to it: docs/explanation/protocol.md. A step of the store is one inline, executed at once.
 * table.test.ts compares each step on each record with lib/core/store/record-transitions.ts.
 *
 * Who includes this file defines LOCKED, whether a transaction locks the record, content[t], which content attempt t sends, and
 * the inlines that note what happened: leaseStarts, takesOver, completes, completesLate, restores, stored, alreadyStored, changed.
 *
 * Mistakes
 *   NO_OWNER            complete, extend and release compare neither token nor fence
 *   TOKEN_ALONE         they do not compare the fence
 *   OVERWRITE           complete replaces another attempt's outcome
 *   IGNORE_CONTENT      complete hands over an outcome of another content
 *   RESTORE_FAILURES    complete writes a failure back where there is no record
 *   LATE_FAILURES       complete accepts a failure over another attempt's tombstone
 *   LOWER_FENCE         a late success lowers the fence
 *   DELETE_RELEASED     release leaves no tombstone
 *   AMEND_UNSEEN        amend compares neither state nor fence with what the operator saw
 *   AMEND_RUNNING       amend changes a record whose lease is running, though it is not told to
 *   AMEND_NO_OWNER      the record that amend has changed is still the attempt's
 *
 * TRACE prints each step, with its reply and the record after it, for replay.ts.
 */

/* states, outcomes and replies: the words of the code */
mtype = {
  absent, in_progress, completed, failed, released,
  acquired, takeover, owned, abandoned, mismatch, stale_begin, late,
  ok, revived, max_execution, lost, gone, not_in_progress,
  ok_late, already, superseded, restored,
  stale, not_applicable, running          /* stale: "changed", a name of an inline here */
};

mtype state = absent;
byte own = 0;           /* the attempt whose token it has */
byte fence = 0;
byte kept = 0;          /* the attempt whose outcome it has */
bool print = 0;         /* its fingerprint: of which content */
bool over = 0;          /* its lease is */
bool overdue = 0;       /* its hard deadline is over, and so its lease */

byte ticks = 0;         /* the server's clock, which ticks with each fence that is taken from it */

#define SAME(t) (print == content[t])
#define FINISHED (state == completed || state == failed)
#define EXPIRED (over && !LOCKED)
#ifdef NO_OWNER
#define HOLDS(t,f) true
#elif defined(TOKEN_ALONE)
#define HOLDS(t,f) (own == t)
#else
#define HOLDS(t,f) (own == t && (f == 0 || fence == f))
#endif

inline shown() {
  printf(" | %e own=%d fence=%d kept=%d content=%d over=%d overdue=%d\n", state, own, fence, kept, print, over, overdue)
}

/* A lease never outlasts the hard deadline. */
inline renew() { over = overdue; leaseStarts() }

inline acquire(t, how, isLate, rc, rf) {
  if
  :: isLate -> rc = late
  :: else ->
       ticks++;
       state = in_progress; own = t; fence = ticks; kept = 0; print = content[t]; overdue = 0;
       renew();
       rc = how; rf = fence
  fi
}

inline store(t, outcome) { state = outcome; kept = t; over = 0; overdue = 0; stored(t) }

/* isLate: the server's clock is past notAfter. rv: the attempt whose outcome is replayed; rf: the fence. */
inline begin(t, allow, isLate, rc, rv, rf) {
  if
  :: state == absent -> acquire(t, acquired, isLate, rc, rf)
  :: state == released && own == t -> rc = stale_begin
  :: state == released && own != t -> acquire(t, acquired, isLate, rc, rf)
  :: (state == in_progress || FINISHED) && !SAME(t) -> rc = mismatch
  :: state == in_progress && SAME(t) && own == t -> rc = owned; rf = fence; renew()
  :: state == in_progress && SAME(t) && own != t && !EXPIRED -> rc = in_progress
  :: state == in_progress && SAME(t) && own != t && EXPIRED && !allow -> rc = abandoned
  :: state == in_progress && SAME(t) && own != t && EXPIRED && allow ->
       if :: isLate :: else -> takesOver(t) fi;
       acquire(t, takeover, isLate, rc, rf)
  :: FINISHED && SAME(t) -> rc = state; rv = kept
  fi;
#ifdef TRACE
  printf("begin token=%d content=%d allow=%d late=%d -> %e %d", t, content[t], allow, isLate, rc, rv); shown();
#endif
  changed()
}

inline extend(t, f, rc) {
  if
  :: state == absent -> rc = gone
  :: state == in_progress && !HOLDS(t,f) -> rc = lost
  :: state == in_progress && HOLDS(t,f) && overdue -> rc = max_execution
  :: state == in_progress && HOLDS(t,f) && !overdue -> rc = (over -> revived : ok); renew()
  :: FINISHED || state == released -> rc = (own == t -> not_in_progress : lost)
  fi;
#ifdef TRACE
  printf("extend token=%d fence=%d -> %e 0", t, f, rc); shown();
#endif
  changed()
}

/* outcome: completed or failed. rv: the attempt whose outcome stands. */
inline complete(t, f, outcome, rc, rv) {
  if
#ifdef RESTORE_FAILURES
  :: state == absent ->
#else
  :: state == absent && outcome == failed -> rc = gone
  :: state == absent && outcome == completed ->
#endif
       restores(f, outcome);
       if :: f == 0 -> ticks++; fence = ticks :: else -> fence = f fi;
       own = t; print = content[t];
       store(t, outcome); rc = restored
  :: state == in_progress && !HOLDS(t,f) -> rc = lost
  :: state == in_progress && HOLDS(t,f) ->
       completes(t, f, outcome);
       rc = (over -> ok_late : ok);
       store(t, outcome)
  :: state == released && own == t -> rc = lost
#ifdef LATE_FAILURES
  :: state == released && own != t ->
#else
  :: state == released && own != t && outcome == failed -> rc = lost
  :: state == released && own != t && outcome == completed ->
#endif
       /* that attempt let go; this effect did happen */
       completesLate(f, outcome);
#ifdef LOWER_FENCE
       fence = f;
#else
       fence = (f > fence -> f : fence);
#endif
       own = t; print = content[t];
       store(t, outcome); rc = ok_late
  :: FINISHED && own == t -> alreadyStored(t); rc = already
#ifdef OVERWRITE
  :: FINISHED && own != t -> own = t; print = content[t]; store(t, outcome); rc = ok
#elif defined(IGNORE_CONTENT)
  :: FINISHED && own != t -> rc = superseded; rv = kept
#else
  :: FINISHED && own != t && SAME(t) -> rc = superseded; rv = kept
  :: FINISHED && own != t && !SAME(t) -> rc = lost
#endif
  fi;
#ifdef TRACE
  printf("%e token=%d content=%d fence=%d -> %e %d", outcome, t, content[t], f, rc, rv); shown();
#endif
  changed()
}

inline release(t, f, rc) {
  if
  :: state == absent -> rc = gone
  :: state == in_progress && !HOLDS(t,f) -> rc = lost
  :: state == in_progress && HOLDS(t,f) ->
#ifdef DELETE_RELEASED
       state = absent; own = 0; fence = 0; print = 0;
#else
       state = released;
#endif
       over = 0; overdue = 0; rc = ok
  :: FINISHED || state == released ->
       if
       :: own != t -> rc = lost
       :: own == t -> rc = (state == released -> already : not_in_progress)
       fi
  fi;
#ifdef TRACE
  printf("release token=%d fence=%d -> %e 0", t, f, rc); shown();
#endif
  changed()
}

/* What an operator saw, and what he makes of it: numbers, for the trace. */
#define SEEN (state == in_progress -> 1 : (state == completed -> 2 : (state == failed -> 3 : (state == released -> 4 : 0))))
#define TO_RELEASE 0
#define TO_COMPLETE 1
#define TO_FAIL 2
#ifdef AMEND_UNSEEN
#define AS_SEEN(s,f) true
#else
#define AS_SEEN(s,f) (SEEN == s && fence == f)
#endif
#ifdef AMEND_RUNNING
#define REFUSES(force) false
#else
#define REFUSES(force) (state == in_progress && !EXPIRED && !force)
#endif

/* t: the token of the change. Outcomes are neither replaced nor prolonged here. */
inline amend(t, s, f, force, change, rc) {
  if
  :: state != absent && own == t -> rc = already
  :: state == absent || (own != t && !AS_SEEN(s,f)) -> rc = stale
  :: state != absent && own != t && AS_SEEN(s,f) && FINISHED && change != TO_RELEASE -> rc = not_applicable
  :: state != absent && own != t && AS_SEEN(s,f) && !(FINISHED && change != TO_RELEASE) && REFUSES(force) -> rc = running
  :: state != absent && own != t && AS_SEEN(s,f) && !(FINISHED && change != TO_RELEASE) && !REFUSES(force) ->
#ifndef AMEND_NO_OWNER
       own = t; ticks++; fence = ticks;
#endif
       over = 0; overdue = 0; kept = 0; rc = ok;
       if
       :: change == TO_RELEASE -> state = released
       :: change == TO_COMPLETE -> store(t, completed)
       :: change == TO_FAIL -> store(t, failed)
       fi
  fi;
#ifdef TRACE
  printf("amend token=%d seen=%d fence=%d force=%d change=%d -> %e 0", t, s, f, force, change, rc); shown();
#endif
  changed()
}

/* The store loses the record. */
inline lose() {
  state = absent; own = 0; fence = 0; kept = 0; print = 0; over = 0; overdue = 0
#ifdef TRACE
  ; printf("lose"); shown()
#endif
}

inline leaseExpires() {
  over = 1
#ifdef TRACE
  ; printf("lease"); shown()
#endif
}

inline deadlinePasses() {
  over = 1; overdue = 1
#ifdef TRACE
  ; printf("deadline"); shown()
#endif
}
