import type { Socket } from 'node:net';
import { loadScripts, type LuaScripts } from '../../lib/stores/redis/lua-scripts.js';
import {
  Aim,
  type AimedFault,
  type AimOptions,
  type Capture,
  type Target,
} from './redis-proxy/aim.js';
import { CapturedCommand } from './redis-proxy/captured-command.js';
import { RedisLink, type Conditions } from './redis-proxy/redis-link.js';
import { wordsOf } from './redis-proxy/resp-reader.js';
import { TcpRelay } from './tcp-relay.js';

export interface RedisProxyOptions {
  /**
   * `false`: passes all bytes unread, which costs least; faults can then befall whole connections only.
   *
   * @defaultValue true
   */
  readonly canAim?: boolean;
  /**
   * The scripts by which commands are recognised.
   *
   * @defaultValue those of the package
   */
  readonly scripts?: LuaScripts;
}

const CALM = { requestDelayMs: 0, replyDelayMs: 0, losesReply: () => false };

/** Stands between the store's client and one Redis on 127.0.0.1, and spoils what passes. */
export class RedisProxy {
  /** How many connections there were, the present ones included. */
  connections = 0;
  /** How many times a reply was lost by {@link loseReplies}. */
  lostReplies = 0;
  private readonly links = new Set<RedisLink>();
  private readonly scriptNames: ReadonlyMap<string, string>;
  private aims: Aim[] = [];
  private conditions: Conditions;
  private receive: 'pass' | 'break' | 'mute' = 'pass';

  private constructor(
    private readonly relay: TcpRelay,
    private readonly targetPort: number,
    { canAim = true, scripts = loadScripts() }: RedisProxyOptions,
  ) {
    this.scriptNames = new Map(
      Object.entries(scripts).flatMap(([name, { sha1, text }]) => [
        [sha1, name],
        [text, name],
      ]),
    );
    const aimFor = canAim ? (request: Buffer) => this.aimFor(request) : undefined;
    this.conditions = { ...CALM, aimFor };
    relay.tell((link) => this.join(new RedisLink(link, () => this.conditions), link.client));
  }

  static async start(targetPort: number, options: RedisProxyOptions = {}): Promise<RedisProxy> {
    return new RedisProxy(await TcpRelay.start(targetPort), targetPort, options);
  }

  get port(): number {
    return this.relay.port;
  }

  get url(): string {
    return `redis://127.0.0.1:${String(this.port)}`;
  }

  /** The next command that matches, or the nth, meets the fault. */
  aim(target: Target, fault: AimedFault, options: AimOptions = {}): Aim {
    const aim = new Aim(target, fault, options);
    this.aims.push(aim);
    return aim;
  }

  /**
   * Takes the next command that matches off the wire, to be delivered later or never.
   *
   * @param then - what becomes of its connection: a client whose connection breaks sends again at once.
   */
  capture(
    target: Target,
    then: Capture['then'],
    options: AimOptions = {},
  ): Promise<CapturedCommand> {
    return new Promise((resolve) => {
      const capture = (words: readonly Buffer[]) =>
        resolve(new CapturedCommand(words, this.targetPort));
      this.aim(target, { capture, then }, options);
    });
  }

  /** Everything takes so much longer from now on, over every connection. */
  slowDown(delays: { readonly requestDelayMs?: number; readonly replyDelayMs?: number }): void {
    this.conditions = { ...this.conditions, ...delays };
  }

  /**
   * From now on replies are lost, and their connections with them.
   *
   * @param isLost - asked for each piece that comes from the server, which is one reply or those of a pipeline.
   */
  loseReplies(isLost: () => boolean): void {
    const losesReply = () => {
      const lost = isLost();
      if (lost) this.lostReplies += 1;
      return lost;
    };
    this.conditions = { ...this.conditions, losesReply };
  }

  /** Nothing comes back any more over the connections that are open; new ones work. */
  silenceOpenConnections(): void {
    for (const link of this.links) link.muteReplies();
  }

  /** The server's side of the open connections goes away, and the client is not told; new ones work. */
  loseServerSide(): void {
    for (const link of this.links) link.loseServer();
  }

  /** Breaks the open connections; new ones work. */
  breakConnections(): void {
    for (const link of this.links) link.break();
  }

  /** As if the server were gone: no connection lasts, until {@link heal}. */
  hangUp(): void {
    this.receive = 'break';
    this.breakConnections();
  }

  /** Connections are accepted, and nothing passes, until {@link heal}. The present ones stay silent after it. */
  swallowEverything(): void {
    this.receive = 'mute';
    for (const link of this.links) link.mute();
  }

  /** Ends whatever was planned. */
  heal(): void {
    this.aims = [];
    this.receive = 'pass';
    this.conditions = { ...this.conditions, ...CALM };
  }

  stop(): Promise<void> {
    return this.relay.stop();
  }

  private join(link: RedisLink, client: Socket): void {
    this.connections += 1;
    if (this.receive === 'break') link.break();
    if (this.receive === 'mute') link.mute();
    this.links.add(link);
    client.on('close', () => this.links.delete(link));
  }

  private aimFor(request: Buffer): Aim | undefined {
    if (this.aims.length === 0) return undefined;
    const name = this.nameOf(request);
    return this.aims.find((aim) => aim.takes(name));
  }

  private nameOf(request: Buffer): string {
    const [command = '', script = ''] = wordsOf(request).slice(0, 2).map(String);
    const name = command.toUpperCase();
    const isScript = name === 'EVALSHA' || name === 'EVAL';
    return (isScript ? this.scriptNames.get(script) : undefined) ?? name;
  }
}
