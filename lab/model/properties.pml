/* What only an observer knows, and what holds in every state: the assertions of the steps, and by these switches
 *
 *   ONCE                at most one effect
 *   REPORTED            every further effect was reported to some worker
 *   AUTHORITY           one write authority
 *   LIVE                the one worker hangs, and a client of the same process that comes back ends up with an outcome
 *
 * A mistake: SILENT, a takeover is not reported.
 */
byte effects = 0;                 /* how many */
byte lastEffect = 0;              /* the highest fence of one */
byte got[CONTENTS];               /* the attempt whose success a client of that content got */
byte first = 0;                   /* the first outcome that was ever stored */
bool hasLost = 0;                 /* the store has lost the record */
bool reported = 0;
byte ended = 0;                   /* workers */
bool served = 0;

#ifdef TRACE
/* A step is printed before its violation ends the history. */
bool wrong = 0;
#define MUST(x) wrong = (wrong || !(x))
#else
#define MUST(x) assert(x)
#endif

/* No stored failure hides the effect of an attempt that is newer than the one that failed. */
#define HIDES_NOTHING(f) (f == 0 || lastEffect <= f)

/* No process takes over an attempt that it is itself running, before the hard deadline of that. */
#define HELD_BESIDE(i,w) (HELD_BY(i) && PROCESS(i) == PROCESS(w))
inline takesOver(t) {
#if WORKERS==1
  MUST(!HELD_BY(0));
#elif WORKERS==2
  MUST(!HELD_BESIDE(0, WORKER(t)) && !HELD_BESIDE(1, WORKER(t)));
#else
  MUST(!HELD_BESIDE(0, WORKER(t)) && !HELD_BESIDE(1, WORKER(t)) && !HELD_BESIDE(2, WORKER(t)));
#endif
#ifndef SILENT
  reported = 1
#endif
}

inline stored(t) { if :: first == 0 -> first = t :: else fi }

inline completes(t, f, outcome) {
  MUST(f == 0 || f == ticks);                         /* the newest grant alone completes */
  MUST(SAME(t));
  MUST(outcome == completed || HIDES_NOTHING(f))
}

inline completesLate(f, outcome) {
  MUST(!ANY(HELD_BY)); MUST(!ANY(LATEST));
  MUST(first == 0 || hasLost);                        /* an outcome that was stored is never replaced */
  MUST(outcome == completed || HIDES_NOTHING(f))
}

inline restores(f, outcome) {
  MUST(hasLost || f == 0);
  MUST(outcome == completed || (f == 0 -> effects == 0 : HIDES_NOTHING(f)))
}

inline alreadyStored(t) { MUST(kept == t) }

/* The record's fence is that of the newest grant, a stored outcome never changes, and it points to what is there. */
inline changed() {
  MUST(state == absent || hasLost || fence == ticks);
  MUST(first == 0 || hasLost || (FINISHED && kept == first))
#ifdef BLOBS
  ; MUST(state != completed || hasLost || POINTS_WELL(kept))
#endif
#ifdef TRACE
  ; assert(!wrong)
#endif
}

/* No client gets the outcome of other content; while the store loses nothing, all get the same success. */
inline succeeds(mine, theirs) {
  assert(content[theirs] == content[mine]);
  if
  :: got[content[mine]] == 0 -> got[content[mine]] = theirs
  :: else -> assert(got[content[mine]] == theirs || hasLost)
  fi
}
inline fails(mine, theirs) { assert(content[theirs] == content[mine]) }

/* The business data has accepted a write under this fence. */
inline effectUnder(f) {
  assert(f >= lastEffect);
  lastEffect = f; effects++;
#ifdef ONCE
  assert(effects <= 1)
#endif
}

#ifdef AUTHORITY
#define MAY_WRITE(i) (phase[i] == RUNNING && granted[i] != 0 && state == in_progress && HOLDS(token[i], granted[i]))
#if N==2
ltl authority { [] !(MAY_WRITE(0) && MAY_WRITE(1)) }
#else
ltl authority { [] !((MAY_WRITE(0) && MAY_WRITE(1)) || (MAY_WRITE(0) && MAY_WRITE(2)) || (MAY_WRITE(1) && MAY_WRITE(2))) }
#endif
#endif
#ifdef LIVE
ltl live { <> served }
#endif
