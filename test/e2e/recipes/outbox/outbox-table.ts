/** Its rows are committed with what they tell of, and deleted when they are published. */
export const CREATE_OUTBOX = `
  CREATE TABLE outbox (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id text NOT NULL UNIQUE,
    topic text NOT NULL,
    payload jsonb NOT NULL
  )`;
