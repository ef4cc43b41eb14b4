import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApiProcess } from '../processes/api-process.js';
import { LedgerFile } from '../ledger-file.js';
import { type RedisServer, startRedisServer } from '../processes/redis-server.js';
import { TcpProxy } from '../processes/tcp-proxy.js';
import { BrokerQueues } from './broker-queues.js';
import { Consumer } from './consumer.js';
import { RabbitMqServer } from '../processes/rabbitmq-server.js';

export const PROVIDER_DELAY_MS = 100;
export const LEASE_MS = 3000;

/** Generous, so that a slow machine does not pass for a Redis that is down. */
const COMMAND_TIMEOUT = '2s';

/** One broker, one Redis, one ledger, and the consumers that use them. */
export class DemoEnvironment {
  readonly #folder = mkdtempSync(join(tmpdir(), 'nestjs-idempotency-demo-messages-'));
  readonly #ledgerPath = join(this.#folder, 'ledger.jsonl');
  readonly ledger = new LedgerFile(this.#ledgerPath);
  /** The demo's own queue, also on a shared broker. */
  readonly queue = `orders-demo-${randomUUID()}`;
  readonly #own = new RabbitMqServer(join(this.#folder, 'rabbitmq'));
  readonly #consumers: Consumer[] = [];
  #redisStart: Promise<RedisServer> | undefined;
  #redis: RedisServer | undefined;
  #queues: BrokerQueues | undefined;
  #cleared: Promise<void> | undefined;

  constructor(private readonly givenBrokerUrl: string | undefined) {}

  async set(): Promise<void> {
    await writeFile(this.#ledgerPath, '');
    this.#redisStart = startRedisServer(this.#folder);
    this.#redis = await this.#redisStart;
    if (this.givenBrokerUrl === undefined) await this.#own.start();
    this.#queues = await BrokerQueues.open(this.brokerUrl, this.queue);
  }

  get brokerUrl(): string {
    return this.givenBrokerUrl ?? this.#own.url;
  }

  get queues(): BrokerQueues {
    return set(this.#queues);
  }

  /** Names the servers. */
  get servers(): string {
    const broker = this.givenBrokerUrl === undefined ? `RabbitMQ ${this.#own.version}` : 'broker';
    return `one ${broker} and one Redis ${set(this.#redis).version}`;
  }

  /** Does not consume yet, see {@link Consumer.start}. */
  async addConsumer(): Promise<Consumer> {
    const proxy = await TcpProxy.open(this.brokerUrl);
    const consumer = new Consumer(proxy, () => this.#startProcess(proxy));
    this.#consumers.push(consumer);
    return consumer;
  }

  #startProcess(proxy: TcpProxy): ApiProcess {
    if (this.#cleared !== undefined) throw new Error('The demo is over');
    return new ApiProcess({
      STORE: 'redis',
      REDIS_URL: set(this.#redis).url,
      BROKER_URL: proxy.url,
      ORDERS_QUEUE: this.queue,
      LEDGER_FILE: this.#ledgerPath,
      BLOBS_DIRECTORY: `${this.#ledgerPath}.blobs`,
      PROVIDER_DELAY_MS: String(PROVIDER_DELAY_MS),
      LEASE: `${LEASE_MS}ms`,
      COMMAND_TIMEOUT,
      SAVE_TIMEOUT: '4s',
    });
  }

  /** Ends every process and removes their files, at any stage. */
  clear(): Promise<void> {
    this.#cleared ??= this.#clear();
    return this.#cleared;
  }

  async #clear(): Promise<void> {
    await Promise.all(this.#consumers.map((consumer) => consumer.kill()));
    for (const consumer of this.#consumers) consumer.proxy.close();
    await this.#own.stop();
    await this.#redisStart?.then((redis) => redis.stop());
    rmSync(this.#folder, { recursive: true, force: true });
    if (this.givenBrokerUrl !== undefined) await this.#queues?.delete();
  }
}

function set<Part>(part: Part | undefined): Part {
  if (part === undefined) throw new Error('The servers are not started yet');
  return part;
}
