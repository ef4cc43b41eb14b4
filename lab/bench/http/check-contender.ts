import { randomUUID } from 'node:crypto';
import { OTHER_PAYMENT, PAYMENT } from './requests.js';
import type { RunningServer } from './running-server.js';

/** What does not do its work has no figures: a contender has to do all that it is measured at. */
export async function checkContender(server: RunningServer): Promise<void> {
  const { replays, conflict, mismatch } = server.entry;
  const key = randomUUID();
  const first = await responded(server, '/payments', key, PAYMENT, 201, 1);
  if (!replays) return;
  // Some store the outcome after they have answered.
  let repeated = await server.post('/payments', key, PAYMENT);
  while (repeated.status === conflict) repeated = await server.post('/payments', key, PAYMENT);
  const replay = await responded(server, '/payments', key, PAYMENT, 201, 0);
  expect(server, replay === first, `a replay of ${first} is ${replay}`);
  if (mismatch !== undefined) {
    await responded(server, '/payments', key, OTHER_PAYMENT, mismatch, 0);
  }
  if (conflict !== undefined) {
    const heldKey = randomUUID();
    const held = await server.hold(heldKey, PAYMENT);
    await responded(server, '/held', heldKey, PAYMENT, conflict, 0);
    await server.release();
    const { status } = await held.response;
    expect(server, status === 201, `the held request was answered with ${status}`);
  }
}

/** The answer's body, once its status and the effects of the handler are right. */
async function responded(
  server: RunningServer,
  path: string,
  key: string,
  body: string,
  status: number,
  effects: number,
): Promise<string> {
  const before = (await server.state()).effects;
  const response = await server.post(path, key, body);
  const text = await response.text();
  const done = (await server.state()).effects - before;
  expect(server, response.status === status, `${response.status} instead of ${status}: ${text}`);
  expect(server, done === effects, `${done} effects instead of ${effects}`);
  return text;
}

function expect(server: RunningServer, holds: boolean, objection: string): void {
  if (!holds) throw new Error(`${server.name} does not do what it is measured at: ${objection}`);
}
