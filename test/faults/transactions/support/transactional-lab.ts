import { setTimeout as delay } from 'node:timers/promises';
import { migrate } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { openPostgresPool } from '../../../support/postgres/postgres-pool.js';
import { sharedDatabase } from '../../../support/postgres/use-postgres.js';
import type { ApiResponse } from '../../../../lab/faults/response.js';
import { createEffectsTable, readEffects } from '../../../../lab/faults/effects-table.js';
import { CUT_OFF, NOTHING_TOLERATED } from '../../../../lab/faults/expectations.js';
import { recordKeyOf } from '../../../../lab/faults/extra-executions.js';
import { Lab, type StartOptions } from '../../../../lab/faults/lab.js';
import type { LabWorker } from '../../../../lab/faults/lab-worker.js';
import { judge, type Verdict } from '../../../../lab/faults/oracle.js';
import type { Effect } from '../../../../lab/faults/worker/lines.js';
import type { Mishap, Point } from '../../../../lab/faults/worker/mishap.js';

const LIMIT_MS = 30_000;
const POLL_PAUSE_MS = 10;

interface VictimOptions extends Pick<StartOptions, 'mutant' | 'metrics'> {
  readonly leaseMs?: number;
}

/** Longer than anything in here takes. */
const LEASE_MS = 60_000;

/** Workers whose effects are rows, committed with their records in a separate database. */
export class TransactionalLab {
  private constructor(
    private readonly url: string,
    private readonly pool: Pool,
    private readonly lab: Lab,
  ) {}

  static async set(): Promise<TransactionalLab> {
    const url = await sharedDatabase();
    await migrate({ url });
    const pool = openPostgresPool(url);
    await createEffectsTable(pool);
    return new TransactionalLab(url, pool, await Lab.set());
  }

  start({ leaseMs = LEASE_MS, ...others }: VictimOptions = {}): Promise<LabWorker> {
    const store = { kind: 'postgres', url: this.url } as const;
    return this.lab.start(store, {
      transactional: true,
      options: { lease: { duration: leaseMs } },
      ...others,
    });
  }

  send(worker: LabWorker, key: string, mishap?: Mishap): Promise<ApiResponse> {
    return this.lab.client.send(worker.url, key, { mishap });
  }

  /** Retries until there is a success. */
  ask(worker: LabWorker, key: string): Promise<ApiResponse> {
    return this.lab.client.ask(() => [worker.url], key, { limitMs: LIMIT_MS });
  }

  /** Pauses an attempt (SIGSTOP) in its transaction until `meanwhile` is over. */
  async pauseInTransaction<Result>(
    worker: LabWorker,
    key: string,
    meanwhile: () => Promise<Result>,
  ): Promise<{ readonly paused: ApiResponse; readonly meanwhile: Result }> {
    const paused = this.send(worker, key, held('after_effect'));
    await this.#untilEffectWritten();
    return this.#stopWhile(worker, paused, meanwhile);
  }

  /** Pauses an attempt (SIGSTOP) before its transaction until `meanwhile` is over. */
  async pauseBeforeTransaction<Result>(
    worker: LabWorker,
    key: string,
    meanwhile: () => Promise<Result>,
  ): Promise<{ readonly paused: ApiResponse; readonly meanwhile: Result }> {
    const paused = this.send(worker, key, held('after_begin'));
    await this.lab.untilBegan(key);
    return this.#stopWhile(worker, paused, meanwhile);
  }

  /** Ends the lease of an attempt on `key`, as if its time had passed. */
  async endLease(key: string): Promise<void> {
    await this.pool.query(
      `UPDATE idempotency_records SET lease_until = lease_until - $1 * interval '1 ms' WHERE record_key = $2`,
      [LEASE_MS, Buffer.from(recordKeyOf(key), 'base64url')],
    );
  }

  /** Resolves when a lease of this length that has begun is over by the server's clock. */
  async untilOver(leaseMs: number): Promise<void> {
    await this.pool.query('SELECT pg_sleep($1)', [(leaseMs + 100) / 1_000]);
  }

  async effects(key: string): Promise<Effect[]> {
    const effects = await readEffects(this.pool);
    return effects.filter((effect) => effect.key === key);
  }

  /** Tolerates other responses during faults, and nothing else. */
  async judge(): Promise<Verdict> {
    const evidence = { ...this.lab.evidence(), ledger: await readEffects(this.pool) };
    const otherResponses = [...NOTHING_TOLERATED.otherResponses, ...CUT_OFF];
    return judge(evidence, { ...NOTHING_TOLERATED, brokenConnections: true, otherResponses });
  }

  async clear(): Promise<void> {
    await this.lab.clear();
    await this.pool.end();
  }

  async #stopWhile<Result>(
    worker: LabWorker,
    paused: Promise<ApiResponse>,
    meanwhile: () => Promise<Result>,
  ) {
    worker.stop();
    const result = await meanwhile();
    worker.continue();
    worker.releaseUnowned();
    return { paused: await paused, meanwhile: result };
  }

  async #untilEffectWritten(): Promise<void> {
    for (;;) {
      const { rows } = await this.pool.query(
        `SELECT FROM pg_stat_activity
         WHERE datname = current_database() AND state = 'idle in transaction'
           AND query LIKE '%INSERT INTO effects%'`,
      );
      if (rows.length > 0) return;
      await delay(POLL_PAUSE_MS);
    }
  }
}

/** The attempt itself waits, so that the whole process can be paused meanwhile. */
function held(point: Point): Mishap {
  return { point, action: { kind: 'hold' } };
}
