import type { AuditEntry } from '../../core/operator/operator-options.js';
import { postgresAudit } from '../../stores/postgres/index.js';
import { redisAudit } from '../../stores/redis/index.js';
import { UsageError } from '../servers/failures.js';
import { redisClientOf } from '../servers/open-store.js';
import { isPostgres, isRedis, ServerAddress } from '../servers/server-address.js';

export interface OpenedAudit {
  readonly audit: (entry: AuditEntry) => void | Promise<void>;
  /** Of its server, if it has one. */
  readonly address?: ServerAddress;
  readonly close: () => Promise<void>;
}

/** @param print - takes the entries where no URL is given. */
export async function openAudit(
  url: string | undefined,
  print: (entry: AuditEntry) => void,
): Promise<OpenedAudit> {
  if (url === undefined || url === '') return { audit: print, close: () => Promise.resolve() };
  if (isPostgres(url)) {
    const address = new ServerAddress(url, 5432);
    const audit = postgresAudit({ url: url.trim() });
    return { audit, address, close: () => audit.close() };
  }
  if (!isRedis(url)) {
    // Does not repeat it: it may contain a password.
    throw new UsageError(
      '--audit, or IDEMPOTENCY_AUDIT_URL, must begin with postgres://, postgresql://, redis:// or rediss://.',
    );
  }
  const address = new ServerAddress(url, 6379);
  const client = await redisClientOf(address);
  const close = () => {
    client.disconnect();
    return Promise.resolve();
  };
  return { audit: redisAudit({ client }), address, close };
}
