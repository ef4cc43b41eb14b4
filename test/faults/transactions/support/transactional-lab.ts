import { setTimeout as delay } from 'node:timers/promises';
import { migrate } from 'nestjs-idempotency/postgres';
import type { Pool } from 'pg';
import { openPostgresPool } from '../../../support/postgres-pool.js';
import { startPostgres, type PostgresServer } from '../../../support/postgres-server.js';
import type { Answer } from '../../../lab/faults/answer.js';
import { createEffectsTable, readEffects } from '../../../lab/faults/effects-table.js';
import { CUT_OFF, NOTHING_EXCUSED } from '../../../lab/faults/expectations.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { judge, type Verdict } from '../../../lab/faults/oracle.js';
import type { Effect } from '../../../lab/faults/worker/lines.js';
import type { Mishap, Point } from '../../../lab/faults/worker/mishap.js';
import type { MutantName } from '../../../lab/faults/worker/mutants.js';

const LIMIT_MS = 30_000;
const LOOK_PAUSE_MS = 10;

/** Shorter than a lease, and longer than it takes to stop a process. */
const STILL_MS = 1_000;

/** Of the workers that are to have an accident. */
export const LEASE_MS = 2_000;

/** Workers whose effects are rows that are committed with their records, on a PostgreSQL of their own. */
export class TransactionalLab {
  private constructor(
    private readonly server: PostgresServer,
    private readonly url: string,
    private readonly pool: Pool,
    private readonly lab: Lab,
  ) {}

  static async set(): Promise<TransactionalLab> {
    const server = await startPostgres();
    const url = await server.newDatabase();
    await migrate({ url });
    const pool = openPostgresPool(url);
    await createEffectsTable(pool);
    return new TransactionalLab(server, url, pool, await Lab.set());
  }

  /** A worker that is to have an accident: its records come free after {@link LEASE_MS}, for nothing extends them. */
  victim(mutant?: MutantName): Promise<LabWorker> {
    return this.#worker(LEASE_MS, mutant);
  }

  /** A worker with a lease that no busy machine outlives. */
  survivor(): Promise<LabWorker> {
    return this.#worker(30_000);
  }

  #worker(leaseMs: number, mutant?: MutantName): Promise<LabWorker> {
    const store = { kind: 'postgres', url: this.url } as const;
    const others = mutant === undefined ? {} : { mutant };
    return this.lab.start(store, { transactional: true, options: { leaseMs }, ...others });
  }

  send(worker: LabWorker, key: string, mishap?: Mishap): Promise<Answer> {
    return this.lab.client.send(worker.url, key, { mishap });
  }

  /** Asks until there is a success. */
  ask(worker: LabWorker, key: string): Promise<Answer> {
    return this.lab.client.ask(() => [worker.url], key, { limitMs: LIMIT_MS });
  }

  /** An attempt stands still (SIGSTOP) in its transaction until `meanwhile` is over. */
  async pauseInTransaction<Result>(
    worker: LabWorker,
    key: string,
    meanwhile: () => Promise<Result>,
  ): Promise<{ readonly paused: Answer; readonly meanwhile: Result }> {
    const paused = this.send(worker, key, standStill('after_effect'));
    await this.#untilEffectWritten();
    return this.#stopWhile(worker, paused, meanwhile);
  }

  /** An attempt stands still (SIGSTOP) before its transaction until `meanwhile` is over. */
  async pauseBeforeTransaction<Result>(
    worker: LabWorker,
    key: string,
    meanwhile: () => Promise<Result>,
  ): Promise<{ readonly paused: Answer; readonly meanwhile: Result }> {
    const paused = this.send(worker, key, standStill('after_begin'));
    await this.lab.untilBegan(key);
    return this.#stopWhile(worker, paused, meanwhile);
  }

  /** Resolves when a lease of this length that has begun is over by the server's clock. */
  async untilOver(leaseMs: number): Promise<void> {
    await this.pool.query('SELECT pg_sleep($1)', [(leaseMs + 100) / 1_000]);
  }

  async effects(key: string): Promise<Effect[]> {
    const effects = await readEffects(this.pool);
    return effects.filter((effect) => effect.key === key);
  }

  /** Excuses what clients are answered while there is trouble, and nothing else. */
  async judge(): Promise<Verdict> {
    const evidence = { ...this.lab.evidence(), ledger: await readEffects(this.pool) };
    const otherAnswers = [...NOTHING_EXCUSED.otherAnswers, ...CUT_OFF];
    return judge(evidence, { ...NOTHING_EXCUSED, brokenConnections: true, otherAnswers });
  }

  async clear(): Promise<void> {
    await this.lab.clear();
    await this.pool.end();
    await this.server.stop();
  }

  async #stopWhile<Result>(
    worker: LabWorker,
    paused: Promise<Answer>,
    meanwhile: () => Promise<Result>,
  ) {
    worker.stop();
    const result = await meanwhile();
    worker.continue();
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
      await delay(LOOK_PAUSE_MS);
    }
  }
}

/** The attempt itself waits, so that the whole process can be stopped meanwhile. */
function standStill(point: Point): Mishap {
  return { point, action: { kind: 'pause', ms: STILL_MS } };
}
