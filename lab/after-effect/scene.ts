import { fork, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RedisProxy } from '../../test/support/redis/proxy/redis-proxy.js';
import { startRedis, type RedisServer } from '../../test/support/redis/redis-server.js';
import { typescriptNodeOptions } from '../../test/support/typescript/node-options.js';
import { until } from '../../test/support/waiting/until.js';
import { chargesOf, type ContenderName } from './contenders.js';

/** Longer than a process takes to start on a busy machine. */
const START_MS = 60_000;
/** How long a client waits for an answer. */
const PATIENCE_MS = 15_000;

/** How long the handler takes before and after its effect; without `afterMs` it never ends. */
export interface Plan {
  readonly beforeMs: number;
  readonly afterMs?: number;
}

/** One key, the servers of its own, and what its client has got so far. */
export class Scene {
  readonly key = randomUUID();
  readonly answers: string[] = [];
  private apps: { readonly child: ChildProcess; readonly url: string }[] = [];

  private constructor(
    private readonly name: ContenderName,
    private readonly hasTimeout: boolean,
    private readonly redis: RedisServer,
    readonly proxy: RedisProxy,
    private readonly folder: string,
  ) {
    writeFileSync(this.ledger, '');
  }

  static async set(name: ContenderName, hasTimeout = false): Promise<Scene> {
    const redis = await startRedis();
    const proxy = await RedisProxy.start(redis.port, { canAim: false });
    const folder = mkdtempSync(join(tmpdir(), 'after-effect-'));
    const scene = new Scene(name, hasTimeout, redis, proxy, folder);
    // The client asks the second one when the first is gone: at once, however long a process takes to start.
    scene.apps = [await scene.start(), await scene.start()];
    return scene;
  }

  private async start() {
    const child = fork(new URL('app.ts', import.meta.url), {
      execArgv: [...typescriptNodeOptions],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: {
        ...process.env,
        CONTENDER: this.name,
        REDIS_URL: this.proxy.url,
        LEDGER: this.ledger,
        HAS_TIMEOUT: String(this.hasTimeout),
      },
    });
    const signal = AbortSignal.timeout(START_MS);
    const [url] = (await once(child, 'message', { signal })) as [string];
    return { child, url };
  }

  /** Kills the process that is asked. */
  async kill(): Promise<void> {
    const { child } = this.apps.shift()!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  get charges(): number {
    return chargesOf(this.ledger).length;
  }

  untilCharged(): Promise<void> {
    return until(() => this.charges > 0, START_MS);
  }

  /** What the client gets, in a word: the status, and whether the handler did not run for it. */
  async post(plan: Plan): Promise<void> {
    const before = this.charges;
    const answer = await fetch(`${this.apps[0]!.url}/charges`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'idempotency-key': this.key,
        // Not in the body: all requests of a key have the same content.
        'x-plan': JSON.stringify(plan),
      },
      body: '{"amount":1}',
      signal: AbortSignal.timeout(PATIENCE_MS),
    }).then(
      async (response) => {
        await response.text();
        const isReplay = response.ok && this.answers.length > 0 && this.charges === before;
        return `${response.status}${isReplay ? ' without a run' : ''}`;
      },
      () => 'no answer',
    );
    this.answers.push(answer);
  }

  async end(): Promise<string> {
    const { charges } = this;
    while (this.apps.length > 0) await this.kill();
    await this.proxy.stop();
    await this.redis.stop();
    rmSync(this.folder, { recursive: true });
    const [first, ...retries] = this.answers;
    const counted = charges === 1 ? '1 charge' : `${charges} charges`;
    return `**${counted}**: ${first}; retries ${retries.join(', ')}`;
  }

  private get ledger(): string {
    return join(this.folder, 'ledger');
  }
}
