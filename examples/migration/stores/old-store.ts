import {
  ConflictException,
  HttpException,
  InternalServerErrorException,
  UnprocessableEntityException,
} from '@nestjs/common';
import { IdempotencyStore, type Recover } from 'nestjs-idempotency';
import { recordKey, type OwnerToken } from 'nestjs-idempotency/store';

/** The provider that holds the store that was used before. */
export const OLD_STORE = Symbol('OLD_STORE');

/** The module option of this application. */
const SERVICE = 'shop';
const TIMEOUT_MS = 2_000;
/** The `outcome.retention` of the old records: no retry of theirs comes later. */
const KEPT_MS = 86_400_000;

/**
 * Finds the outcome of a key in the old store. If it has none, it begins the key there, so that a process that still uses
 * that store does not run the operation.
 */
export const inOldStore: Recover = async ({ operation, scope, key, downstreamKey }, services) => {
  const named = recordKey({ service: SERVICE, operation, scope, key });
  const timeoutMs = TIMEOUT_MS;
  // This attempt's own record: its content is compared with that of the old one.
  const own = await services.get(IdempotencyStore).inspect(named, { timeoutMs });
  if (own === undefined) throw new InternalServerErrorException('Is SERVICE the option "service"?');
  const old = await services.get<IdempotencyStore>(OLD_STORE).begin({
    recordKey: named,
    // The same in every attempt of this key: a later one finds its own reservation.
    token: downstreamKey('move') as OwnerToken,
    fingerprint: own.fingerprint,
    leaseMs: KEPT_MS,
    maxExecutionMs: KEPT_MS,
    recordRetentionMs: 2 * KEPT_MS,
    notAfter: 0,
    onExpiredLease: 'deny',
    timeoutMs,
  });
  switch (old.kind) {
    case 'acquired':
    case 'owned':
      return 'run';
    case 'completed':
    case 'failed': {
      const { header, body } = old.outcome;
      const [, status = 500] = JSON.parse(header) as [format: number, status?: number];
      const value: unknown = JSON.parse(Buffer.from(body).toString());
      if (status >= 400) throw new HttpException(value as object, status);
      return { value };
    }
    case 'mismatch':
      throw new UnprocessableEntityException('The key was used with other content.');
    default:
      throw new ConflictException('The first request is not over.');
  }
};
