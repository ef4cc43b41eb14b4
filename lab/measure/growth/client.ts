import {
  KeepAliveConnection,
  sendRaw,
  type RawRequest,
} from '../../../test/support/http/wire/raw-client.js';
import type { RawResponse } from '../../../test/support/http/wire/raw-response.js';

/** How many requests of each kind a client sends in one cycle. */
const ROUND = {
  first: 20,
  replay: 16,
  mismatch: 1,
  failure: 1,
  abandoned: 1,
  /** Of the abandoned one. */
  conflict: 1,
} as const;

export const REQUESTS_OF_A_ROUND = Object.values(ROUND).reduce((sum, some) => sum + some, 0);

const BODY = Buffer.from('{"amount":1990}');
const OTHER_BODY = Buffer.from('{"amount":1991}');

let keys = 0;

/** Repeats itself, changes its mind, and leaves; believes no answer that is not the one it is owed. */
export class Client {
  private readonly connection: KeepAliveConnection;

  constructor(private readonly port: number) {
    this.connection = new KeepAliveConnection(port);
  }

  async runRound(): Promise<void> {
    for (let first = 0; first < ROUND.first; first += 1) {
      const key = newKey();
      expectStatus(await this.post('/payments', key), 201);
      if (first < ROUND.replay) {
        expectStatus(await this.post('/payments', key), 201, true);
      } else if (first < ROUND.replay + ROUND.mismatch) {
        expectStatus(await this.post('/payments', key, OTHER_BODY), 422);
      }
    }
    for (let failure = 0; failure < ROUND.failure; failure += 1) {
      expectStatus(await this.post('/declined', newKey()), 503);
    }
    for (let abandoned = 0; abandoned < ROUND.abandoned; abandoned += 1) await this.abandonOne();
  }

  /** One of two runs until its client is gone, the other is its duplicate. Which is which is not known before. */
  private async abandonOne(): Promise<void> {
    const key = newKey();
    const pair = [0, 1].map(() => sendRaw(this.port, requestOf('/held', key, BODY)));
    expectStatus(await Promise.race(pair.map(({ response }) => response)), 409);
    pair.find(({ responded }) => !responded)?.abandon();
  }

  private post(path: string, key: string, body = BODY): Promise<RawResponse> {
    return this.connection.exchange(requestOf(path, key, body));
  }
}

function requestOf(path: string, key: string, body: Buffer): RawRequest {
  const lines = [
    ['Idempotency-Key', key],
    ['Content-Type', 'application/json'],
  ] as const;
  return { method: 'POST', path, lines, body };
}

function newKey(): string {
  keys += 1;
  return `growth-${keys}`;
}

/** @throws Error when it is another answer. */
function expectStatus(response: RawResponse, status: number, replayed = false): void {
  if (response.status === status && response.replayed === replayed) return;
  const marker = response.replayed ? ' (replayed)' : '';
  throw new Error(
    `not ${status}${replayed ? ' (replayed)' : ''}, but ${response.status}${marker}: ${response.text}`,
  );
}
