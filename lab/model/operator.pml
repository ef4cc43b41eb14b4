/* An operator, who looks at the record and changes it later, at any time, whatever has happened since.
 *
 *   OP                  how often
 *   FORCE               also while its lease is running
 *
 * He changes what is in progress or released: to let an outcome be dropped, or replaced, is his decision, and needs no proof.
 */
byte op = OP;

active proctype Operator() {
  mtype rc;
  byte s = 0, f = 0, t = TOKENS;
  bool force = 0;
end:
  do
  :: atomic { op > 0 && (state == in_progress || state == released) -> op--; s = SEEN; f = fence };
     atomic {
#ifdef FORCE
       if :: force = 0 :: force = 1 fi;
#endif
       content[t] = print;
       if
       :: amend(t, s, f, force, TO_RELEASE, rc); if :: rc == ok -> reported = 1 :: else fi    /* the next attempt is a takeover */
       :: amend(t, s, f, force, TO_COMPLETE, rc)
       fi;
       t++; s = 0; f = 0; rc = 0; force = 0 }
  od
}
