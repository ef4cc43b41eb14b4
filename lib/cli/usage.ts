export const SCHEMA_USAGE = `Usage: nestjs-idempotency status   [--url URL] [--blobs|--audit|--journal] [--schema NAME] [--table NAME]
       nestjs-idempotency migrate  [--url URL] [--blobs|--audit|--journal] [--schema NAME] [--table NAME]
       nestjs-idempotency sql      [--from NUMBER] [--mysql] [--statement-breakpoints] [--blobs|--audit|--journal] [--schema NAME] [--table NAME]
       nestjs-idempotency sql --missing [--url URL] [--statement-breakpoints] [--blobs|--audit|--journal] [--schema NAME] [--table NAME]

The tables in PostgreSQL or MySQL, of the store, and in PostgreSQL of its blobs, of the audit of operators or of the journal.

  status    prints which migrations were run; exits with 1 while one is missing
  migrate   runs the missing ones, each in a transaction; of several processes at once, one does, and the others wait
  sql       prints all of them for psql or another migration tool, to be run in one transaction, and asks no server

  --url       postgres:// or mysql://, with a user who may create tables (the environment's DATABASE_URL)
  --mysql     sql without --missing: for MySQL and MariaDB
  --blobs     the table of postgresBlobs, not that of postgresStore
  --audit     the table of postgresAudit
  --journal   the table of the option journal of postgresStore
  --schema    the table's schema                                (public)
  --table     the table                                         (idempotency_records, idempotency_blobs, idempotency_audit or idempotency_journal)
  --from      prints from this migration on                     (1)
  --missing   prints what the database lacks
  --statement-breakpoints
              separates statements as drizzle-kit does
`;

export const DOCTOR_USAGE = `Usage: nestjs-idempotency doctor --redis URL [--key-prefix TEXT] [--sentinel NAME] [--json]
       nestjs-idempotency doctor --postgres URL [--schema NAME] [--table NAME] [--no-prepared-statements] [--json]
       nestjs-idempotency doctor --mysql URL [--table NAME] [--json]
       nestjs-idempotency doctor --blobs URL [--blobs-schema NAME] [--blobs-table NAME] [--json]

Checks the server of a store: connection, version, rights, durability, memory, latency and clock. Executes each step on
two records of its own, which expire within seconds. With --blobs, alone or besides, it checks a blob store, and writes,
reads and deletes a blob. Exits with 0 if all is ok, with 1 after a warning or an error.

  --redis                   redis:// or rediss://, also of one server of a cluster
  --key-prefix              as the option keyPrefix of redisStore         (idem)
  --sentinel                the URL is that of a Sentinel; the name of the primary
  --postgres                postgres://
  --schema, --table         as the options of postgresStore               (public, idempotency_records)
  --mysql                   mysql:// or mariadb://
  --no-prepared-statements  as preparedStatements: false, behind PgBouncer
  --blobs                   file:///folder; s3://bucket/prefix, with region and credentials of the environment, as the
                            AWS CLI; or postgres://
  --blobs-schema, --blobs-table
                            as the options of postgresBlobs               (public, idempotency_blobs)
  --json                    prints a JSON array, with check, verdict and message
`;

export const OPERATOR_USAGE = `Usage: nestjs-idempotency find    STORE --service NAME --key KEY [--operation NAME]... [--scope PART]...
       nestjs-idempotency list    STORE [--state STATE]... [--lease running|over] [--min-age TIME] [--limit NUMBER]
                                        [--operation NAME] [--service NAME --scope PART...]
       nestjs-idempotency show    STORE --record=RECORD
       nestjs-idempotency release|complete|reopen|redact|retain|delete
                                  STORE --record=RECORD --expect=STATE:FENCE --actor NAME --reason TEXT
       nestjs-idempotency erase   STORE --service NAME --scope PART... --mode redact|delete --actor NAME --reason TEXT [--yes]
       nestjs-idempotency export  STORE --service NAME --scope PART...

Finds, explains and settles records. Exits with 0 if it is done, 1 if nothing was found or done, 2 if the arguments are
wrong, 3 without a reply of the store or the audit; then look with show what became of an act.

  STORE              --redis URL [--key-prefix TEXT] [--sentinel NAME], also of one server of a cluster; or
                     --postgres URL [--schema NAME] [--table NAME] [--no-prepared-statements]; or IDEMPOTENCY_STORE_URL
  --service          the module option "service" of the application
  --key              the client's key; - reads it from the input, so that no list of processes shows it
  --operation        the name of an operation, such as PaymentsController.charge; once for each candidate of find; list needs
                     records that say it, by the module option "annotate"
  --scope            the caller, once for each part, the most general first; of a message with its consumer first for find.
                     Without it, find looks for a request of nobody, and then for the key's tag in all records
  --scope-tag-parts  as the option of protectDigests                        (all)
  --state            in_progress, completed, failed or released
  --min-age          how long ago the attempt began, at least, such as 10m
  --limit            how many records to print                              (100)
  --expect           what you saw: what has changed since is left alone
  --even-if-running  also while an attempt has the record, or its outcome was stored just now
  --nothing-happened of release and reopen: the attempt before had no effect, so the next one is no takeover
  --retention        of complete and retain: how long, from now             (24h for complete)
  --value, --answer  of complete: a file, or - for the input, with what a retry gets, as JSON: what the operation would have
                     returned, or { "status": 201, "headers": {…}, "body": … } of an HTTP route. --operation names it,
                     if the record does not
  --max-execution, --settled-for
                     of reopen, delete and erase: the application's lease.maxExecution and operator.settledFor (5m, 1m)
  --mode             redact keeps that an operation is done; delete does not: a retry runs it again
  --yes              erases; without it, erase counts what it would erase
  --audit            where the entries of acts go: postgres://, to the table idempotency_audit, or redis://, to the stream
                     idempotency:audit; or IDEMPOTENCY_AUDIT_URL     (lines in the error output)
  --json             prints a JSON object for each record or result

  IDEMPOTENCY_TAG_SECRETS  the secrets of "annotate.tags", separated by commas
  IDEMPOTENCY_DIGEST_KEYS  the keys of "digestKeys", in base64, in their order, separated by commas; none for a name without a key
`;

export const DOCS_USAGE = `Usage: nestjs-idempotency docs [TOPIC|WORD...]

The documentation of the installed version, as Markdown. Exits with 0, or with 1 if nothing was found.

  docs        lists all pages
  docs TOPIC  prints a page, by its path or the end of it, or the page of a problem, by its code
  docs WORD   finds the pages with this word; several words: with all of them on one line
`;
