import { JSON_CODEC, jsonCodec } from '../../codecs/json/json-codec.js';
import {
  checkEngineOptions,
  checkProtocolOptions,
  ENGINE_DEFAULTS,
  PROTOCOL_DEFAULTS,
  type EngineOptions,
  type ProtocolOptions,
  type ResolvedProtocolOptions,
} from '../../core/operation/options.js';
import { keepSuccesses } from '../../core/operation/outcome-policy.js';
import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { resolveReconcileOptions, type ReconcileOptions } from '../../core/recovery/reconcile.js';
import type { IdempotencyStore } from '../../core/store/idempotency-store.js';
import type { UnitOfWork } from '../../core/transaction/unit-of-work.js';
import { IdempotencyOptionsError } from '../../core/util/errors.js';
import { checkNames, throwOptionError, within } from '../../core/util/option-checks.js';
import {
  checkCodec,
  type ValueOptions,
  type ValueRouteOptions,
} from '../../transports/call/value-route.js';
import type { GraphqlRouteOptions } from '../../transports/graphql/graphql-route.js';
import {
  checkHttpOptions,
  HTTP_DEFAULTS,
  type HttpOptions,
  type ResolvedHttpOptions,
} from '../../transports/http/http-options.js';
import {
  checkMessageOptions,
  MESSAGE_DEFAULTS,
  type MessageOptions,
  type ResolvedMessageOptions,
} from '../../transports/message/message-options.js';
import {
  resolveBreakerOptions,
  type BreakerOptions,
} from '../../wrappers/breaker/breaker-options.js';

/** Options of one operation; those given to the module are the defaults of all. */
export interface IdempotencyOptions
  extends ProtocolOptions, HttpOptions, ValueOptions, MessageOptions {}

/** Options of {@link IdempotencyModule.forRoot}. */
export interface IdempotencyModuleOptions
  extends Omit<IdempotencyOptions, 'operation'>, EngineOptions {
  /** Where records are stored: `redisStore(…)`, `postgresStore(…)`, `memoryStore()`, or a store of your own. */
  readonly store: IdempotencyStore;
  /**
   * A circuit breaker around the store, by opossum, which has to be installed; one circuit per process. While the store
   * does not reply, requests are rejected at once (503, or run unprotected with `onStoreUnavailable: 'execute'`)
   * instead of after `commandTimeoutMs` each. `true` for its defaults.
   * @defaultValue false
   */
  readonly breaker?: boolean | BreakerOptions;
  /**
   * Runs the {@link IdempotencyReconciler} periodically, in one process at a time: `onTakeover` recovers keys whose
   * owner died and whose client never retries. `true` for its defaults. Needs a store that lists abandoned records.
   * @defaultValue false
   */
  readonly reconcile?: boolean | ReconcileOptions;
  /**
   * Opens the transactions of `transactional` operations: `pgUnitOfWork(pool)`, `typeOrmUnitOfWork(dataSource)`, … or
   * one of your own. Its database has to be that of the store.
   */
  readonly unitOfWork?: UnitOfWork;
}

/** For `useClass` and `useExisting` of {@link IdempotencyModule.forRootAsync}. */
export interface IdempotencyOptionsFactory {
  createIdempotencyOptions(): Promise<IdempotencyModuleOptions> | IdempotencyModuleOptions;
}

/** The options of one operation, complete and checked. */
export interface ResolvedOptions {
  readonly protocol: ResolvedProtocolOptions;
  readonly http: ResolvedHttpOptions;
  readonly codec: OutcomeCodec;
  readonly message: ResolvedMessageOptions;
}

const ENGINE_NAMES = Object.keys(ENGINE_DEFAULTS);
const PROTOCOL_NAMES = Object.keys(PROTOCOL_DEFAULTS);
const HTTP_NAMES = [...Object.keys(HTTP_DEFAULTS), 'scope', 'operation', 'replayHeaders'];
const MESSAGE_NAMES = [...Object.keys(MESSAGE_DEFAULTS), 'consumer'];
const OPERATION_NAMES = new Set([...PROTOCOL_NAMES, ...HTTP_NAMES, ...MESSAGE_NAMES, 'codec']);
const MODULE_NAMES = new Set([
  ...OPERATION_NAMES,
  ...ENGINE_NAMES,
  'store',
  'breaker',
  'reconcile',
  'unitOfWork',
]);
MODULE_NAMES.delete('operation');

const NO_STORE =
  'IdempotencyModule has no "store". Pass one to IdempotencyModule.forRoot({ store: … }), or return it from the factory of forRootAsync(): redisStore({ url }) of nestjs-idempotency/redis or postgresStore({ url }) of nestjs-idempotency/postgres in production, memoryStore() of nestjs-idempotency/memory for development and tests. If a module imports the class without forRoot(), remove that import: forRoot() in the root module serves every module.';

const meant = (option: string) => `Did you mean "${option}"?`;

/** Names that similar packages use. */
const SYNONYMS = [
  ...['ttl', 'ttlMs', 'cacheTTL', 'expiration', 'expiresIn'].map((name) => [name, 'retentionMs']),
  ...['lock', 'lockTtl', 'lockTimeout'].map((name) => [name, 'leaseMs']),
  ...['header', 'headerName', 'headerKey', 'keyHeader'].map((name) => [name, 'key']),
].map(([name = '', option = '']) => [name, meant(option)] as const);

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
  ...OF_STORE,
  ...['storage', 'adapter', 'redis'].map((name) => [name, meant('store')] as const),
  ['operation', 'Name each operation itself: @Idempotent({ operation: … }).'],
  ['isGlobal', 'Set it beside "useFactory", not in the options that it returns.'],
]);

/** Remedies for names that neither `@Idempotent()` nor `IdempotencyService.run()` knows. */
export const OPERATION_REMEDIES: ReadonlyMap<string, string> = new Map([
  ...SYNONYMS,
  ...OF_STORE,
  ...[...MODULE_NAMES]
    .filter((name) => !OPERATION_NAMES.has(name))
    .map(
      (name) => [name, 'It is an option of the module: IdempotencyModule.forRoot({ … }).'] as const,
    ),
]);

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function resolveEngineOptions(options: IdempotencyModuleOptions): Required<EngineOptions> {
  return within('IdempotencyModule', 'IdempotencyModule.forRoot()', () => engineOptions(options));
}

const STORE_METHODS = ['open', 'begin', 'extend', 'complete', 'release', 'close'] as const;
const UNIT_OF_WORK_METHODS = ['run', 'isConflict', 'isInterruption', 'isReplyMismatch'] as const;

/** Rejects a stand-in that lacks methods. Names only its type: it may be a URL with a password. */
function checkMethods<Name extends string>(
  option: string,
  part: Readonly<Partial<Record<Name, unknown>>> | null,
  names: readonly Name[],
  description: string,
): void {
  const missing = names.filter((name) => typeof part?.[name] !== 'function');
  if (missing.length === 0) return;
  const methods = missing.map((name) => `${name}()`).join(', ');
  throwOptionError(option, `${description}, with ${methods}`, typeof part);
}

function engineOptions(options: IdempotencyModuleOptions): Required<EngineOptions> {
  checkNames('IdempotencyModule.forRoot()', options, MODULE_NAMES, MODULE_REMEDIES);
  if ((options.store as unknown) === undefined) throw new IdempotencyOptionsError(NO_STORE);
  const aStore = 'an IdempotencyStore, such as redisStore({ url }) or memoryStore()';
  checkMethods('store', options.store, STORE_METHODS, aStore);
  const aUnitOfWork = 'a UnitOfWork, such as pgUnitOfWork(pool)';
  const { unitOfWork } = options;
  if (unitOfWork !== undefined) {
    checkMethods('unitOfWork', unitOfWork, UNIT_OF_WORK_METHODS, aUnitOfWork);
  }
  resolveBreakerOptions(options.breaker);
  resolveReconcileOptions(options.reconcile);
  // Also where no route is protected yet: calls and lazy-loaded modules use these defaults.
  resolveOptions(options);
  const resolved = { ...ENGINE_DEFAULTS, ...given(options, ENGINE_NAMES) };
  checkEngineOptions(resolved);
  return Object.freeze(resolved);
}

/**
 * Merges defaults, the module's options and the operation's own, of which the later ones win.
 * @throws {@link IdempotencyOptionsError} naming option, range and value.
 */
export function resolveOptions(
  module: IdempotencyModuleOptions,
  ...levels: readonly IdempotencyOptions[]
): ResolvedOptions {
  for (const level of levels) {
    checkNames('@Idempotent()', level, OPERATION_NAMES, OPERATION_REMEDIES);
  }
  const all = [module, ...levels];
  const protocol = Object.assign(
    { ...PROTOCOL_DEFAULTS },
    ...all.map((level) => given(level, PROTOCOL_NAMES)),
  ) as ResolvedProtocolOptions;
  if (protocol.transactional) Object.assign(protocol, { onSaveFailure: 'error' });
  const http = Object.assign(
    { ...HTTP_DEFAULTS },
    ...all.map((level) => given(level, HTTP_NAMES)),
  ) as ResolvedHttpOptions;
  const message = Object.assign(
    { ...MESSAGE_DEFAULTS },
    ...all.map((level) => given(level, MESSAGE_NAMES)),
  ) as ResolvedMessageOptions;
  const codec = lastGiven(all, 'codec') ?? JSON_CODEC;
  checkProtocolOptions(protocol);
  checkHttpOptions(http);
  checkMessageOptions(message);
  checkCodec(codec);
  if (protocol.transactional) checkTransactional(module, protocol);
  return Object.freeze({
    protocol: Object.freeze(protocol),
    http: Object.freeze(http),
    message: Object.freeze(message),
    codec,
  });
}

/** As {@link resolveOptions}, for a handler of values: without the module's `keep`, which selects by status. */
export function resolveValueOptions(
  module: IdempotencyModuleOptions,
  ...levels: readonly IdempotencyOptions[]
): ValueRouteOptions {
  const { protocol, http, codec } = resolveOptions(module, ...levels);
  const keep = lastGiven(levels, 'keep') ?? keepSuccesses;
  return { protocol, request: Object.freeze({ ...http, keep }), codec };
}

/**
 * As {@link resolveValueOptions}, for messages. A duplicate waits by default, since no user waits for it; and the
 * broker keeps an event whose outcome could not be stored.
 */
export function resolveMessageOptions(
  module: IdempotencyModuleOptions,
  isEvent: boolean,
  ...levels: readonly IdempotencyOptions[]
): ValueRouteOptions & { readonly message: ResolvedMessageOptions } {
  const onSaveFailure =
    lastGiven([module, ...levels], 'onSaveFailure') ?? (isEvent ? 'error' : undefined);
  const whenInProgress = lastGiven([module, ...levels], 'whenInProgress') ?? 'wait';
  const withWait = {
    ...onWire(module, levels),
    whenInProgress,
    ...(onSaveFailure !== undefined && { onSaveFailure }),
  };
  const { message } = resolveOptions(withWait, ...levels);
  return { ...resolveValueOptions(withWait, ...levels), message };
}

/** As {@link resolveValueOptions}, for a gateway's handler. */
export function resolveSocketOptions(
  module: IdempotencyModuleOptions,
  ...levels: readonly IdempotencyOptions[]
): ValueRouteOptions {
  return resolveValueOptions(onWire(module, levels), ...levels);
}

/** Values that are sent as JSON lose nothing when stored as JSON: a Date is a string on the wire, too. */
function onWire(
  module: IdempotencyModuleOptions,
  levels: readonly IdempotencyOptions[],
): IdempotencyModuleOptions {
  return { ...module, codec: lastGiven([module, ...levels], 'codec') ?? WIRE_CODEC };
}

const WIRE_CODEC = jsonCodec({ dates: 'text' });

/** As {@link resolveValueOptions}, for a mutation, and how the header of its key is parsed. */
export function resolveGraphqlOptions(
  module: IdempotencyModuleOptions,
  ...levels: readonly IdempotencyOptions[]
): GraphqlRouteOptions {
  const { keySyntax } = resolveOptions(module, ...levels).http;
  return { ...resolveValueOptions(module, ...levels), keySyntax };
}

function lastGiven<Name extends keyof IdempotencyOptions>(
  levels: readonly IdempotencyOptions[],
  name: Name,
): IdempotencyOptions[Name] | undefined {
  return [...levels].reverse().find((level) => level[name] !== undefined)?.[name];
}

function checkTransactional(
  { store, unitOfWork }: IdempotencyModuleOptions,
  protocol: ResolvedProtocolOptions,
): void {
  if (unitOfWork === undefined) {
    throw new IdempotencyOptionsError(
      'The option "transactional" needs the module option "unitOfWork", which opens the transactions: set it to pgUnitOfWork(pool) of nestjs-idempotency/pg, or to the one for your ORM.',
    );
  }
  if (store.transactional === undefined) {
    throw new IdempotencyOptionsError(
      'The option "transactional" needs a "store" in the database of its transactions, such as postgresStore({ url }); the given store cannot take part in them.',
    );
  }
  if (protocol.onStoreUnavailable === 'execute') {
    throw new IdempotencyOptionsError(
      `The option "transactional" contradicts "onStoreUnavailable": 'execute': without the store there is no transaction. Set "onStoreUnavailable" to 'reject' there.`,
    );
  }
}

function given(options: object, names: readonly string[]): object {
  return Object.fromEntries(
    Object.entries(options).filter(([name, value]) => value !== undefined && names.includes(name)),
  );
}
