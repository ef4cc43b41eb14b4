import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort, onFreePort } from '../servers/free-port.js';
import { startRedis, type RedisServer, type StartRedisOptions } from './redis-server.js';

/** A paused server accepts a connection and never answers. */
const TIME_LIMIT_MS = 2_000;

const CONNECTION = {
  lazyConnect: true,
  connectTimeout: TIME_LIMIT_MS,
  commandTimeout: TIME_LIMIT_MS,
  disconnectTimeout: 100,
  retryStrategy: () => null,
  maxRetriesPerRequest: 0,
};

export interface NodeOptions extends Pick<StartRedisOptions, 'args' | 'env'> {
  /** Gives it a configuration file to rewrite, which Sentinel requires. */
  readonly hasConfigFile?: boolean;
}

/** One redis-server of a topology: it can die or freeze, and restart with its address and its files. */
export class RedisNode {
  readonly dir = mkdtempSync(join(tmpdir(), 'idempotency-redis-node-'));
  private server: RedisServer | undefined;
  private isPaused = false;

  private constructor(
    readonly port: number,
    private readonly options: NodeOptions,
  ) {}

  /** One that has not started yet: its address refuses connections. */
  static async down(options: NodeOptions = {}): Promise<RedisNode> {
    return new RedisNode(await freePort(), options);
  }

  static start(options: NodeOptions = {}): Promise<RedisNode> {
    return onFreePort(async (port) => {
      const node = new RedisNode(port, options);
      try {
        await node.start();
        return node;
      } catch (error) {
        await node.stop();
        throw error;
      }
    });
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  get address(): { host: string; port: number } {
    return { host: '127.0.0.1', port: this.port };
  }

  /** Neither dead nor paused. */
  get isAlive(): boolean {
    return this.server !== undefined && !this.isPaused;
  }

  /** @param furtherArgs - for this start only. */
  async start(...furtherArgs: string[]): Promise<void> {
    const { port, dir, options } = this;
    const { args = [], hasConfigFile = false, ...others } = options;
    const file = hasConfigFile ? { configFile: join(dir, 'redis.conf') } : {};
    if (file.configFile !== undefined) writeFileSync(file.configFile, '', { flag: 'a' });
    this.server = await startRedis({
      ...others,
      ...file,
      args: [...args, ...furtherArgs],
      port,
      dir,
    });
  }

  /** SIGKILL; resolves when the process has exited. */
  async kill(): Promise<void> {
    const { server } = this;
    if (server === undefined) return;
    this.server = undefined;
    this.isPaused = false;
    server.kill('SIGKILL');
    await server.stop();
  }

  /** SIGSTOP: its port still accepts connections, its clients see no end of theirs. */
  pause(): void {
    this.isPaused = true;
    this.server?.kill('SIGSTOP');
  }

  /** SIGCONT. */
  resume(): void {
    this.isPaused = false;
    this.server?.kill('SIGCONT');
  }

  /** Ends it, and removes its files. */
  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Sends one command over a separate connection; rejects within seconds. */
  async call(command: string, ...args: (string | number)[]): Promise<unknown> {
    const client = new Redis(this.url, CONNECTION);
    client.on('error', () => undefined);
    try {
      await client.connect();
      return await client.call(command, ...args);
    } finally {
      client.disconnect();
    }
  }

  /** A field of INFO, `undefined` if there is none or the node does not answer. */
  async info(section: string, field: string): Promise<string | undefined> {
    const text = await this.call('INFO', section).catch(() => '');
    return new RegExp(`^${field}:(.*)\r$`, 'm').exec(String(text))?.[1];
  }
}
