import {
  OPERATOR,
  type OperatorOptions,
  type ResolvedOperatorOptions,
} from '../../core/operator/operator-options.js';
import { JSON_CODEC, jsonCodec } from '../../codecs/json/json-codec.js';
import {
  LIMITS,
  OUTCOME,
  PROTOCOL,
  type LimitsOptions,
  type ProtocolOptions,
  type ResolvedLimits,
} from '../../core/operation/options.js';
import { keepSuccesses } from '../../core/operation/outcome-policy.js';
import {
  RECONCILE,
  type ReconcileOptions,
  type ResolvedReconcileOptions,
} from '../../core/recovery/reconcile.js';
import type { BlobStore } from '../../core/payload/blob-store.js';
import {
  PROTECT_DIGESTS,
  type ProtectDigestsOptions,
  type ResolvedProtectDigests,
} from '../../core/payload/protect-digests.js';
import {
  ANNOTATE,
  type AnnotateOptions,
  type ResolvedAnnotateOptions,
} from '../../core/record/annotations.js';
import { checkSecretKeys, type SecretKeys } from '../../core/payload/secret-keys.js';
import type { IdempotencyStore } from '../../core/store/idempotency-store.js';
import type { Telemetry } from '../../core/telemetry/telemetry.js';
import type { UnitOfWork } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/errors/errors.js';
import { completeCopy, throwOptionError, within } from '../../core/options/option-checks.js';
import { of, pathsIn, resolve, type Level, type Schema } from '../../core/options/option-schema.js';
import { CONTEXTS, type ContextName } from '../../transports/common/by-context.js';
import {
  forContext,
  REQUEST,
  type RequestOptions,
} from '../../transports/common/request-options.js';
import {
  HTTP,
  type HttpOptions,
  type ResolvedHttpOptions,
} from '../../transports/http/http-options.js';
import {
  MESSAGE,
  type MessageOptions,
  type ResolvedMessageOptions,
} from '../../transports/message/message-options.js';
import {
  BREAKER,
  type BreakerOptions,
  type ResolvedBreakerOptions,
} from '../../wrappers/breaker/breaker-options.js';

/**
 * Options of one operation; those given to the module are the defaults of all. Groups merge field by field over module,
 * class and method.
 */
export interface IdempotencyOptions extends RequestOptions, ProtocolOptions {
  /** How message handlers are protected. */
  readonly message?: MessageOptions;
  /** What responses of HTTP contain. */
  readonly http?: HttpOptions;
}

/** Options of {@link IdempotencyModule.forRoot}. */
export interface IdempotencyModuleOptions extends Omit<IdempotencyOptions, 'operation'> {
  /**
   * Where records are stored: `redisStore(…)`, `postgresStore(…)`, `memoryStore()`, or a store of your own.
   * @defaultValue none: required
   */
  readonly store: IdempotencyStore;
  /**
   * The name of the application, the same in all its processes: 1 to 120 printable ASCII characters without white space.
   * It is a part of what identifies a record, so that two services on one store never share one, even if their classes
   * and methods have equal names. Giving it later, or another one, makes each open retry a first request, so a store that
   * other applications may use requires it from the start: Redis, PostgreSQL, and one of your own unless its `isShared`
   * is `false`. `memoryStore()` needs none.
   * @defaultValue none: required, unless the store is `memoryStore()`
   */
  readonly service?: string;
  /**
   * Opens the transactions of operations with `transaction`: `pgUnitOfWork(pool)`, `typeOrmUnitOfWork(dataSource)`, … or
   * one of your own. Its database has to be that of the store.
   * @defaultValue none
   */
  readonly unitOfWork?: UnitOfWork;
  /**
   * The keys by which outcomes are encrypted (`outcome.encryption`): `staticKeys({ current, keys })`, `envelopeKeys(…)` for
   * those that a key management service unwraps, or an object of your own.
   * @defaultValue none
   */
  readonly secrets?: SecretKeys;
  /**
   * Makes the names of records and the fingerprints of their contents by HMAC-SHA-256 with the `digestKeys` of `secrets`, so
   * that who reads the store cannot confirm a guess at a caller, a key or a content. `true` for its defaults. To turn it on
   * for an application that runs is a rotation from `'none'`; without one, each open retry would run again.
   * @defaultValue false
   */
  readonly protectDigests?: boolean | ProtectDigestsOptions;
  /**
   * Where large bodies of outcomes are stored (`outcome.offload`): `fileBlobs(…)`, `s3Blobs(…)`, `postgresBlobs(…)`, or a
   * store of your own.
   * @defaultValue none
   */
  readonly blobs?: BlobStore;
  /**
   * A circuit breaker around the store, by opossum, which has to be installed; one circuit per process. While the store
   * does not reply, requests are rejected at once (503, or run unprotected with
   * `storeErrors.whenUnavailable: 'execute'`) instead of after `storeErrors.commandTimeout` each. `true` for its defaults.
   * @defaultValue false
   */
  readonly breaker?: boolean | BreakerOptions;
  /**
   * Runs the {@link IdempotencyReconciler} periodically, in one process at a time: `lease.onTakeover` recovers keys whose
   * owner died and whose client never retries. `true` for its defaults. Needs a store that lists abandoned records.
   * @defaultValue false
   */
  readonly reconcile?: boolean | ReconcileOptions;
  /** How operators act on records, with {@link IdempotencyRecords}. */
  readonly operator?: OperatorOptions;
  /**
   * What each record says of its attempts, for operators: the operation, the process, how long the attempt took, and which
   * attempts it has replaced; in a note of at most 240 characters, and without a further command. `true` for its defaults.
   * @defaultValue false
   */
  readonly annotate?: boolean | AnnotateOptions;
  /**
   * Where metrics and traces go: `openTelemetry()` of nestjs-idempotency/opentelemetry, `prometheus()` of
   * nestjs-idempotency/prometheus, or objects of your own; one or several.
   * @defaultValue none
   */
  readonly telemetry?: Telemetry | readonly Telemetry[];
  /** Limits of the process, not of an operation. */
  readonly limits?: LimitsOptions;
}

/** For `useClass` and `useExisting` of {@link IdempotencyModule.forRootAsync}. */
export interface IdempotencyOptionsFactory {
  createIdempotencyOptions(): Promise<IdempotencyModuleOptions> | IdempotencyModuleOptions;
}

/** All options, merged and checked. */
export interface ResolvedOptions extends ResolvedHttpOptions {
  readonly message: ResolvedMessageOptions;
  readonly breaker: false | ResolvedBreakerOptions;
  readonly reconcile: false | ResolvedReconcileOptions;
  readonly operator: ResolvedOperatorOptions;
  readonly annotate: false | ResolvedAnnotateOptions;
  readonly protectDigests: false | ResolvedProtectDigests;
  readonly limits: ResolvedLimits;
  readonly service?: string;
  readonly secrets?: SecretKeys;
  readonly blobs?: BlobStore;
}

const SERVICE = /^[!-~]{1,120}$/;

export const OPTIONS: Schema<IdempotencyOptions & IdempotencyModuleOptions, ResolvedOptions> = {
  ...REQUEST,
  ...PROTOCOL,
  outcome: {
    ...OUTCOME,
    fields: { ...OUTCOME.fields, codec: { ...OUTCOME.fields.codec, default: JSON_CODEC } },
  },
  message: MESSAGE,
  http: HTTP,
  store: {
    defaultText: 'none: required',
    places: ['module'],
    check: (_, store) => {
      const aStore = 'an IdempotencyStore, such as redisStore({ url }) or memoryStore()';
      checkMethods('store', store, STORE_METHODS, aStore);
    },
  },
  service: of(
    'a string of 1 to 120 printable ASCII characters without white space',
    (value) => typeof value === 'string' && SERVICE.test(value),
    { defaultText: 'none: required, unless the store is `memoryStore()`', places: ['module'] },
  ),
  unitOfWork: {
    defaultText: 'none',
    places: ['module'],
    check: (_, unitOfWork) => {
      const aUnitOfWork = 'a UnitOfWork, such as pgUnitOfWork(pool)';
      checkMethods('unitOfWork', unitOfWork, UNIT_OF_WORK_METHODS, aUnitOfWork);
    },
  },
  secrets: {
    defaultText: 'none',
    places: ['module'],
    check: checkSecretKeys,
  },
  protectDigests: PROTECT_DIGESTS,
  blobs: {
    defaultText: 'none',
    places: ['module'],
    check: (_, blobs) => {
      checkMethods(
        'blobs',
        blobs,
        BLOB_STORE_METHODS,
        'a BlobStore, such as fileBlobs({ directory })',
      );
    },
  },
  breaker: BREAKER,
  reconcile: RECONCILE,
  operator: OPERATOR,
  annotate: ANNOTATE,
  telemetry: {
    defaultText: 'none',
    places: ['module'],
    check: (option, given) => {
      for (const each of [given].flat()) checkTelemetry(option, each);
    },
  },
  limits: LIMITS,
};

const WIRE_CODEC = jsonCodec({ dates: 'text' });

const VALUES = { keep: keepSuccesses };
/** Values that are sent as JSON lose nothing when stored as JSON: a Date is a string on the wire, too. */
const ON_WIRE = { ...VALUES, codec: WIRE_CODEC };

/** The defaults of each kind of operation, where they differ. */
const DEFAULTS_BY_KIND = {
  http: {},
  call: { outcome: VALUES },
  graphql: { outcome: VALUES },
  socket: { outcome: ON_WIRE },
  // No user waits for a duplicate.
  message: { outcome: ON_WIRE, duplicates: 'wait' },
  // The broker keeps an event whose outcome could not be stored.
  event: { outcome: ON_WIRE, duplicates: 'wait', storeErrors: { whenNotSaved: 'error' } },
} as const satisfies Record<string, IdempotencyOptions>;

export type OperationKind = keyof typeof DEFAULTS_BY_KIND;

/** The type of Nest's execution context of a handler's requests. */
const CONTEXT_OF: Readonly<Record<Exclude<OperationKind, 'call'>, ContextName>> = {
  http: 'http',
  graphql: 'graphql',
  socket: 'ws',
  message: 'rpc',
  event: 'rpc',
};

const NO_STORE =
  'IdempotencyModule has no "store". Pass one to IdempotencyModule.forRoot({ store: … }), or return it from the factory of forRootAsync(): redisStore({ url }) of nestjs-idempotency/redis or postgresStore({ url }) of nestjs-idempotency/postgres in production, memoryStore() of nestjs-idempotency/memory for development and tests. If a module imports the class without forRoot(), remove that import: forRoot() in the root module serves every module.';

const NO_SERVICE =
  'IdempotencyModule has no "service", but other applications may use its "store". Name this application, the same in all its processes, in IdempotencyModule.forRoot({ service: \'billing\', … }), or return the name from the factory of forRootAsync(). It keeps the records of services apart, even if their classes and methods have equal names. The start stops without it because giving it later is a new name for every record: each open retry would run again.';

const meant = (option: string) => `Did you mean "${option}"?`;

/** Names that similar packages use. */
const SYNONYMS = [
  ...['ttl', 'ttlMs', 'cacheTTL', 'expiration', 'expiresIn'].map((name) => [
    name,
    'outcome.retention',
  ]),
  ...['lock', 'lockTtl', 'lockTimeout'].map((name) => [name, 'lease.duration']),
  ...['header', 'headerName', 'headerKey', 'keyHeader'].map((name) => [name, 'key']),
  ['keyFrom', 'key.from'],
  ['storeIf', 'outcome.keep'],
  ['maxLockHold', 'lease.maxExecution'],
  ['storeTimeout', 'storeErrors.commandTimeout'],
].map(([name = '', option = '']) => [name, meant(option)] as const);

/** Values of "key.from" and "caller.scope" that were given in the place of their group. */
const WITHIN_GROUPS = [
  ...['payload', 'arg', ...CONTEXTS].map((name) => ['key', 'from', name] as const),
  ...CONTEXTS.map((name) => ['caller', 'scope', name] as const),
].map(
  ([group, own, name]) =>
    [`${group}.${name}`, `Write ${group}: { ${own}: { ${name}: … } }.`] as const,
);

const OF_STORE = [
  'url',
  'client',
  'connection',
  'keyPrefix',
  'prefix',
  'table',
  'schema',
  'push',
].map(
  (name) =>
    [name, 'It is an option of the store: redisStore({ … }), postgresStore({ … }).'] as const,
);

const MODULE_REMEDIES: ReadonlyMap<string, string> = new Map([
  ...SYNONYMS,
  ...WITHIN_GROUPS,
  ...OF_STORE,
  ...['storage', 'adapter', 'redis'].map((name) => [name, meant('store')] as const),
  ['allowInMemoryStorage', 'It is an option of the store: memoryStore({ allowInMemoryStorage }).'],
  ['operation', 'Name each operation itself: @Idempotent({ operation: … }).'],
  ...['isGlobal', 'isOutermost'].map(
    (name) => [name, 'Set it beside "useFactory", not in the options that it returns.'] as const,
  ),
]);

const OF_OPERATIONS = new Set(pathsIn(OPTIONS, 'method'));

/** Remedies for names that neither `@Idempotent()` nor `IdempotencyService.run()` knows. */
const OPERATION_REMEDIES: ReadonlyMap<string, string> = new Map([
  ...SYNONYMS,
  ...WITHIN_GROUPS,
  ...OF_STORE,
  ...pathsIn(OPTIONS, 'module')
    .filter((path) => !OF_OPERATIONS.has(path))
    .map((path) => {
      const place = 'an option of the module: IdempotencyModule.forRoot({ … }).';
      const name = path.slice(path.lastIndexOf('.') + 1);
      return [name, path === name ? `It is ${place}` : `"${path}" is ${place}`] as const;
    }),
]);

const OF_CALLS = new Set(pathsIn(OPTIONS, 'call'));

/** Remedies for calls, and for methods that are not handlers. */
const CALL_REMEDIES: ReadonlyMap<string, string> = new Map([
  ...[...OF_OPERATIONS]
    .filter((name) => !OF_CALLS.has(name) && !name.includes('.'))
    .map((name) => [name, 'It is an option of request and message handlers.'] as const),
  ['caller', 'Give the caller by "scope".'],
  ['fingerprint', 'Give what is compared by "payload".'],
  ...OPERATION_REMEDIES,
]);

const STORE_METHODS = ['open', 'begin', 'extend', 'complete', 'release', 'close'] as const;
const BLOB_STORE_METHODS = ['open', 'put', 'get', 'delete', 'close'] as const;
const UNIT_OF_WORK_METHODS = ['run', 'isConflict', 'isInterruption', 'isReplyMismatch'] as const;

/** Rejects a stand-in that lacks methods. Names only its type: it may be a URL with a password. */
function checkMethods(
  option: string,
  given: unknown,
  names: readonly string[],
  description: string,
): void {
  const part = given as Readonly<Record<string, unknown>> | null;
  const missing = names.filter((name) => typeof part?.[name] !== 'function');
  if (missing.length === 0) return;
  const methods = missing.map((name) => `${name}()`).join(', ');
  throwOptionError(option, `${description}, with ${methods}`, typeof part);
}

/** `telemetry: openTelemetry`, without its call, has no start(). */
function checkTelemetry(option: string, given: unknown): void {
  const description = 'a telemetry, such as openTelemetry(), or an array of them';
  checkMethods(option, given, ['start'], description);
  const part = given as Readonly<Record<string, unknown>>;
  const others = ['traceOf', 'around'].filter((name) => part[name] !== undefined);
  checkMethods(option, given, others, description);
}

/** The options of `@Idempotent()` on a class or a handler. */
export function handlerLevel(place: 'class' | 'method', given: IdempotencyOptions): Level {
  return { what: '@Idempotent()', place, given, remedies: OPERATION_REMEDIES };
}

/** The options of a call, without what identifies it: `others` are the names of that. */
export function callLevel(what: string, given: object, others: readonly string[]): Level {
  return { what, place: 'call', given, others, remedies: CALL_REMEDIES };
}

/** Options of the module may be an instance of a class with getters, as a factory of `@nestjs/config` returns. */
export function copyOfOptions<Given extends object>(module: Given): Given {
  return completeCopy(module, Object.keys(OPTIONS));
}

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function resolveModuleOptions(module: IdempotencyModuleOptions): ResolvedOptions {
  return within('IdempotencyModule', 'IdempotencyModule.forRoot()', () => {
    const resolved = resolveLevels('http', module);
    checkService(module.store, resolved.service);
    return resolved;
  });
}

function checkService(store: IdempotencyStore, service: string | undefined): void {
  // A stand-in that does not extend IdempotencyStore may lack it.
  const isShared = (store.isShared as boolean | undefined) ?? true;
  if (isShared && service === undefined) throw new IdempotencyOptionsError(NO_SERVICE);
}

/**
 * Merges the defaults, those of the kind, the module's options and the operation's own, of which the later ones win.
 * The module's `outcome.keep` selects by status, so it applies to HTTP only.
 * @throws {@link IdempotencyOptionsError} naming option, range and value.
 */
export function resolveOptions(
  kind: OperationKind,
  module: IdempotencyModuleOptions,
  ...levels: readonly Level[]
): ResolvedOptions {
  const resolved = resolveLevels(kind, module, ...levels);
  // A call has neither the option "key" nor "caller".
  return kind === 'call' ? resolved : forContext(CONTEXT_OF[kind], resolved);
}

/** The same for all types of context. */
function resolveLevels(
  kind: OperationKind,
  module: IdempotencyModuleOptions,
  ...levels: readonly Level[]
): ResolvedOptions {
  const ofModule =
    kind === 'http' ? module : { ...copyOfOptions(module), outcome: withoutKeep(module.outcome) };
  const resolved = resolve(OPTIONS, [
    { what: 'the defaults', place: 'module', given: DEFAULTS_BY_KIND[kind] },
    {
      what: 'IdempotencyModule.forRoot()',
      place: 'module',
      given: ofModule,
      remedies: MODULE_REMEDIES,
    },
    ...levels,
  ]);
  if ((module.store as unknown) === undefined) throw new IdempotencyOptionsError(NO_STORE);
  checkSecretsGiven(resolved);
  if (resolved.transaction === false) return resolved;
  checkTransaction(module, resolved);
  const storeErrors = Object.freeze({ ...resolved.storeErrors, whenNotSaved: 'error' as const });
  return Object.freeze({ ...resolved, storeErrors });
}

function withoutKeep(outcome: IdempotencyModuleOptions['outcome']): IdempotencyOptions['outcome'] {
  if (typeof outcome === 'function') return {};
  const { keep: _, ...others } = completeCopy(outcome ?? {}, Object.keys(OUTCOME.fields));
  return others;
}

/** Otherwise what is to be protected would lie in clear. */
function checkSecretsGiven({ outcome, secrets, protectDigests }: ResolvedOptions): void {
  if (secrets !== undefined) return;
  if (protectDigests !== false) {
    throw new IdempotencyOptionsError(
      'The option "protectDigests" needs the module option "secrets" with digest keys: set it to staticKeys({ current, keys, digestKeys }), or to envelopeKeys(…) for keys that a key management service unwraps.',
    );
  }
  if (outcome.encryption !== true) return;
  throw new IdempotencyOptionsError(
    'The option "outcome.encryption" needs the module option "secrets": set it to staticKeys({ current, keys }), or to envelopeKeys(…) for keys that a key management service unwraps.',
  );
}

function checkTransaction(
  { store, unitOfWork }: IdempotencyModuleOptions,
  { storeErrors }: ResolvedOptions,
): void {
  if (unitOfWork === undefined) {
    throw new IdempotencyOptionsError(
      'The option "transaction" needs the module option "unitOfWork", which opens the transactions: set it to pgUnitOfWork(pool) of nestjs-idempotency/pg, or to the one for your ORM.',
    );
  }
  if (store.transactional === undefined) {
    throw new IdempotencyOptionsError(
      'The option "transaction" needs a "store" in the database of its transactions, such as postgresStore({ url }); the given store cannot take part in them.',
    );
  }
  if (storeErrors.whenUnavailable === 'execute') {
    throw new IdempotencyOptionsError(
      `The option "transaction" contradicts "storeErrors.whenUnavailable": 'execute': without the store there is no transaction. Set "storeErrors.whenUnavailable" to 'reject' there.`,
    );
  }
}
