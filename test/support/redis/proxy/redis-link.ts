import type { Link } from '../../servers/tcp-relay.js';
import type { Aim, AimedFault } from './aim.js';
import { DelayedWriter } from './delayed-writer.js';
import { RespReader, wordsOf } from './resp-reader.js';

/** What applies to every connection of a proxy. */
export interface Conditions {
  readonly requestDelayMs: number;
  readonly replyDelayMs: number;
  /** Whether the piece that the server just sent is lost, and its connection with it. */
  readonly losesReply: () => boolean;
  /** `undefined`: no command can be matched, and the bytes pass unread. */
  readonly aimFor: AimFor | undefined;
}

/** The fault that a request meets, if any. */
export type AimFor = (request: Buffer) => Aim | undefined;

/** These are answered by push messages, or by as many as there are channels. */
const OWES_NO_REPLY = /^\*\d+\r\n\$\d+\r\n[SP]?(?:UN)?SUBSCRIBE\r\n/i;
const PUSH = 0x3e;

/** One connection of a Redis client through the proxy. */
export class RedisLink {
  private readonly toServer: DelayedWriter;
  private readonly toClient: DelayedWriter;
  private readonly requests = new RespReader();
  private readonly replies = new RespReader();
  /** One for each pending reply of the server: its fault, if any. */
  private readonly outstanding: (Aim | undefined)[] = [];
  private requestsPass = true;
  private repliesPass = true;

  /** @param conditions - read again for each piece. */
  constructor(
    private readonly link: Link,
    private readonly conditions: () => Conditions,
  ) {
    const { client, server } = link;
    this.toServer = new DelayedWriter(server);
    this.toClient = new DelayedWriter(client);
    client.on('data', (chunk) => this.fromClient(chunk));
    server.on('data', (chunk) => this.fromServer(chunk));
    server.on('close', () => {
      if (this.repliesPass) this.toClient.end(() => link.breakBoth());
    });
  }

  break(): void {
    this.link.breakBoth();
  }

  /** The server continues to execute, and no more replies pass. */
  muteReplies(): void {
    this.repliesPass = false;
  }

  /** Nothing passes any more, in either direction. */
  mute(): void {
    this.requestsPass = false;
    this.repliesPass = false;
  }

  /** The server's side is closed, and the client does not notice. */
  loseServer(): void {
    this.mute();
    this.link.server.destroy();
  }

  private fromClient(chunk: Buffer): void {
    if (!this.requestsPass) return;
    const { aimFor, requestDelayMs } = this.conditions();
    if (aimFor === undefined) {
      this.toServer.send(chunk, requestDelayMs);
      return;
    }
    const { server } = this.link;
    server.cork();
    for (const request of this.requests.read(chunk)) {
      this.passRequest(request, aimFor, requestDelayMs);
    }
    server.uncork();
  }

  private passRequest(request: Buffer, aimFor: AimFor, delayMs: number): void {
    if (!this.requestsPass) return;
    const aim = aimFor(request);
    const fault = aim?.fault;
    if (isAboutReply(fault)) {
      this.toServer.send(request, delayMs);
      this.outstanding.push(aim);
      return;
    }
    aim?.note();
    if (fault === 'lose the request') {
      this.stopRequests('break');
    } else if (fault === 'swallow the request') {
      this.stopRequests('silence');
    } else if (typeof fault === 'object' && 'capture' in fault) {
      fault.capture(wordsOf(request));
      this.stopRequests(fault.then);
    } else {
      this.toServer.send(request, delayMs + delayOf(fault));
      if (!OWES_NO_REPLY.test(request.toString('latin1', 0, 40))) this.outstanding.push(undefined);
    }
  }

  /** What was sent before is still executed. */
  private stopRequests(then: 'break' | 'silence'): void {
    this.requestsPass = false;
    if (then === 'silence') return;
    this.repliesPass = false;
    this.toServer.end(() => this.link.breakBoth());
  }

  private fromServer(chunk: Buffer): void {
    if (!this.repliesPass) return;
    const { aimFor, replyDelayMs, losesReply } = this.conditions();
    if (losesReply()) {
      this.break();
      return;
    }
    if (aimFor === undefined) {
      this.toClient.send(chunk, replyDelayMs);
      return;
    }
    const { client } = this.link;
    client.cork();
    for (const reply of this.replies.read(chunk)) {
      this.passReply(reply, replyDelayMs);
    }
    client.uncork();
  }

  private passReply(reply: Buffer, delayMs: number): void {
    if (!this.repliesPass) return;
    const aim = reply[0] === PUSH ? undefined : this.outstanding.shift();
    if (aim === undefined) {
      this.toClient.send(reply, delayMs);
      return;
    }
    if (reply.toString('latin1', 0, 9) === '-NOSCRIPT') {
      aim.release();
      this.toClient.send(reply, delayMs);
      return;
    }
    aim.note();
    const { fault } = aim;
    if (typeof fault === 'object') {
      this.toClient.send(reply, delayMs + delayOf(fault));
      return;
    }
    if (fault === 'skip the reply') return;
    if (fault === 'repeat the reply') {
      this.toClient.send(Buffer.concat([reply, reply]), delayMs);
      return;
    }
    this.repliesPass = false;
    if (fault === 'lose the reply') this.toClient.end(() => this.link.breakBoth());
  }
}

const REPLY_FAULTS: readonly AimedFault[] = [
  'lose the reply',
  'swallow the reply',
  'skip the reply',
  'repeat the reply',
];

function isAboutReply(fault: AimedFault | undefined): boolean {
  if (typeof fault === 'object') return 'replyDelayMs' in fault;
  return fault !== undefined && REPLY_FAULTS.includes(fault);
}

function delayOf(fault: AimedFault | undefined): number {
  if (typeof fault !== 'object' || 'capture' in fault) return 0;
  return 'requestDelayMs' in fault ? fault.requestDelayMs : fault.replyDelayMs;
}
