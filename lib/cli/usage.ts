/** The arguments are wrong: the usage follows the message. */
export class UsageError extends Error {}

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
