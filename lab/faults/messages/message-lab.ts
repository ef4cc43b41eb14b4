import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect, type ChannelModel, type ConfirmChannel } from 'amqplib';
import { queueDepth, queueLength } from '../../../test/support/rabbitmq/rabbitmq-queues.js';
import { CALLER } from '../client.js';
import { readLines } from '../evidence.js';
import type { Effect, EventLine } from '../worker/lines.js';
import type { WorkerOptions } from '../worker/settings.js';
import { PATTERN } from './worker/settings.js';
import { ConsumerProcess } from './consumer-process.js';
import type { MessageEvidence } from './message-evidence.js';
import type { MessageServers } from './message-servers.js';
import { BrokerRelay } from './wire/broker-relay.js';
import { WireLog } from './wire/wire-log.js';

export interface MessageLabOptions {
  readonly queue: 'quorum' | 'classic';
  /** How many consumers there are at a time. */
  readonly consumers: number;
  readonly prefetch: number;
  /** Of the consumers' module. */
  readonly options: WorkerOptions;
  /** How long a handler takes until it has its effect. */
  readonly effectDelayMs: number;
  /** What the consumers run. */
  readonly program: string;
}

/** The delivery limit, after which the broker dead-letters a message: only a redelivery loop reaches it. */
const DELIVERY_LIMIT = 30;

/** A machine that is busy with other tests is not to be mistaken for a store that is down. */
const TIMEOUT = { commandTimeout: 20_000, saveTimeout: 20_000 };

/** As in `(node:123) MaxListenersExceededWarning: …`. */
const NODE_WARNING = /(?<=^\(node:\d+\) ).*/gm;

/** The consumers of one queue with one ledger, and their ways to the broker, which are listened to. */
export class MessageLab {
  readonly wire = new WireLog();
  /** How many connections were broken. */
  cuts = 0;
  /** When the consumers got the command to end; before that, Infinity. */
  endedAt = Infinity;
  readonly #published = new Map<string, number>();
  readonly #consumers = new Set<ConsumerProcess>();
  readonly #names: string[] = [];
  readonly #deaths = new Map<string, number>();
  readonly #stoodStill = new Set<string>();
  readonly #closesAsked = new Map<string, number>();
  readonly #warnings: string[] = [];
  #ways: readonly BrokerRelay[] = [];
  #starts = 0;
  #copies = 0;

  private constructor(
    private readonly servers: MessageServers,
    private readonly settings: MessageLabOptions,
    private readonly name: string,
    private readonly connection: ChannelModel,
    private readonly channel: ConfirmChannel,
  ) {
    mkdirSync(this.#folder);
    writeFileSync(this.#ledgerFile, '');
    writeFileSync(this.#eventsFile, '');
  }

  static async open(servers: MessageServers, settings: MessageLabOptions): Promise<MessageLab> {
    const connection = await connect(servers.broker.url);
    const channel = await connection.createConfirmChannel();
    const lab = new MessageLab(servers, settings, `queue-${randomUUID()}`, connection, channel);
    await channel.assertQueue(lab.#deadLettered, { durable: true });
    await channel.assertQueue(lab.name, {
      durable: true,
      arguments: {
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': lab.#deadLettered,
        ...(settings.queue === 'quorum' && {
          'x-queue-type': 'quorum',
          'x-delivery-limit': DELIVERY_LIMIT,
        }),
      },
    });
    lab.#ways = await Promise.all(
      Array.from({ length: settings.consumers }, (_, slot) =>
        BrokerRelay.start(servers.broker.port, lab.wire, () => lab.#names[slot] ?? ''),
      ),
    );
    return lab;
  }

  get #deadLettered(): string {
    return `${this.name}-aside`;
  }

  get #folder(): string {
    return join(this.servers.folder, this.name);
  }

  get #ledgerFile(): string {
    return join(this.#folder, 'ledger.jsonl');
  }

  get #eventsFile(): string {
    return join(this.#folder, 'events.jsonl');
  }

  /** How many channels of living consumers have ended so far. */
  get closes(): number {
    return this.cuts + this.wire.closes.filter(({ by }) => by !== 'none').length;
  }

  /** Every start is a consumer of its own name. */
  async start(slot: number): Promise<ConsumerProcess> {
    const { options, effectDelayMs, prefetch, program } = this.settings;
    this.#starts += 1;
    const name = `consumer-${this.#starts}`;
    this.#names[slot] = name;
    const consumer = new ConsumerProcess(program, {
      name,
      store: { kind: 'redis', url: this.servers.redis.url },
      options: {
        ...options,
        message: { consumer: CALLER, ...options.message },
        storeErrors: { ...TIMEOUT, ...options.storeErrors },
      },
      brokerUrl: `amqp://guest:guest@127.0.0.1:${this.#ways[slot]!.port}`,
      queue: this.name,
      prefetch,
      ledgerFile: this.#ledgerFile,
      eventsFile: this.#eventsFile,
      effectDelayMs,
    });
    this.#consumers.add(consumer);
    void consumer.untilExit().then(() => {
      this.#consumers.delete(consumer);
      this.#warnings.push(...(consumer.log.match(NODE_WARNING) ?? []));
    });
    await consumer.untilReady();
    return consumer;
  }

  /** SIGKILL, at an instant that the oracle gets. */
  async kill(consumer: ConsumerProcess): Promise<void> {
    this.#deaths.set(consumer.name, Date.now());
    await consumer.kill();
  }

  /** Has the consumer close its channel, or the broker for a mistake of the consumer's. */
  closeChannel(consumer: ConsumerProcess, by: 'consumer' | 'broker'): void {
    this.#closesAsked.set(consumer.name, (this.#closesAsked.get(consumer.name) ?? 0) + 1);
    consumer.command({ kind: by === 'consumer' ? 'close channel' : 'break channel' });
  }

  /** Breaks the connection of the consumer in this slot. */
  cut(slot: number): void {
    const name = this.#names[slot]!;
    if (!this.#ways[slot]!.cut()) return;
    this.cuts += 1;
    this.#closesAsked.set(name, (this.#closesAsked.get(name) ?? 0) + 1);
  }

  /** Notifies the oracle that this consumer will freeze for longer than its lease. */
  standsStill(consumer: ConsumerProcess): void {
    this.#stoodStill.add(consumer.name);
  }

  /** Publishes a message for each number, equal numbers being copies; resolves when the broker has them all. */
  async publish(numbers: readonly number[]): Promise<void> {
    const content = Buffer.from(JSON.stringify({ pattern: PATTERN, data: {} }));
    for (const number of numbers) {
      this.#copies += 1;
      const messageId = `${this.name}-${number}`;
      this.#published.set(messageId, (this.#published.get(messageId) ?? 0) + 1);
      const correlationId = String(this.#copies);
      const properties = { persistent: true, messageId, correlationId };
      this.channel.sendToQueue(this.name, content, properties);
    }
    await this.channel.waitForConfirms();
  }

  /** How many messages wait for a consumer. */
  private async ready(): Promise<number> {
    return (await queueLength(this.servers.broker.url, this.name)).ready;
  }

  /**
   * Whether nothing is left, neither with the broker nor on the way. The two are seen one after the other: only where
   * nothing was delivered meanwhile, nothing has slipped by.
   */
  async isEmpty(): Promise<boolean> {
    const { delivered } = this.wire;
    if (this.wire.unacknowledged > 0 || (await this.ready()) > 0) return false;
    // Asked last, for it takes long, and it knows of what was sent to a consumer and has not come yet.
    const { ready, unacked } = await queueDepth(this.servers.broker, this.name);
    if (ready + unacked > 0) return false;
    return this.wire.unacknowledged === 0 && this.wire.delivered === delivered;
  }

  /** All that is known once the consumers have ended. */
  async evidence(): Promise<MessageEvidence> {
    const { ready, unacked } = await queueDepth(this.servers.broker, this.name);
    return {
      published: this.#published,
      ledger: readLines<Effect>(this.#ledgerFile),
      events: readLines<EventLine>(this.#eventsFile),
      wire: this.wire,
      deaths: this.#deaths,
      stoodStill: this.#stoodStill,
      closesAsked: this.#closesAsked,
      warnings: this.#warnings,
      endedAt: this.endedAt,
      left: { ready, unacked },
      deadLettered: (await queueLength(this.servers.broker.url, this.#deadLettered)).ready,
    };
  }

  /** Ends all consumers in the way of a deployment. */
  async terminate(): Promise<void> {
    this.endedAt = Date.now();
    await Promise.all([...this.#consumers].map((consumer) => consumer.terminate()));
  }

  async clear(): Promise<void> {
    await Promise.all([...this.#consumers].map((consumer) => consumer.kill()));
    await Promise.all(this.#ways.map((way) => way.stop()));
    await this.connection.close();
  }
}
