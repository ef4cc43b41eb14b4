import type { Socket } from 'node:net';
import { TcpRelay, type Link } from '../../servers/tcp-relay.js';

/** A fault of one request and its response. */
export type Fault =
  | 'none'
  /** The server handles the request; the client's connection breaks before the first byte of the response. */
  | 'lose the answer'
  /** The same in the middle of the response. */
  | 'break off the answer'
  /** The same, and the client's connection stays open. */
  | 'answer nothing'
  /** The connection breaks before the request reaches the server. */
  | 'lose the request'
  /** The proxy responds with 503 in place of the server, which never receives the request. */
  | 'unavailable'
  | { readonly delayMs: number };

/** @param exchange - the number of the request, in order of arrival, from 0. */
export type FaultPlan = (exchange: number) => Fault;

const UNAVAILABLE =
  'HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n';

/**
 * A TCP proxy that injects faults into HTTP/1.1 exchanges. It does not parse HTTP: an exchange begins with
 * the client's first bytes after a response, which holds for every client that does not pipeline.
 */
export class FaultProxy extends TcpRelay {
  #exchanges = 0;
  #plan: FaultPlan = () => 'none';

  get url(): string {
    return `http://127.0.0.1:${String(this.port)}`;
  }

  /** How many requests arrived since {@link follow}. */
  get exchanges(): number {
    return this.#exchanges;
  }

  /** Injects faults by this plan from now on. */
  follow(plan: FaultPlan): void {
    this.#exchanges = 0;
    this.#plan = plan;
  }

  protected override pass({ client, server, breakBoth }: Link): void {
    server.on('close', breakBoth);

    let fault: Fault = 'none';
    let isAwaitingReply = false;
    client.on('data', (chunk) => {
      if (!isAwaitingReply) {
        isAwaitingReply = true;
        fault = this.#plan(this.#exchanges);
        this.#exchanges += 1;
      }
      if (fault === 'lose the request') breakBoth();
      else if (fault !== 'unavailable') server.write(chunk);
      else if (client.writable) client.end(UNAVAILABLE);
    });
    server.on('data', (chunk) => {
      isAwaitingReply = false;
      response(chunk, fault, client, breakBoth);
    });
  }
}

function response(chunk: Buffer, fault: Fault, client: Socket, breakBoth: () => void): void {
  switch (fault) {
    case 'lose the answer':
      breakBoth();
      return;
    case 'break off the answer':
      client.write(chunk.subarray(0, chunk.length / 2), breakBoth);
      return;
    case 'answer nothing':
      return;
    case 'none':
    case 'lose the request':
    case 'unavailable':
      client.write(chunk);
      return;
    default:
      setTimeout(() => client.write(chunk), fault.delayMs);
  }
}
