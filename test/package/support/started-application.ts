import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import { startServer } from '../../support/servers/start-server.js';
import { environmentOf } from './run-command.js';

export interface Program {
  /** The folder that it runs in. */
  readonly dir: string;
  /** The file of it that Node runs. */
  readonly main: string;
  /** The folder of the Node. */
  readonly bin: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** Starts a program, sends every request twice, and checks its ledger. */
export async function expectOnceEach(program: Program): Promise<void> {
  const { dir, main, bin } = program;
  const app = await startServer(main, { dir }, (port) => ({
    program: join(bin, 'node'),
    args: [main],
    env: { ...environmentOf(bin), ...program.env, PORT: String(port) },
    readyLog: /Nest application successfully started/,
    isReady: () =>
      fetch(`http://127.0.0.1:${String(port)}`).then(
        ({ ok }) => ok,
        () => false,
      ),
  }));
  try {
    const url = `http://127.0.0.1:${String(app.port)}`;
    const key = randomUUID();
    const charge = (amount: number) =>
      fetch(`${url}/charges`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'idempotency-key': key,
          'x-user': 'alice',
        },
        body: JSON.stringify({ amount }),
      });
    const print = () => fetch(`${url}/receipts/${key}`, { method: 'POST' });
    const responses: unknown[] = [];
    for (const send of [() => charge(1250), () => charge(1250), () => charge(999), print, print]) {
      const response = await send();
      const replayed = response.headers.get('idempotent-replayed');
      responses.push([response.status, replayed, await response.json()]);
    }
    const charged = { charge: 1, amount: 1250, attempt: 1 };
    const printed = { order: key, receipt: 1 };
    expect(responses).toEqual([
      [201, null, charged],
      [201, 'true', charged],
      [422, null, expect.objectContaining({ code: 'idempotency_key_reused' })],
      [201, null, printed],
      [201, null, printed],
    ]);
    const ledger = await fetch(`${url}/ledger`);
    expect(await ledger.json()).toEqual({ charges: 1, receipts: 1 });
  } finally {
    await app.stop();
  }
}
