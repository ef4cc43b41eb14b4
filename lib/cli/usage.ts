/** The arguments are wrong: the usage follows the message. */
export class UsageError extends Error {
  readonly code = 'idempotency_options_invalid';
}

/** The server could not do what was asked of it. */
export class ServerFailure extends Error {}

export const SCHEMA_USAGE = `Usage: nestjs-idempotency status   [--url URL] [--blobs] [--schema NAME] [--table NAME]
       nestjs-idempotency migrate  [--url URL] [--blobs] [--schema NAME] [--table NAME]
       nestjs-idempotency sql      [--from NUMBER] [--statement-breakpoints] [--blobs] [--schema NAME] [--table NAME]
       nestjs-idempotency sql --missing [--url URL] [--statement-breakpoints] [--blobs] [--schema NAME] [--table NAME]

The tables in PostgreSQL, of the store or of its blobs.

  status    prints which migrations were run; exits with 1 while one is missing
  migrate   runs the missing ones, each in a transaction; of several processes at once, one does, and the others wait
  sql       prints all of them for psql or another migration tool, to be run in one transaction, and asks no server

  --url       postgres://, with a user who may create tables    (the environment's DATABASE_URL)
  --blobs     the table of postgresBlobs, not that of postgresStore
  --schema    the table's schema                                (public)
  --table     the table                                         (idempotency_records, or idempotency_blobs)
  --from      prints from this migration on                     (1)
  --missing   prints what the database lacks
  --statement-breakpoints
              separates statements as drizzle-kit does
`;

export const DOCTOR_USAGE = `Usage: nestjs-idempotency doctor --redis URL [--key-prefix TEXT] [--sentinel NAME] [--json]
       nestjs-idempotency doctor --postgres URL [--schema NAME] [--table NAME] [--no-prepared-statements] [--json]
       nestjs-idempotency doctor --blobs URL [--blobs-schema NAME] [--blobs-table NAME] [--json]

Checks the server of a store: connection, version, rights, durability, memory, latency and clock. Executes each step on
two records of its own, which expire within seconds. With --blobs, alone or besides, it checks a blob store, and writes,
reads and deletes a blob. Exits with 0 if all is ok, with 1 after a warning or an error.

  --redis                   redis:// or rediss://, also of one server of a cluster
  --key-prefix              as the option keyPrefix of redisStore         (idem)
  --sentinel                the URL is that of a Sentinel; the name of the primary
  --postgres                postgres://
  --schema, --table         as the options of postgresStore               (public, idempotency_records)
  --no-prepared-statements  as preparedStatements: false, behind PgBouncer
  --blobs                   file:///folder; s3://bucket/prefix, with region and credentials of the environment, as the
                            AWS CLI; or postgres://
  --blobs-schema, --blobs-table
                            as the options of postgresBlobs               (public, idempotency_blobs)
  --json                    prints a JSON array, with check, verdict and message
`;
