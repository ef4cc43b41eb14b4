import type { BreakerOptions } from '../core/breaker-options.js';
import type { IdempotencyStore } from '../core/idempotency-store.js';
import { IdempotencyOptionsError } from '../core/errors.js';
import { checkNames, fail } from '../core/option-checks.js';
import {
  checkEngineOptions,
  checkProtocolOptions,
  ENGINE_DEFAULTS,
  PROTOCOL_DEFAULTS,
  type EngineOptions,
  type ProtocolOptions,
  type ResolvedProtocolOptions,
} from '../core/options.js';
import type { ReconcileOptions } from '../core/reconcile-options.js';
import type { UnitOfWork } from '../core/unit-of-work.js';
import {
  checkHttpOptions,
  HTTP_DEFAULTS,
  type HttpOptions,
  type ResolvedHttpOptions,
} from '../transports/http/http-options.js';

/** Options of one operation; those given to the module are the defaults of all. */
export interface IdempotencyOptions extends ProtocolOptions, HttpOptions {}

/** Options of {@link IdempotencyModule.forRoot}. */
export interface IdempotencyModuleOptions
  extends Omit<IdempotencyOptions, 'operation'>, EngineOptions {
  /** Where the records are: `redisStore(…)`, `memoryStore()`, or a store of your own. */
  readonly store: IdempotencyStore;
  /**
   * A circuit breaker around the store, by opossum, which has to be installed: while the store does not
   * answer, requests are refused at once (503, or run unprotected with `onStoreUnavailable: 'execute'`)
   * instead of after `commandTimeoutMs` each. `true` for its defaults. One circuit for each process.
   * @defaultValue false
   */
  readonly breaker?: boolean | BreakerOptions;
  /**
   * Has the {@link IdempotencyReconciler} come by itself: keys whose owner died and whose client never comes back are
   * recovered by the operation's `onTakeover` function. One process at a time. `true` for its defaults. Needs a store
   * that lists abandoned records, as Redis', PostgreSQL's and the one in memory do.
   * @defaultValue false
   */
  readonly reconcile?: boolean | ReconcileOptions;
  /**
   * Opens the transactions of operations that are `transactional`: `pgUnitOfWork(pool)`, `typeOrmUnitOfWork(dataSource)`,
   * … or one of your own. On the database that the store's records are in.
   */
  readonly unitOfWork?: UnitOfWork;
}

/** What `useClass` and `useExisting` of {@link IdempotencyModule.forRootAsync} want. */
export interface IdempotencyOptionsFactory {
  createIdempotencyOptions(): Promise<IdempotencyModuleOptions> | IdempotencyModuleOptions;
}

/** The options of one operation, complete and checked. */
export interface ResolvedOptions {
  readonly protocol: ResolvedProtocolOptions;
  readonly http: ResolvedHttpOptions;
}

const ENGINE_NAMES = Object.keys(ENGINE_DEFAULTS);
const PROTOCOL_NAMES = Object.keys(PROTOCOL_DEFAULTS);
const HTTP_NAMES = [...Object.keys(HTTP_DEFAULTS), 'scope', 'operation', 'replayHeaders'];
const OPERATION_NAMES = new Set([...PROTOCOL_NAMES, ...HTTP_NAMES]);
const MODULE_NAMES = new Set([
  ...OPERATION_NAMES,
  ...ENGINE_NAMES,
  'store',
  'breaker',
  'reconcile',
  'unitOfWork',
]);
MODULE_NAMES.delete('operation');

/** @throws {@link IdempotencyOptionsError} naming option, range and value. */
export function resolveEngineOptions(options: IdempotencyModuleOptions): Required<EngineOptions> {
  checkNames('IdempotencyModule', options, MODULE_NAMES);
  if (typeof (options.store as Partial<IdempotencyStore> | undefined)?.begin !== 'function') {
    // Its type only: it may be a URL with a password.
    fail(
      'store',
      'an IdempotencyStore, such as redisStore({ url }) or memoryStore()',
      typeof options.store,
    );
  }
  const { unitOfWork } = options;
  if (unitOfWork !== undefined && typeof unitOfWork.run !== 'function') {
    fail('unitOfWork', 'a UnitOfWork, such as pgUnitOfWork(pool)', typeof unitOfWork);
  }
  // Also where no route is protected yet: calls and lazy-loaded modules have these defaults, too.
  resolveOptions(options);
  const resolved = { ...ENGINE_DEFAULTS, ...given(options, ENGINE_NAMES) };
  checkEngineOptions(resolved);
  return Object.freeze(resolved);
}

/**
 * Merges defaults, the module's options and the operation's own, the later ones first.
 *
 * @param layers - from the general to the particular: module, class, method.
 * @throws {@link IdempotencyOptionsError} naming option, range and value.
 */
export function resolveOptions(
  module: IdempotencyModuleOptions,
  ...layers: readonly IdempotencyOptions[]
): ResolvedOptions {
  for (const layer of layers) checkNames('@Idempotent()', layer, OPERATION_NAMES);
  const all = [module, ...layers];
  const protocol = Object.assign(
    { ...PROTOCOL_DEFAULTS },
    ...all.map((layer) => given(layer, PROTOCOL_NAMES)),
  ) as ResolvedProtocolOptions;
  if (protocol.transactional) Object.assign(protocol, { onSaveFailure: 'error' });
  const http = Object.assign(
    { ...HTTP_DEFAULTS },
    ...all.map((layer) => given(layer, HTTP_NAMES)),
  ) as ResolvedHttpOptions;
  checkProtocolOptions(protocol);
  checkHttpOptions(http);
  if (protocol.transactional) checkTransactional(module, protocol);
  return Object.freeze({ protocol: Object.freeze(protocol), http: Object.freeze(http) });
}

/** Whether there is all that a transactional operation needs, and nothing that contradicts it. */
function checkTransactional(
  { store, unitOfWork }: IdempotencyModuleOptions,
  protocol: ResolvedProtocolOptions,
): void {
  if (unitOfWork === undefined) {
    throw new IdempotencyOptionsError(
      'The option "transactional" needs the module option "unitOfWork", which opens the transactions: pgUnitOfWork(pool) of nestjs-idempotency/pg, or the one for your ORM.',
    );
  }
  if (store.transactional === undefined) {
    throw new IdempotencyOptionsError(
      'The option "transactional" needs a "store" in the database of its transactions, such as postgresStore({ url }): the given one cannot take part in them.',
    );
  }
  if (protocol.onStoreUnavailable === 'execute') {
    throw new IdempotencyOptionsError(
      `The option "transactional" contradicts "onStoreUnavailable": 'execute': without the store there is no transaction either. Set "onStoreUnavailable" to 'reject' there.`,
    );
  }
}

/** The named options that have a value: `undefined` means the default, also in a spread configuration. */
function given(options: object, names: readonly string[]): object {
  return Object.fromEntries(
    Object.entries(options).filter(([name, value]) => value !== undefined && names.includes(name)),
  );
}
