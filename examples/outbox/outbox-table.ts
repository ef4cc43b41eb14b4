/** Rows are committed with the change that they announce, and deleted when they are published. */
export const CREATE_OUTBOX = `
  CREATE TABLE outbox (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id text NOT NULL UNIQUE,
    topic text NOT NULL,
    payload jsonb NOT NULL
  )`;
