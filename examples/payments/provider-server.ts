import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Charge, Payment } from './payment-provider.js';

/** What happens to a request that would charge, in its order. */
export type Plan = 'respond' | 'decline' | 'fail' | 'cut' | 'hang';

/** The API of a payment provider, and its ledger. */
export class ProviderServer {
  /** The money that has moved. */
  readonly ledger: Charge[] = [];
  /** All requests that asked for a charge, and all that looked one up. */
  readonly asked: string[] = [];
  readonly lookUps: string[] = [];
  plan: Plan[] = [];
  /** Whether it finds charges by their reference. */
  canFind = true;
  private readonly known = new Map<string, Charge>();

  private constructor(private readonly server: Server) {
    server.on('request', (request, response) => void this.respond(request, response));
  }

  static async start(): Promise<ProviderServer> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new ProviderServer(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private async respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      const reference = request.url!.split('/').at(-1)!;
      this.lookUps.push(reference);
      const charge = this.canFind ? this.known.get(reference) : undefined;
      send(response, charge === undefined ? 404 : 200, charge);
      return;
    }
    const { card, amount } = (await json(request)) as Payment;
    const key = String(request.headers['idempotency-key']);
    this.asked.push(key);
    const plan = this.plan.shift() ?? 'respond';
    if (plan === 'decline') {
      send(response, 402);
      return;
    }
    if (plan === 'fail') {
      send(response, 500);
      return;
    }
    const charge = this.known.get(key) ?? this.book({ id: randomUUID(), card, amount }, key);
    if (plan === 'cut') response.destroy();
    if (plan === 'respond') send(response, 201, charge);
  }

  private book(charge: Charge, key: string): Charge {
    this.ledger.push(charge);
    this.known.set(key, charge);
    return charge;
  }
}

function send(response: ServerResponse, status: number, body: unknown = {}): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
