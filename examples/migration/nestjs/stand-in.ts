import {
  createCipheriv,
  createDecipheriv,
  createHash,
  hkdfSync,
  randomBytes,
  randomUUID,
} from 'node:crypto';
import {
  HttpException,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { catchError, concatMap, from, of, throwError, type Observable } from 'rxjs';

interface Response {
  readonly status: number;
  readonly body: object;
  readonly error?: string;
}

interface Found {
  readonly fingerprint: string;
  readonly response?: string | null;
}

/** A store as Nest's documentation shows it. */
export interface StandInStore {
  /** @returns `undefined` if the caller has the lock now. */
  acquire(key: string, owner: string, fingerprint: string): Promise<Found | undefined>;
  complete(key: string, owner: string, response: string): Promise<unknown>;
}

const sha256 = (text: string | Buffer) => createHash('sha256').update(text);

export const inRedis = (redis: Redis): StandInStore => ({
  acquire: async (key, owner, fingerprint) => {
    const taken = await redis.eval(
      `if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('HMGET', KEYS[1], 'fp', 'resp') end
       redis.call('HSET', KEYS[1], 'state', 'in-flight', 'fp', ARGV[1], 'owner', ARGV[2])
       redis.call('PEXPIRE', KEYS[1], 60000)
       return 0`,
      1,
      `idem:${key}`,
      fingerprint,
      owner,
    );
    if (taken === 0) return undefined;
    const [of = '', response] = taken as string[];
    return { fingerprint: of, response: response ?? null };
  },
  complete: (key, owner, response) =>
    redis.eval(
      `if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
       redis.call('HSET', KEYS[1], 'state', 'completed', 'resp', ARGV[2])
       redis.call('HDEL', KEYS[1], 'owner')
       return redis.call('PEXPIRE', KEYS[1], 86400000)`,
      1,
      `idem:${key}`,
      owner,
      response,
    ),
});

export const TABLE = `
  CREATE TABLE idempotency_keys (
    key_hash text PRIMARY KEY, key text NOT NULL, fingerprint text NOT NULL, owner text, response json, expires_at bigint NOT NULL)`;

const hashOf = (key: string) => sha256(key).digest('hex');

export const inPostgres = (pool: Pool): StandInStore => ({
  acquire: async (key, owner, fingerprint) => {
    const now = Date.now();
    const { rowCount } = await pool.query(
      `INSERT INTO idempotency_keys AS old VALUES ($1, $2, $3, $4, NULL, $5)
       ON CONFLICT (key_hash) DO UPDATE SET fingerprint = $3, owner = $4, response = NULL, expires_at = $5
       WHERE old.expires_at <= $6`,
      [hashOf(key), key, fingerprint, owner, now + 60_000, now],
    );
    if (rowCount === 1) return undefined;
    const { rows } = await pool.query<Found>(
      'SELECT fingerprint, response::text AS response FROM idempotency_keys WHERE key_hash = $1',
      [hashOf(key)],
    );
    return rows[0];
  },
  complete: (key, owner, response) =>
    pool.query(
      'UPDATE idempotency_keys SET owner = NULL, response = $3, expires_at = $4 WHERE key_hash = $1 AND owner = $2',
      [hashOf(key), owner, response, Date.now() + 86_400_000],
    ),
});

const derivedOf = (secret: string) =>
  Buffer.from(hkdfSync('sha256', secret, '', 'nestjs-idempotency:v1', 32));

/** What the module does with its first key, as documented. */
function sealed(key: string, secret: string, response: object): object {
  const derived = derivedOf(secret);
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', derived, iv).setAAD(Buffer.from(key));
  const content = Buffer.concat([cipher.update(JSON.stringify(response)), cipher.final()]);
  const id = sha256(derived).digest('base64url').slice(0, 8);
  const parts = [iv, content, cipher.getAuthTag()].map((part) => part.toString('base64url'));
  return { sealed: ['v1', id, ...parts].join('.') };
}

function opened(key: string, secret: string, text: string): Response {
  const [iv, content, tag] = text
    .split('.')
    .slice(2)
    .map((part) => Buffer.from(part, 'base64url'));
  const decipher = createDecipheriv('aes-256-gcm', derivedOf(secret), iv!);
  decipher.setAAD(Buffer.from(key)).setAuthTag(tag!);
  return JSON.parse(
    decipher.update(content!, undefined, 'utf8') + decipher.final('utf8'),
  ) as Response;
}

/**
 * Stands for `@Idempotent()` of `@nestjs/idempotency`, which cannot be installed here: it writes the records that are
 * documented, with user `alice` as the scope, and answers as documented.
 */
export function standIn(store: () => StandInStore, secret?: string): MethodDecorator {
  class StandIn implements NestInterceptor {
    async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
      const request = context.switchToHttp().getRequest();
      const response = context.switchToHttp().getResponse();
      const key = `alice:${encodeURIComponent(request.headers['idempotency-key'])}`;
      const fingerprint = hashOf(`alice ${request.url} ${JSON.stringify(request.body)}`);
      const owner = randomUUID();
      const found = await store().acquire(key, owner, fingerprint);
      if (found === undefined) {
        const keep = async (outcome: object) => {
          const kept = secret === undefined ? outcome : sealed(key, secret, outcome);
          await store().complete(key, owner, JSON.stringify(kept));
        };
        return next.handle().pipe(
          concatMap(async (body: object) => {
            await keep({ status: 201, headers: {}, body });
            return body;
          }),
          catchError((error: unknown) => {
            if (!(error instanceof HttpException)) return throwError(() => error);
            const kept = { status: error.getStatus(), headers: {}, body: error.getResponse() };
            const stored = keep({ ...kept, error: 'http' });
            return from(stored).pipe(concatMap(() => throwError(() => error)));
          }),
        );
      }
      if (found.fingerprint !== fingerprint) throw new HttpException('reused', 422);
      if (typeof found.response !== 'string') throw new HttpException('in use', 409);
      const stored = JSON.parse(found.response) as Response & { sealed?: string };
      const { status, body, error } = stored.sealed ? opened(key, secret!, stored.sealed) : stored;
      response.header('Idempotent-Replayed', 'true');
      if (error !== undefined) throw new HttpException(body, status);
      return of(body);
    }
  }
  return UseInterceptors(StandIn);
}
