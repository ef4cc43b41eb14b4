/* The transactional attempt on PostgreSQL: the outcome is committed together with the effect, and the lock of that transaction on
 * the record's row serves as the lease. Its lease may be over at any instant.
 *
 *   begin    commits by itself; where a transaction locks the row, the lease counts as running
 *   lock     the first statement of the transaction: only on the attempt's own record in progress
 *   commit   outcome, effect and unlock in one step at the server. Its reply may be lost, or the COMMIT may lie in a dead socket's
 *            buffer: it arrives later, unless the server notices first that the connection is gone, and rolls back
 *   after a commit without a reply: wait until no transaction locks the row, then release: not_in_progress means committed
 *
 * Bounds
 *   N workers with ATT attempts each    RL  replies of begin that are lost    UN  commits without a reply
 *   CR crashes of a worker              CUT connections lost before COMMIT    FL  failures of the operation
 * Mistakes
 *   OUTSIDE             the effect commits whatever the record says; only together with the next two
 *   UNLOCKED            the transaction does not lock the record
 *   IGNORE_LOCK         begin does not look for the lock
 *   ASSUME_COMMITTED    a commit without a reply counts as committed
 */
#ifndef N
#define N 2
#endif
#ifndef ATT
#define ATT 2
#endif
#ifndef RL
#define RL 1
#endif
#ifndef CR
#define CR 1
#endif
#ifndef CUT
#define CUT 1
#endif
#ifndef FL
#define FL 1
#endif
#ifndef UN
#define UN 2
#endif

byte lock = 0;                          /* the attempt whose transaction locks the row */
#ifdef IGNORE_LOCK
#define LOCKED 0
#else
#define LOCKED (lock != 0)
#endif

bool content[N*ATT+1];

#include "record.pml"

byte rl = RL, cr = CR, cut = CUT, fl = FL, un = UN;
byte g_token = 0, g_fence = 0;          /* a COMMIT in a dead socket's buffer */
byte effects = 0, got = 0, ended = 0;

inline leaseStarts() { skip }
inline takesOver(t) { skip }
inline completes(t, f, outcome) { assert(f == ticks) }
inline completesLate(f, outcome) { assert(false) }
inline restores(f, outcome) { assert(false) }
inline stored(t) { skip }
inline alreadyStored(t) { assert(false) }
inline changed() { assert(state == absent || fence == ticks) }

/* All clients get the same success. */
inline succeeds(t) { assert(got == 0 || got == t); got = t }
inline effect() { effects++; assert(effects <= 1) }

inline rollBack(t) { if :: lock == t -> lock = 0 :: else fi }

/* At the server: the transaction's last statement, and COMMIT. */
inline commit(t, f, rc, rv) {
  if
  :: lock == t && state == in_progress && HOLDS(t, f) -> complete(t, f, completed, rc, rv); effect(); rc = completed
#ifdef OUTSIDE
  :: lock == t && !(state == in_progress && HOLDS(t, f)) -> effect(); rc = 0
  :: lock != t -> rc = 0
#else
  :: else -> rc = 0
#endif
  fi;
  rollBack(t)
}

proctype Worker(byte i) {
  byte att = 0, t = 0, f = 0, rv = 0;
  mtype rc;
START:
  atomic { t = 1 + i*ATT + att; att++; f = 0; rc = 0; rv = 0 }
BEGIN:
  if
  :: atomic { begin(t, 1, 0, rc, rv, f) }
  :: atomic { rl > 0 -> rl--; begin(t, 1, 0, rc, rv, f); rc = 0; rv = 0; f = 0 } goto BEGIN
  fi;
  if
  :: rc == completed -> atomic { succeeds(rv) }; goto END
  :: rc == in_progress ->
     if
     :: atomic { state != in_progress || EXPIRED -> rc = 0 } goto BEGIN
     :: goto RESPOND
     fi
  :: rc == stale_begin -> goto RESPOND
  :: else
  fi;
LOCK:
#ifdef UNLOCKED
  skip;
#else
  if
  :: atomic { lock == 0 && state == in_progress && HOLDS(t, f) -> lock = t }
  :: atomic { lock == 0 && !(state == in_progress && HOLDS(t, f)) -> skip } goto RELEASE
  :: goto RELEASE                                       /* no connection in time */
  fi;
#endif
  if
  :: atomic { cr > 0 -> cr--; rollBack(t) } goto RESPOND                 /* the process dies, and the server notices at once */
  :: atomic { cr > 0 && g_token == 0 -> cr-- } goto UNNOTICED            /* or later */
  :: atomic { fl > 0 -> fl--; rollBack(t) } goto RELEASE                 /* the operation fails */
  :: atomic { cut > 0 -> cut--; rollBack(t) } goto RELEASE
  :: skip
  fi;
#ifdef UNLOCKED
  atomic { lock = t };
#endif
  if
  :: atomic { commit(t, f, rc, rv) };
     if
     :: rc == completed -> atomic { succeeds(t) }; goto END
     :: else -> goto RELEASE
     fi
  :: atomic { un > 0 -> un--; commit(t, f, rc, rv); rc = 0 }             /* committed, and the reply is lost */
  :: atomic { un > 0 && g_token == 0 -> un--; g_token = t; g_fence = f } /* not yet, and the connection is dead */
  fi;
#ifdef ASSUME_COMMITTED
  atomic { succeeds(t) }; goto END;
#endif
  if
  :: atomic { lock != t -> skip }
  :: goto RESPOND                                       /* 503 after saveTimeoutMs; found out in the background */
  fi;
  atomic { release(t, f, rc) };
  if
  :: rc == not_in_progress -> atomic { succeeds(t) }; goto END
  :: else -> goto RESPOND
  fi;
RELEASE:
  atomic { if :: lock != t -> release(t, f, rc) :: else fi };
RESPOND:
  if
  :: att < ATT -> goto START
  :: goto END
  fi;
UNNOTICED:
  if
  :: atomic { lock == t -> lock = 0 }
  :: atomic { lock != t -> skip }
  fi;
  goto RESPOND;
END:
  atomic { ended++; t = 0; f = 0; rc = 0; rv = 0 }
}

active proctype Leases() {
end:
  do
  :: atomic { state == in_progress && !over -> leaseExpires() }
  od
}

active proctype DeadSocket() {
  mtype rc;
  byte rv;
end:
  do
  :: atomic { g_token != 0 -> commit(g_token, g_fence, rc, rv); g_token = 0; g_fence = 0; rc = 0; rv = 0 }
  :: atomic { g_token != 0 -> rollBack(g_token); g_token = 0; g_fence = 0 }
  od
}

init {
  atomic {
    run Worker(0);
    run Worker(1);
#if N>2
    run Worker(2);
#endif
  }
  (ended == N)
}
