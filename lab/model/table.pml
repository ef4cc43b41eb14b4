/* Each command on each record, one line of output each: table.test.ts. Attempts 1 and 2 hold the record or send the command;
 * the record's fence is the newest.
 */
#define LOCKED 0
#define FENCE 5
#define TRACE

bool content[3];
byte seen, change;

#include "record.pml"

inline leaseStarts() { skip }
inline takesOver(t) { skip }
inline completes(t, f, outcome) { skip }
inline completesLate(f, outcome) { skip }
inline restores(f, outcome) { skip }
inline stored(t) { skip }
inline alreadyStored(t) { skip }
inline changed() { skip }

mtype rc;
byte rv, rf, i, f;

inline given(s, o, c, isOver, isOverdue) {
  state = s; own = o; print = c; over = isOver; overdue = isOverdue;
  fence = (s == absent -> 0 : FENCE);
  kept = (s == completed || s == failed -> o : 0);
  ticks = FENCE; rv = 0;
  printf("given"); shown()
}

inline each(s, o, c, isOver, isOverdue) {
  i = 0;
  do
  :: i < 4 -> given(s, o, c, isOver, isOverdue); begin(1, (i & 1), (i >> 1), rc, rv, rf); i++
  :: else -> break
  od;
  i = 0;
  do
  :: i < 4 ->
       f = (i == 0 -> 0 : FENCE - 4 + 2 * i);      /* 0, lower, equal, higher */
       given(s, o, c, isOver, isOverdue); extend(1, f, rc);
       given(s, o, c, isOver, isOverdue); complete(1, f, completed, rc, rv);
       given(s, o, c, isOver, isOverdue); complete(1, f, failed, rc, rv);
       given(s, o, c, isOver, isOverdue); release(1, f, rc);
       i++
  :: else -> break
  od;
  change = TO_RELEASE;
  do
  :: change <= TO_FAIL ->
       given(s, o, c, isOver, isOverdue); seen = SEEN; f = fence; amend(1, seen, f, 0, change, rc);
       given(s, o, c, isOver, isOverdue); amend(1, seen, f, 1, change, rc);
       f = FENCE + 2;
       given(s, o, c, isOver, isOverdue); amend(1, seen, f, 1, change, rc);
       seen = (SEEN == 4 -> 1 : 4); f = fence;
       given(s, o, c, isOver, isOverdue); amend(1, seen, f, 1, change, rc);
       change++
  :: else -> break
  od
}

inline eachOwner(s, isOver, isOverdue) {
  each(s, 1, 0, isOver, isOverdue);
  each(s, 2, 0, isOver, isOverdue);
  each(s, 2, 1, isOver, isOverdue)
}

init {
  each(absent, 0, 0, 0, 0);
  eachOwner(in_progress, 0, 0);
  eachOwner(in_progress, 1, 0);
  eachOwner(in_progress, 1, 1);
  eachOwner(completed, 0, 0);
  eachOwner(failed, 0, 0);
  eachOwner(released, 0, 0)
}
