import { rmSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApiProcess } from '../processes/api-process.js';
import { LedgerFile } from '../ledger-file.js';
import { type RedisServer, startRedisServer } from '../processes/redis-server.js';

export const PROVIDER_DELAY_MS = 1000;
export const LEASE_MS = 3000;

/** Generous, so that a slow machine under 200 concurrent requests does not pass for a Redis that is down. */
const COMMAND_TIMEOUT = '2s';

/** One Redis, the API processes that use it, and one ledger for all of them. */
export class DemoEnvironment {
  readonly #processes: ApiProcess[] = [];
  #cleared = false;

  private constructor(
    private readonly folder: string,
    private readonly ledgerPath: string,
    readonly redis: RedisServer,
    readonly ledger: LedgerFile,
  ) {}

  static async set(): Promise<DemoEnvironment> {
    const folder = await mkdtemp(join(tmpdir(), 'nestjs-idempotency-demo-'));
    const ledgerPath = join(folder, 'ledger.jsonl');
    await writeFile(ledgerPath, '');
    try {
      const redis = await startRedisServer(folder);
      return new DemoEnvironment(folder, ledgerPath, redis, new LedgerFile(ledgerPath));
    } catch (error) {
      rmSync(folder, { recursive: true });
      throw error;
    }
  }

  async startApi(): Promise<ApiProcess> {
    if (this.#cleared) throw new Error('The demo is over');
    const api = new ApiProcess({
      STORE: 'redis',
      REDIS_URL: this.redis.url,
      LEDGER_FILE: this.ledgerPath,
      BLOBS_DIRECTORY: join(this.folder, 'blobs'),
      PROVIDER_DELAY_MS: String(PROVIDER_DELAY_MS),
      LEASE: `${LEASE_MS}ms`,
      COMMAND_TIMEOUT,
      SAVE_TIMEOUT: '4s',
    });
    this.#processes.push(api);
    await api.untilListening();
    return api;
  }

  /** Ends every process, even during a scenario. */
  async clear(): Promise<void> {
    this.#cleared = true;
    await Promise.all(this.#processes.map((api) => api.kill()));
    await this.redis.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
