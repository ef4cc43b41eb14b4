import type { Socket } from 'node:net';
import { loadScripts, type LuaScripts } from '../../internals/redis.js';
import { scriptTexts } from '../scripts.js';
import { Aim, type AimedFault, type AimOptions, type Capture, type Target } from './aim.js';
import { CapturedCommand } from './captured-command.js';
import { RedisLink, type Conditions } from './redis-link.js';
import { wordsOf } from './resp-reader.js';
import { TcpRelay } from '../../servers/tcp-relay.js';

export interface RedisProxyOptions {
  /**
   * `false`: passes all bytes unread, which costs least; faults can then affect whole connections only.
   *
   * @defaultValue true
   */
  readonly canAim?: boolean;
  /**
   * The scripts by which commands are recognized.
   *
   * @defaultValue those of the package
   */
  readonly scripts?: LuaScripts;
}

const CALM = { requestDelayMs: 0, replyDelayMs: 0, losesReply: () => false };

/** A proxy between the store's client and one Redis on 127.0.0.1, which injects faults. */
export class RedisProxy {
  /** How many connections there were, including the present ones. */
  connections = 0;
  /** How many times {@link loseReplies} lost a reply. */
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
      scriptTexts(scripts).flatMap(([name, { sha1, text }]) => [
        [sha1, name],
        [text, name],
      ]),
    );
    const aimFor = canAim ? (request: Buffer) => this.aimFor(request) : undefined;
    this.conditions = { ...CALM, aimFor };
    relay.report((link) => this.join(new RedisLink(link, () => this.conditions), link.client));
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

  /** The next matching command, or the nth, meets the fault. */
  aim(target: Target, fault: AimedFault, options: AimOptions = {}): Aim {
    const aim = new Aim(target, fault, options);
    this.aims.push(aim);
    return aim;
  }

  /**
   * Takes the next matching command off the wire, to be delivered later or never.
   *
   * @param then - what happens to its connection: a client whose connection breaks resends at once.
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

  /** Delays everything by this time from now on, on every connection. */
  slowDown(delays: { readonly requestDelayMs?: number; readonly replyDelayMs?: number }): void {
    this.conditions = { ...this.conditions, ...delays };
  }

  /**
   * From now on replies are lost, and their connections with them.
   *
   * @param isLost - called for each piece that the server sends, which is one reply or those of a pipeline.
   */
  loseReplies(isLost: () => boolean): void {
    const losesReply = () => {
      const lost = isLost();
      if (lost) this.lostReplies += 1;
      return lost;
    };
    this.conditions = { ...this.conditions, losesReply };
  }

  /** Loses all replies on the open connections; new ones work. */
  silenceOpenConnections(): void {
    for (const link of this.links) link.muteReplies();
  }

  /** Closes the server's side of the open connections, and the client does not notice; new ones work. */
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

  /** Ends all planned faults. */
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
