CREATE TABLE documents (
  key text PRIMARY KEY,
  version uuid NOT NULL,
  document text NOT NULL
);
