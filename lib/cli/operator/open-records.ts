import { randomBytes } from 'node:crypto';
import { asError } from '../../core/errors/errors.js';
import { IdempotencyMeter } from '../../core/meter/idempotency-meter.js';
import type { AuditEntry } from '../../core/operator/operator-options.js';
import type { Duration } from '../../core/options/duration.js';
import { staticKeys, type KeyMaterial } from '../../core/payload/secret-keys.js';
import { ANNOTATE, type AnnotateOptions } from '../../core/record/annotations.js';
import { resolveGroup } from '../../core/options/option-schema.js';
import { IdempotencyEvents } from '../../core/record/idempotency-events.js';
import { nodeClock } from '../../core/util/clock.js';
import { engineOf } from '../../nest/engine-of.js';
import { IdempotencyRecords } from '../../nest/idempotency-records.js';
import type { IdempotencyModuleOptions } from '../../nest/options/idempotency-options.js';
import { openStore } from '../servers/open-store.js';
import { isPostgres, isRedis, type ServerAddress } from '../servers/server-address.js';
import { UsageError } from '../servers/failures.js';
import { wholeNumber, type Given } from './arguments.js';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface OpenedRecords {
  readonly records: IdempotencyRecords;
  /** Whether names are looked up by digest keys. */
  readonly isProtected: boolean;
  /** Whether a key is found without its caller. */
  readonly hasTags: boolean;
  readonly address: ServerAddress;
  readonly close: () => Promise<void>;
}

/** An operator waits longer than a request. */
const TIMEOUT = '5s';

/** Names no record where none is named by its parts. */
const NO_SERVICE = 'nestjs-idempotency';

const MOST_TAG_PARTS = 16;

/**
 * What `IdempotencyRecords` is in an application, over the same store: without its operations, its other options and its
 * note of the service.
 */
export async function openRecords(
  given: Given,
  environment: Environment,
  audit: (entry: AuditEntry) => void | Promise<void>,
): Promise<OpenedRecords> {
  const url = urlOf(given, environment);
  const { service = NO_SERVICE, schema, table, sentinel, operation = [] } = given;
  const protection = protectionOf(given, environment);
  const tags = tagsOf(environment);
  const opened = await openStore(url, {
    schema,
    table,
    sentinel,
    keyPrefix: given['key-prefix'],
    preparedStatements: given['no-prepared-statements'] !== true,
  });
  const { store, address } = opened;
  const options = {
    store,
    service,
    ...protection,
    annotate: tags === undefined || { tags },
    operator: { audit, ...defined({ settledFor: given['settled-for'] as Duration | undefined }) },
    lease: defined({ maxExecution: given['max-execution'] as Duration | undefined }),
    storeErrors: { commandTimeout: TIMEOUT, saveTimeout: TIMEOUT },
  } satisfies IdempotencyModuleOptions;
  try {
    const meter = new IdempotencyMeter(() => undefined, nodeClock);
    const engine = engineOf(options, new IdempotencyEvents(meter, nodeClock), meter, nodeClock);
    await engine.open();
    const records = new IdempotencyRecords(
      engine,
      { all: () => operation, declared: () => undefined },
      options,
      ignore,
    );
    const close = async () => {
      await engine.outcomes.close();
      await opened.close();
    };
    const [isProtected, hasTags] = [protection !== undefined, tags !== undefined];
    return { records, isProtected, hasTags, address, close };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Where the store is. Its URL may have a password: a process of the same machine sees the arguments, not the environment. */
function urlOf({ redis, postgres }: Given, environment: Environment): string {
  if (redis !== undefined && postgres !== undefined) {
    throw new UsageError('Pass either --redis URL or --postgres URL.');
  }
  if (redis !== undefined && isRedis(redis)) return redis;
  if (postgres !== undefined && isPostgres(postgres)) return postgres;
  const inEnvironment = environment.IDEMPOTENCY_STORE_URL ?? '';
  const isGiven = redis !== undefined || postgres !== undefined;
  if (!isGiven && (isRedis(inEnvironment) || isPostgres(inEnvironment))) return inEnvironment;
  // Does not repeat it: it may contain a password.
  throw new UsageError(
    isGiven
      ? '--redis must begin with redis:// or rediss://, and --postgres with postgres:// or postgresql://.'
      : 'Pass --redis URL or --postgres URL, or set IDEMPOTENCY_STORE_URL to one of these.',
  );
}

/** Of `protectDigests`, with the keys of the environment. */
function protectionOf(
  given: Given,
  { IDEMPOTENCY_DIGEST_KEYS: list }: Environment,
): Pick<IdempotencyModuleOptions, 'secrets' | 'protectDigests'> | undefined {
  const scopeTagParts = wholeNumber(given['scope-tag-parts'], 'scope-tag-parts', MOST_TAG_PARTS);
  if (list === undefined || list === '') {
    if (scopeTagParts === undefined) return undefined;
    throw new UsageError(`--scope-tag-parts needs digest keys. ${DIGEST_KEYS}`);
  }
  const materials = list.split(',').map((material) => material.trim());
  const ids = materials.map((material, at) => (material === 'none' ? material : `key-${at + 1}`));
  // The command stores no outcome: nothing is ever encrypted by it.
  const keys: Record<string, KeyMaterial> = { unused: randomBytes(32) };
  for (const [at, id] of ids.entries()) if (id !== 'none') keys[id] = materials[at] ?? '';
  try {
    const secrets = staticKeys({ current: 'unused', keys, digestKeys: ids });
    return {
      secrets,
      protectDigests: scopeTagParts === undefined ? true : { scopeTagParts },
    };
  } catch (error) {
    throw new UsageError(`IDEMPOTENCY_DIGEST_KEYS: ${asError(error).message}`);
  }
}

/** Of `annotate.tags`. */
function tagsOf({ IDEMPOTENCY_TAG_SECRETS: list }: Environment): AnnotateOptions['tags'] {
  if (list === undefined || list === '') return undefined;
  const secret = list.split(',').map((each) => each.trim());
  try {
    resolveGroup('annotate', ANNOTATE, { tags: { secret } });
  } catch (error) {
    throw new UsageError(`IDEMPOTENCY_TAG_SECRETS: ${asError(error).message}`);
  }
  return { secret };
}

export const DIGEST_KEYS =
  'Set IDEMPOTENCY_DIGEST_KEYS to the keys of the application\'s "digestKeys", in base64, in their order, separated by commas.';

/** Without the members that are not given. */
function defined<Value>(members: Record<string, Value | undefined>): Record<string, Value> {
  const given = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Record<string, Value>;
}

function ignore(): void {
  // The audit is always given.
}
