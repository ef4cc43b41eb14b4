-- Opaque text of the caller, for example the trace of the execution. Null in all existing rows, none of which is rewritten.
ALTER TABLE idempotency_records ADD COLUMN note text;
