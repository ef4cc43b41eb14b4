import type { Commands } from '../link/commands.js';
import type { Arguments, Keys, RedisArgument, ReplyReceiver } from '../link/redis-link.js';
import {
  isReplyTo,
  ReplyOrder,
  type MismatchListener,
  type OrderedConnection,
} from '../link/reply-order.js';
import { scanInTurn } from '../link/scan-in-turn.js';
import { NotSentError } from '../link/send-failure.js';
import { BYTES, TEXTS, type CommandOptions, type GlideClient, type Route } from './client-types.js';
import { translated } from './error-classification.js';

/** GLIDE's random node may be a replica. */
const ANY_PRIMARY: Route = { type: 'primarySlotKey', key: 'idempotency' };

/** A reply to CLUSTER SLOTS. */
type Slots = readonly (readonly [first: number, last: number, primary: readonly unknown[]])[];

/** Sends commands by one client, which hides its connections. */
export class ClientCommands implements Commands, OrderedConnection {
  readonly order: ReplyOrder;
  /** The client may owe replies to others, and to what has timed out. */
  readonly pending = undefined;
  /** By key, the last SET in flight: of commands sent at once, GLIDE lets others pass a long one. */
  private readonly settings = new Map<string, Promise<void>>();
  private current = this.newSocket();
  private isReplacing = false;

  constructor(
    private readonly client: GlideClient,
    private readonly isCluster: boolean,
    onMismatch: MismatchListener,
  ) {
    this.order = new ReplyOrder(this, onMismatch);
  }

  /** Stands for the sockets. */
  get socket(): { destroy(): void } {
    return this.current;
  }

  get isReady(): boolean {
    return !this.isReplacing && this.client.isClosed !== true;
  }

  async probe(text: string, argument: string): Promise<unknown> {
    const route = this.isCluster ? 'allPrimaries' : undefined;
    const reply = await this.client.customCommand(['EVAL', text, '0', argument], {
      decoder: BYTES,
      route,
    });
    if (!this.isCluster) return reply;
    const values = (reply as readonly { readonly value: unknown }[]).map(({ value }) => value);
    return values.find((value) => !isReplyTo(argument, value)) ?? values[0];
  }

  evalsha(sha1: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    void this.sendAfterSet(
      keys,
      ['EVALSHA', sha1, String(keys.length), ...keys, ...args],
      receiver,
    );
  }

  eval(text: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void {
    void this.sendAfterSet(keys, ['EVAL', text, String(keys.length), ...keys, ...args], receiver);
  }

  get(key: string, receiver: ReplyReceiver): void {
    void this.sendAfterSet([key], ['GET', key], receiver);
  }

  set(key: string, value: readonly Buffer[], expiryMs: number, receiver: ReplyReceiver): void {
    const words = ['SET', key, Buffer.concat(value), 'PX', String(expiryMs)];
    const { settings } = this;
    const setting = this.sendAfterSet([key], words, receiver);
    settings.set(key, setting);
    void setting.then(() => {
      if (settings.get(key) === setting) settings.delete(key);
    });
  }

  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void {
    if (!this.isCluster) {
      this.scanOne(cursor, match, count, receiver);
      return;
    }
    this.scanAll(cursor, match, count, receiver).catch((error: unknown) => {
      receiver.onError(translated(error), this.order);
    });
  }

  info(receiver: ReplyReceiver): void {
    void this.send(['INFO'], receiver, {
      decoder: TEXTS,
      route: this.isCluster ? ANY_PRIMARY : undefined,
    });
  }

  private scanOne(
    cursor: string,
    match: string,
    count: number,
    receiver: ReplyReceiver,
    route?: Route,
  ): void {
    const page = ['MATCH', match, 'COUNT', String(count), 'TYPE', 'string'];
    void this.send(['SCAN', cursor, ...page], receiver, { decoder: TEXTS, route });
  }

  /** The map of the client is hidden: it is read again for each page. */
  private async scanAll(
    cursor: string,
    match: string,
    count: number,
    receiver: ReplyReceiver,
  ): Promise<void> {
    const reply = await this.client.customCommand(['CLUSTER', 'SLOTS'], {
      decoder: TEXTS,
      route: ANY_PRIMARY,
    });
    const servers = new Map<string, Route>();
    const slots: (readonly string[] | undefined)[] = [];
    for (const [first, last, [host, port]] of reply as Slots) {
      const name = `${String(host)}:${String(port)}`;
      servers.set(name, { type: 'routeByAddress', host: String(host), port: Number(port) });
      for (let slot = first; slot <= last; slot += 1) slots[slot] = [name];
    }
    const scanned = [...servers].map(([name, route]) => ({
      name,
      commandsOf: () => ({
        scan: (...page: Parameters<Commands['scan']>) => {
          this.scanOne(...page, route);
        },
      }),
    }));
    scanInTurn(scanned, slots, cursor, match, count, receiver);
  }

  private sendAfterSet(
    keys: Keys,
    words: readonly RedisArgument[],
    receiver: ReplyReceiver,
  ): Promise<void> {
    const { settings } = this;
    const setting = settings.size === 0 ? [] : keys.flatMap((key) => settings.get(key) ?? []);
    return this.send(words, receiver, { decoder: BYTES }, setting);
  }

  /** @param before - what has to end first; none of it rejects. */
  private send(
    words: readonly RedisArgument[],
    receiver: ReplyReceiver,
    options: CommandOptions,
    before: readonly Promise<void>[] = [],
  ): Promise<void> {
    if (!this.isReady) throw new NotSentError();
    const { order } = this;
    const reply =
      before.length > 0
        ? Promise.all(before).then(() => this.client.customCommand(words, options))
        : this.client.customCommand(words, options);
    return reply.then(
      (received) => {
        receiver.onReply(received, order);
      },
      (error: unknown) => {
        receiver.onError(translated(error), order);
      },
    );
  }

  private newSocket() {
    return {
      destroy: () => {
        this.replace();
      },
    };
  }

  /** GLIDE has no method for it, but connects again when the server ends the connection. */
  private replace(): void {
    this.isReplacing = true;
    const route = this.isCluster ? 'allNodes' : undefined;
    const replaced = () => {
      this.current = this.newSocket();
      this.isReplacing = false;
    };
    // The reply to QUIT may have gone to another command, too: then it ends with the connection.
    this.client.customCommand(['QUIT'], { decoder: BYTES, route }).then(replaced, replaced);
  }
}
